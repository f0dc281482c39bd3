"""Policies, which compute weights from losses."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Protocol, runtime_checkable

from pagefeed.core._base import warn_user
from pagefeed.errors import InvalidArgumentError, LossWarning

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
    except (TypeError, ValueError):  # Such as dict.update, which has no signature.
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
        >>> Replacing(None).policy is None
        True
    """

    def __init__(self, policy: Policy | None) -> None:
        if policy is not None and not is_policy(policy):
            raise InvalidArgumentError(
                f"policy={policy!r:.60} must be an object with update(step, losses), "
                "or None"
            )
        self.policy = policy


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
