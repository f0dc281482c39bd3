"""Memory of a working policy, as a part of the loader's state."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from pagefeed.core._base import MOST, check_text, check_whole
from pagefeed.core.run import StatePart
from pagefeed.errors import InvalidArgumentError, StateMismatchError
from pagefeed.mixing.policy import Policy, Replacing

VERSION = 2


def _as_it_is(remembered: Any) -> Any:
    return remembered


LEARNING = StatePart(to_json=_as_it_is, from_json=_as_it_is)
"""In states: the memory of a learner, which checks it when it continues."""


class Memory:
    """Memory of a learner between steps; a part of the loader's state.

    It does not know the loader, which keeps it.

    Args:
        policy: Makes weights of losses.
        every: Steps between two updates.
        names: The datasets, by number.
    """

    def __init__(
        self, policy: Policy | Replacing | None, every: int, names: Sequence[str]
    ) -> None:
        self._replaces = isinstance(policy, Replacing)
        self.policy: Any = policy.policy if isinstance(policy, Replacing) else policy
        self._every = every
        self._names = names
        self._first = self._remembered()
        self.at = 0
        """The loader's step at the end of the last step."""
        self.sums: Any = np.zeros((2, len(names)))
        """Sums of losses, and labels, since the last update: [2, datasets]."""

    @property
    def _plan(self) -> dict[str, Any]:
        """Return what decides on weights besides losses, as plain JSON."""
        policy, settings = self.policy, getattr(self.policy, "settings", None)
        name = None if policy is None else type(policy).__name__
        return {"policy": name, "every": self._every, "settings": _plain(settings)}

    def _remembered(self) -> Any:
        """Return a copy of what the policy remembers."""
        remembers = hasattr(self.policy, "state_dict")
        if not remembers:
            return None
        state = self.policy.state_dict()
        try:
            return _plain(state)
        except (TypeError, ValueError) as error:
            raise InvalidArgumentError(
                f"the state_dict() of {type(self.policy).__name__} must be of plain "
                f"JSON types, without NaN and infinity: {error}; found {state!r:.200}"
            ) from None

    def state_dict(self) -> dict[str, Any]:
        """Return the learner's part of the loader's state, as plain JSON."""
        return {
            "version": VERSION,
            **self._plan,
            "state": self._remembered(),
            "at": self.at,
            "names": list(self._names),
            # Strict JSON has no number for a loss that is not finite.
            "sums": [
                [value if math.isfinite(value) else None for value in values]
                for values in on_host(self.sums).tolist()
            ],
        }

    def check(self, state: Mapping[str, Any] | None) -> None:
        """Refuse a state from which the policy cannot continue.

        Raises:
            StateMismatchError: If something else, or another policy, saved it.
        """
        if state is None:
            return
        version = state.get("version") if isinstance(state, Mapping) else VERSION
        if version != VERSION:
            raise StateMismatchError(
                f"the state of a Learner has version {version!r:.60}, this release "
                f"reads {VERSION}: continue the run with the release that began it"
            )
        try:
            plan = {name: state[name] for name in self._plan}
            check_whole(state["at"], "at", least=0, most=MOST)
            sums = np.array(state["sums"], dtype=np.float64)
            names = [check_text(name, "names") for name in state["names"]]
            is_whole = "state" in state and sums.shape == (2, len(names))
        except (KeyError, TypeError, ValueError):
            is_whole = False
        if not is_whole:
            raise StateMismatchError(
                f"this is not what a Learner's state_dict() returned: {state!r:.200}"
            )
        if plan["policy"] is not None and not self._replaces:
            check_policy(plan, self._plan)

    def load_state_dict(self, state: Mapping[str, Any] | None, step: int) -> None:
        """Continue from a state. With None, begin at a step of the loader.

        Raises:
            StateMismatchError: If it is something else, or of another policy.
        """
        self.check(state)
        remembered, self.at = self._first, step
        self.sums = np.zeros((2, len(self._names)))
        if state is not None:
            self.at = int(state["at"])
            sums = zip(*state["sums"], strict=True)
            by_name = dict(zip(state["names"], sums, strict=True))
            pairs = [by_name.get(name, (0.0, 0.0)) for name in self._names]
            self.sums = np.array(pairs, dtype=np.float64).T.reshape(2, -1)
            if _differences({k: state[k] for k in self._plan}, self._plan) == []:
                remembered = state["state"]
        if remembered is not None:
            # A copy: a policy may keep what it is given.
            self.policy.load_state_dict(_plain(remembered))


def check_policy(before: Mapping[str, Any], now: Mapping[str, Any]) -> None:
    """Refuse to resume with a different policy than the state records.

    Raises:
        StateMismatchError: The message names the settings that differ, and what to do.
    """
    differing = _differences(before, now)
    if not differing:
        return
    if now["policy"] is None:
        policy = (
            f"{before['policy']!s:.60}, and the loader has none: its weights would stay"
        )
    elif differing[0][0] == "policy":
        policy = f"{before['policy']!s:.60}, and the loader has {now['policy']}"
    else:
        name, old, new = differing[0]
        policy = (
            f"{before['policy']!s:.60} with {name}={old!r:.60}, "
            f"and now it is {new!r:.60}"
        )
    raise StateMismatchError(
        f"the state is of a run under the policy {policy}. Give the same as before, "
        "such as attach(trainer, loader, policy=..., every=...) or Learner(loader, "
        "policy, every=...); or continue otherwise, on purpose: "
        "pagefeed.mixing.Replacing(policy) begins another policy, Replacing(None) "
        "keeps the weights"
    )


def check_unlearned(before: Any) -> None:
    """Refuse to continue a learner's state where nothing learns.

    Raises:
        StateMismatchError: Naming the policy, and the ways on.
    """
    if isinstance(before, Mapping) and before.get("policy"):
        raise StateMismatchError(
            f"the state is of a run under the policy {before['policy']!s:.60}, and "
            "nothing would change this loader's weights: give the trainer's "
            "adapter policy=..., or make a pagefeed.mixing.Learner(loader, policy, "
            "every=...) before the first batch; with the policy "
            "pagefeed.mixing.Replacing(None) the weights stay"
        )


def _differences(
    before: Any, now: Any, name: str = ""
) -> list[tuple[str, object, object]]:
    """List what differs, first the policy; names that only one has may be added."""
    if not isinstance(before, Mapping) or not isinstance(now, Mapping):
        return [] if before == now else [(name, before, now)]
    return [
        difference
        for key in before
        if key in now
        for difference in _differences(
            before[key], now[key], key if name in ("", "settings") else f"{name}[{key}]"
        )
    ]


def _plain(values: Any) -> Any:
    """Return a copy of plain JSON types."""
    return json.loads(json.dumps(values, allow_nan=False))


def on_host(values: Any) -> npt.NDArray[np.float64]:
    """Return an array, also of a device."""
    if isinstance(values, np.ndarray):
        return values
    host: npt.NDArray[np.float64] = values.cpu().numpy()
    return host
