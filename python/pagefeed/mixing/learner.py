"""A policy at work: losses of tokens on all ranks go in, weights come out."""

from __future__ import annotations

import math
import sys
from typing import Any

import numpy as np
import numpy.typing as npt

from pagefeed.core._base import IGNORED, check_flag, check_positive, logger, require
from pagefeed.core.loader import Loader
from pagefeed.errors import (
    CancelledError,
    InvalidArgumentError,
)
from pagefeed.mixing.memory import Memory, on_host
from pagefeed.mixing.policy import Policy, Replacing, is_policy, usable_losses
from pagefeed.mixture import Mixture, check_names, check_weights

TOKENS_AT_ONCE = 1 << 10
"""Tokens whose logits are converted to float32 together."""


def token_losses(logits: Any, labels: Any, *, ignore_index: int = IGNORED) -> Any:
    """Return the cross entropy of every label, without gradients.

    Logits are converted to float32 in pieces, so that little extra memory is needed.

    Args:
        logits: [..., tokens, vocabulary], each for the label at the same position.
        labels: int [..., tokens].
        ignore_index: Label without a loss. Its result is 0.

    Returns:
        A tensor of the labels' shape.

    Example:
        >>> import torch
        >>> token_losses(torch.zeros(1, 3, 4), torch.tensor([[1, -100, 2]]))
        tensor([[1.3863, 0.0000, 1.3863]])
    """
    torch = require("torch", extra="torch", purpose="losses of datasets")
    precise = torch.promote_types(logits.dtype, torch.float32)
    with torch.no_grad():
        flat, targets = logits.detach().flatten(0, -2), labels.reshape(-1)
        losses = [
            torch.nn.functional.cross_entropy(
                flat[begin : begin + TOKENS_AT_ONCE].to(precise),
                targets[begin : begin + TOKENS_AT_ONCE],
                ignore_index=ignore_index,
                reduction="none",
            )
            for begin in range(0, len(targets), TOKENS_AT_ONCE)
        ]
        return torch.cat(losses).reshape(labels.shape)


class Learner:
    """Adds up losses by dataset over all ranks, and lets a policy change the weights.

    Every rank has a learner, and calls :meth:`add` for its batches and :meth:`step`
    after each step of the optimizer. Losses are exact means over the tokens of all
    ranks, and the same on every rank. The policy of the first rank decides the weights.
    They apply from the next step of the loader on, even if batches were prefetched. The
    loader's state contains the weights: a resumed run delivers the same sequences, on
    any number of ranks. The state also contains the policy's own state and the sums
    since its last update, so that a resumed run decides as the run before would have.

    Framework adapters make a learner if the loader has the field ``dataset_ids``.

    Args:
        loader: A loader of a mixture with the fields ``dataset_ids`` and ``labels``.
        policy: Policy that computes weights from losses; None only adds up losses. A
            loaded state must be of the same policy, see :class:`Replacing`.
        every: Steps of the loader between two updates.
        group: A process group of torch, or a function that gathers plain objects over
            all ranks, such as :func:`pagefeed.integrations.jax.gather`. By default all
            processes of torch's group, if there is one.

    Raises:
        InvalidArgumentError: If an argument cannot be right.

    For example::

        learner = pf.mixing.Learner(loader, policy)  # An object with update().
        for batch in loader:
            logits = model(batch["input_ids"])
            learner.add(batch["dataset_ids"], batch["labels"], logits=logits)
            ...
            optimizer.step()
            learner.step()
            log(learner.means())  # {"loss/web": 2.31, "loss/code": 1.02}
    """

    def __init__(
        self,
        loader: Loader,
        policy: Policy | Replacing | None = None,
        *,
        every: int = 100,
        group: Any = None,
    ) -> None:
        if not isinstance(loader, Loader) or not isinstance(loader.dataset, Mixture):
            raise InvalidArgumentError(
                f"a Learner needs the Loader of a mixture, found {loader!r:.60}: "
                "Loader(pagefeed.mix({'web': (web, 0.7), ...}), ...)"
            )
        missing = {"dataset_ids", "labels"} - {*loader.fields.names}
        if missing:
            raise InvalidArgumentError(
                f"a Learner needs {', '.join(sorted(missing))}: give the Loader "
                f"fields={(*loader.fields.names, *sorted(missing))!r}"
            )
        self.check_policy(policy)
        if group is not None and not callable(group) and not hasattr(group, "size"):
            raise InvalidArgumentError(
                f"group={group!r:.60} must be a process group of torch, or a function "
                "that gathers plain objects"
            )
        self.loader = loader
        self.every = check_positive(every, "every")
        self._memory = Memory(policy, self.every, loader.dataset_names)
        self.policy = self._memory.policy
        names = getattr(self.policy, "names", ())
        check_names(names, dict.fromkeys(loader.dataset_names))
        self._group = group
        self._names = loader.dataset_names
        self._shift = 0 if loader.fields.shifted else 1
        self._ignored = loader.fields.ignore_index
        self._added: Any = None
        self._logged: Any = np.zeros((2, len(self._names)))
        loader.view().learn(self._memory)

    @staticmethod
    def check_policy(policy: object) -> None:
        """Check a policy before there is a loader for it.

        Args:
            policy: A policy, a :class:`Replacing` or None.

        Raises:
            InvalidArgumentError: If it is anything else.

        Example:
            >>> Learner.check_policy(None)
        """
        is_known = policy is None or isinstance(policy, Replacing)
        if not is_known and not is_policy(policy):
            raise InvalidArgumentError(
                f"policy={policy!r:.60} must be an object with update(step, losses), "
                "such as those of examples/policies"
            )

    def add(
        self,
        dataset_ids: Any,
        labels: Any,
        *,
        logits: Any = None,
        losses: Any = None,
        shifted: bool | None = None,
    ) -> None:
        """Add the losses of a batch of this rank; nothing is communicated.

        Args:
            dataset_ids: int [rows], as the batch has them.
            labels: int [rows, tokens], as the model was given them, or joined:
                [1, rows * tokens] or [rows * tokens].
            logits: [..., vocabulary], one for each label. They cost another cross
                entropy, without gradients.
            losses: Alternatively, the loss of each label, in the shape of the labels.
                Losses of ignored labels do not count. If labels are at the position of
                their token, the loss of a label is at that position too, and the first
                loss of a row is not used.
            shifted: Whether a label is at the position where it is predicted, one
                before its token. By default as the loader's labels are.

        Raises:
            InvalidArgumentError: If there is not exactly one of logits and losses, or
                shapes do not fit.
        """
        shift = self._shift if shifted is None else not check_flag(shifted, "shifted")
        if (logits is None) == (losses is None):
            raise InvalidArgumentError(
                "give either logits or losses: the loss of each token is needed, and "
                "the mean of a batch does not tell its datasets apart"
            )
        self._check(dataset_ids, labels, logits, losses)
        rows = len(dataset_ids)
        xp: Any = np
        if hasattr(labels, "detach"):
            xp = require("torch", extra="torch", purpose="losses of datasets")
            dataset_ids = xp.as_tensor(dataset_ids, device=labels.device)
        labels = labels.reshape(rows, -1) if labels.ndim < 2 else labels
        whole = labels.shape
        tokens = _size(labels) // rows
        repeat = xp.repeat if xp is np else xp.repeat_interleave
        numbers = repeat(dataset_ids, tokens).reshape(whole)[..., shift:]
        targets = labels[..., shift:]
        if logits is not None:
            logits = logits.reshape(*whole, logits.shape[-1])
            losses = token_losses(
                logits[..., : targets.shape[-1], :], targets, ignore_index=self._ignored
            )
        else:
            losses = losses.reshape(whole)[..., shift:]
        counted = (targets != self._ignored) & (numbers >= 0)
        numbers, losses = numbers[counted], losses[counted]
        if xp is np:
            size = len(self._names)
            sums = [
                np.bincount(numbers, weights=weights, minlength=size)
                for weights in (np.asarray(losses, dtype=np.float64), None)
            ]
            added: Any = np.array(sums, dtype=np.float64)
        else:
            values = xp.stack([losses.detach().double(), xp.ones_like(losses).double()])
            added = values.new_zeros(2, len(self._names))
            added.index_add_(1, numbers.long(), values)
        self._added = added if self._added is None else self._added + added

    def _check(self, dataset_ids: Any, labels: Any, logits: Any, losses: Any) -> None:
        """Refuse arrays of other shapes, without a copy from the device."""
        given = {"dataset_ids": dataset_ids, "labels": labels}
        given |= {"losses": losses} if logits is None else {"logits": logits}
        for name, array in given.items():
            if not hasattr(array, "reshape") or not array.shape:
                raise InvalidArgumentError(
                    f"{name}={array!r:.60} must be an array or a tensor"
                )
        ids, whole, last = (tuple(array.shape) for array in given.values())
        size, rows = _size(labels), ids[0]
        values = _size(losses) if logits is None else _size(logits) // max(1, last[-1])
        is_joined = len(whole) < 2 or whole[0] == 1
        if not (
            (len(ids) == 1 and rows and size % rows == 0)
            and (is_joined or whole[0] == rows)
            and values == size
        ):
            raise InvalidArgumentError(
                f"dataset_ids {[*ids]}, labels {[*whole]} and {[*given][-1]} {[*last]} "
                "do not fit: give the dataset_ids of a batch, a label for each token "
                "of its rows, and a loss, or the logits, for each label"
            )
        if "int" not in str(dataset_ids.dtype):
            raise InvalidArgumentError(
                f"dataset_ids are {dataset_ids.dtype}: give those of the batch, int32"
            )
        is_here = getattr(getattr(dataset_ids, "device", None), "type", "cpu") == "cpu"
        if is_here and int(dataset_ids.max()) >= len(self._names):
            raise InvalidArgumentError(
                f"dataset_ids go to {int(dataset_ids.max())}, and the loader has "
                f"{len(self._names)} datasets: give those of the rank's batch"
            )

    def step(self) -> bool:
        """End a step: add up over all ranks, and update the weights if it is time.

        Call it on all ranks after each step of the optimizer, even on a rank that had
        nothing to add, such as in the first stages of a pipeline.

        Returns:
            Whether the weights changed.

        Raises:
            CancelledError: If the policy failed on another rank. On that rank its own
                error is raised.
        """
        added, self._added = self._added, None
        if added is None:
            added = np.zeros((2, len(self._names)))
        added = sums_over(added, self._group)
        view = self.loader.view()
        view.check_state()
        memory, step = self._memory, view.num_given
        memory.sums, self._logged = (
            _plus(sums, added) for sums in (memory.sums, self._logged)
        )
        # A new iteration or a seek may have moved to an earlier step.
        before, memory.at = min(memory.at, step - 1), step
        if self.policy is None or step // self.every == before // self.every:
            return False
        losses = usable_losses(step, self._means(memory.sums), warns=self._rank == 0)
        memory.sums = np.zeros((2, len(self._names)))
        return self._decide(step, losses)

    @property
    def _rank(self) -> int | None:
        """The rank of the last batch: in a fleet it changes, and may be none."""
        return self.loader.view().rank_and_size[0]

    def _decide(self, step: int, losses: dict[str, float]) -> bool:
        """Ask the policy for weights; the first rank's answer is set on all ranks."""
        chosen, problem = np.full(len(self._names), -1.0), None
        try:
            chosen = self._chosen(step, losses, chosen)
        except Exception as error:  # noqa: BLE001 - raised below
            problem = error
        is_first, failed = self._rank == 0, problem is not None
        # A sum of one rank's numbers and zeros is equal on all ranks, to the last bit.
        # Failures travel along, so that no rank waits for a failed one.
        flags = [is_first, failed, failed * (self._rank or 0)]
        sent = np.append(np.where(is_first, chosen, 0.0), flags)
        answer = np.asarray(on_host(sums_over(sent, self._group)))
        answer, (firsts, failures, rank) = answer[:-3], answer[-3:]
        if problem is not None:
            raise problem
        if failures:
            where = f"rank {rank:.0f}" if failures == 1 else f"{failures:.0f} ranks"
            raise CancelledError(
                f"the policy {type(self.policy).__name__} failed on {where} at step "
                f"{step}, and all ranks end: the log of that rank says why"
            )
        answer /= firsts
        if (answer < 0).any():
            return False
        self.loader.set_weights(dict(zip(self._names, answer.tolist(), strict=True)))
        shares = ", ".join(
            f"{name} {weight / answer.sum():.3f}"
            for name, weight in zip(self._names, answer.tolist(), strict=True)
        )
        if is_first:
            logger.info("weights from step %d on: %s", step, shares)
        return True

    def _chosen(
        self, step: int, losses: dict[str, float], unchanged: npt.NDArray[np.float64]
    ) -> npt.NDArray[np.float64]:
        """Return the policy's weights by number, or the value that means no change."""
        weights = None if self.policy is None else self.policy.update(step, losses)
        self._memory.state_dict()  # Raises now if the policy's state cannot be saved.
        if weights is None:
            return unchanged
        weights = check_weights(weights, dict.fromkeys(self._names))
        return np.array([weights.get(name, 0.0) for name in self._names], float)

    def means(self) -> dict[str, float]:
        """Return ``loss/NAME`` of each dataset since the last call, over all ranks.

        Nothing is communicated, since :meth:`step` has added up the losses. Datasets
        without a label are left out.
        """
        means = self._means(self._logged)
        self._logged = np.zeros((2, len(self._names)))
        return {f"loss/{name}": loss for name, loss in means.items()}

    def _means(self, sums: Any) -> dict[str, float]:
        totals, counts = on_host(sums)
        rows = zip(self._names, totals, counts, strict=True)
        return {name: float(total / count) for name, total, count in rows if count}


def _size(array: Any) -> int:
    return math.prod(array.shape)


def _plus(sums: Any, added: Any) -> Any:
    """Add up; nothing waits for a device."""
    if isinstance(sums, np.ndarray) and not isinstance(added, np.ndarray):
        sums = added.new_tensor(sums)
    return sums + added


def sums_over(values: Any, group: Any = None) -> Any:
    """Return the sums of float64 numbers over the ranks of a group.

    Args:
        values: An array or a tensor, of the same shape everywhere.
        group: A process group of torch; None for all processes, or for this one where
            nothing was initialised; or a function that gathers plain objects.

    Returns:
        An array, or a tensor on the device that the group's backend needs.
    """
    if callable(group):
        mine = values if isinstance(values, np.ndarray) else values.cpu().numpy()
        return np.sum(group(mine), axis=0)
    torch: Any = sys.modules.get("torch")
    if torch is None or not torch.distributed.is_available():
        return values
    distributed = torch.distributed
    if not distributed.is_initialized():
        return values
    tensor = torch.as_tensor(values, dtype=torch.float64).clone()
    if "gloo" not in distributed.get_backend(group) and not tensor.is_cuda:
        tensor = tensor.to(torch.accelerator.current_accelerator())
    distributed.all_reduce(tensor, group=group)
    return tensor
