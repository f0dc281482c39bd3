"""Settings of the Trainer and of TRL that say how data are read: a loader decides."""

from __future__ import annotations

from typing import Any, NamedTuple

from pagefeed.core._base import warn_user
from pagefeed.errors import PagefeedWarning


class Decided(NamedTuple):
    """A setting that the loader decides."""

    usual: object
    """Value of the setting by default."""
    instead: str
    """Setting that decides."""


DECIDED = {
    "data_seed": Decided(None, "`Loader(seed=)`"),
    "dataloader_drop_last": Decided(False, "`Loader(drop_last=)`"),  # noqa: FBT003
    "dataloader_num_workers": Decided(0, "`Loader(num_threads=)`: no processes"),
    "dataloader_prefetch_factor": Decided(None, "`Loader(memory=)`"),
    "dataloader_persistent_workers": Decided(False, "no processes"),  # noqa: FBT003
    "group_by_length": Decided(False, "`Packed`, or `balance=`"),  # noqa: FBT003
    "train_sampling_strategy": Decided(
        "random", "`Loader(shuffle=)`; `Packed`, or `balance=` for lengths"
    ),
    "packing": Decided(False, "`sequences=Packed(length)`"),  # noqa: FBT003
    "eval_packing": Decided(None, "`sequences=` of the evaluation's loader"),
    "padding_free": Decided(False, "`attach(flatten=True)`"),  # noqa: FBT003
    "shuffle_dataset": Decided(False, "`Loader(shuffle=)`"),  # noqa: FBT003
    "completion_only_loss": Decided(None, "the labels of the loader"),
    "assistant_only_loss": Decided(False, "the labels of the loader"),  # noqa: FBT003
}
"""By the name in ``TrainingArguments`` or ``SFTConfig``."""


def warn_of_settings(args: Any) -> None:
    """Warn of each setting that has no effect, as a loader decides."""
    for name, (usual, instead) in DECIDED.items():
        value = getattr(args, name, usual)
        if value != usual:
            warn_user(
                f"{name}={value!r} has no effect; in its place: "
                f"{instead.replace('`', '')}",
                PagefeedWarning,
            )
