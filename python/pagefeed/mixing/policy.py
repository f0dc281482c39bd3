"""Policies, which compute weights from losses; the simplest sets weights by step."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any, Protocol, runtime_checkable

from pagefeed.core._base import check_whole, warn_user
from pagefeed.errors import InvalidArgumentError, LossWarning
from pagefeed.mixture import check_weights

LARGEST_LOSS = 1e9
"""Losses beyond it, in nats, say that a training diverged, and nothing of datasets."""

Weights = Mapping[str, float]


@runtime_checkable
class Policy(Protocol):
    """Computes weights of datasets from their losses.

    If a policy has ``names``, they are checked against the datasets of the mixture. A
    policy with a memory also has ``state_dict()``, which returns plain JSON types, and
    ``load_state_dict(state)``: checkpoints then contain its state. A property
    ``settings`` may return its settings by name, in plain JSON types: a run can then be
    resumed only with the same settings.

    Example:
        >>> class Uniform:
        ...     def update(self, step, losses):
        ...         return dict.fromkeys(losses, 1) if step >= 1000 else None
        >>> isinstance(Uniform(), Policy)
        True
    """

    def update(self, step: int, losses: Mapping[str, float]) -> Weights | None:
        """Return the weights from a step on.

        Args:
            step: The number of the next step.
            losses: Mean loss by dataset over the tokens of all ranks since the last
                update, of those that had any.

        Returns:
            Weights by name, in tokens or sequences as the mixture counts them; None
            leaves them as they are.
        """


def is_policy(value: object) -> bool:
    """Return whether an object has an ``update`` that takes a step and losses."""
    if isinstance(value, type) or not isinstance(value, Policy):
        return False
    try:
        inspect.signature(value.update).bind(0, {})
    except (TypeError, ValueError):  # A dict has an update, of which none is known.
        return False
    return True


class Replacing:
    """Names the policies that another one may replace at a resume.

    The state of a run with a policy can be loaded only with the same policy and
    settings: otherwise the weights would silently develop differently. With
    ``Replacing(policy)`` instead, a different policy starts fresh from the weights of
    the state.

    Args:
        policy: The policy from now on; None keeps the weights as they are.

    Raises:
        InvalidArgumentError: If ``policy`` is not a policy.

    Example:
        >>> Replacing(FixedSchedule({0: {"web": 1}})).policy.update(0, {})
        {'web': 1}
    """

    def __init__(self, policy: Policy | None) -> None:
        if policy is not None and not is_policy(policy):
            raise InvalidArgumentError(
                f"policy={policy!r:.60} must be an object with update(step, losses), "
                "or None"
            )
        self.policy = policy


class FixedSchedule:
    """Weights by step, independent of the losses.

    A :class:`pagefeed.Stage` sets such weights before a run. Use this policy as a
    baseline for other policies: its weights are set and stored in the same way.

    Args:
        weights: ``{step: {name: weight}}``. Weights apply from the first update at or
            after their step.

    Raises:
        InvalidArgumentError: If steps are not whole numbers, or weights cannot be
            right.

    Example:
        >>> policy = FixedSchedule({100: {"web": 0.5, "code": 0.5}})
        >>> policy.update(50, {}), policy.update(100, {})
        (None, {'web': 0.5, 'code': 0.5})
    """

    def __init__(self, weights: Mapping[int, Weights]) -> None:
        if not isinstance(weights, Mapping) or not weights:
            raise InvalidArgumentError(
                f"weights={weights!r:.60} must be a dict of weights by step, such as "
                "{1000: {'web': 0.5, 'code': 0.5}}"
            )
        checked = {
            check_whole(step, "step", least=0): check_weights(shares, shares)
            for step, shares in weights.items()
        }
        self._weights = dict(sorted(checked.items()))
        self._last = -1

    @property
    def names(self) -> set[str]:
        """The datasets that are given weights."""
        return {name for weights in self._weights.values() for name in weights}

    @property
    def settings(self) -> dict[str, Any]:
        """Arguments of the policy."""
        return {
            "weights": {str(step): shares for step, shares in self._weights.items()}
        }

    def update(self, step: int, losses: Mapping[str, float]) -> Weights | None:
        """Return the weights of the last step of the schedule that was reached."""
        del losses
        reached = max((start for start in self._weights if start <= step), default=-1)
        if reached == self._last:
            return None
        self._last = reached
        return self._weights.get(reached)

    def state_dict(self) -> dict[str, Any]:
        """Return the step whose weights hold."""
        return {"last": self._last}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from a state."""
        self._last = check_whole(state["last"], "last", least=-1)


def usable_losses(
    step: int, losses: Mapping[str, float], *, warns: bool = True
) -> dict[str, float]:
    """Return the finite losses, and warn of others."""
    finite = {name: loss for name, loss in losses.items() if abs(loss) <= LARGEST_LOSS}
    for name in losses.keys() - finite.keys() if warns else ():
        warn_user(
            f"step {step}: the loss of {name!r} is {losses[name]}, and is left out of "
            "this update of weights",
            LossWarning,
        )
    return finite
