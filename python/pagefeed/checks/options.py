"""Table of the options that a kind of source cannot do, which a loader refuses.

Docs show it with the options that work, see docs/reference/options.md.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any, NamedTuple

from pagefeed.core._base import warn_user
from pagefeed.core.batches import Fields, LoaderSettings
from pagefeed.core.sequences import TokenCut, Windows
from pagefeed.errors import InvalidArgumentError, PagefeedWarning

KINDS = {
    "tokens": "Parquet columns of tokens, with `Windows` or `Packed`",
    "flat": "token files other than Parquet, with `Windows` or `Packed`",
    "text": "texts with `tokenize(tokenizer)`, and `Windows` or `Packed`",
    "mixture": "`pagefeed.mix`: its datasets must support the option, too",
    "documents": "`Documents(max_length=)`: padded tokens of a row",
    "rows": "`Documents()`: columns of a row",
}
"""Kinds of source, and what they are."""


class Option(NamedTuple):
    """An argument of a loader, or of its dataset, that some kinds refuse."""

    name: str
    """The option, as the user writes it."""
    is_asked: Callable[[LoaderSettings], Any]
    """Whether settings ask for it."""
    refused: Collection[str]
    """Kinds that refuse it."""
    instead: str
    """Advice on what to do instead."""


def _parts(settings: LoaderSettings) -> list[Any]:
    """The datasets that a loader reads, by name."""
    return list(settings.dataset.parts.values())


OPTIONS: tuple[Option, ...] = (
    Option(
        "batch_tokens=",
        lambda s: s.batch_tokens is not None,
        ("rows",),
        "give batch_size, or Documents a max_length and no pad= by columns",
    ),
    Option(
        "balance=",
        lambda s: s.balance,
        ("rows",),
        "leave it out, or give Documents a max_length and no pad= by columns",
    ),
    Option(
        "context_parallel=",
        lambda s: s.context_parallel,
        ("rows",),
        "give Windows, Packed or Documents(max_length=..., pad='max_length')",
    ),
    Option(
        "fields=('labels', ...)",
        lambda s: {*s.fields.names} - {"input_ids", "dataset_ids", "metadata"},
        ("rows",),
        "give Documents a max_length",
    ),
    Option(
        "fields=('metadata',)",
        lambda s: "metadata" in s.fields.names,
        ("rows",),
        "columns come as they are with Documents(columns=[...])",
    ),
    Option(
        "spans=",
        # A stream always has span columns: check only what the user gave.
        lambda s: any(
            data.span_columns
            and (data.kind != "flat" or s.sequences.delivers == "tokens")
            for data in _parts(s)
        ),
        ("rows",),
        "leave them out, or name their columns in Documents(columns=[...])",
    ),
    Option(
        "decode=",
        lambda s: s.decode,
        ("tokens", "flat", "text"),
        "take rows with Documents(columns=[...])",
    ),
    Option(
        "epochs=2",
        lambda s: s.epochs not in (1, None),
        ("mixture",),
        "give epochs=1 if the mixture has a stop, max_steps, max_tokens or "
        "max_epochs, and else None",
    ),
    Option(
        "epochs=None",
        lambda s: s.epochs is None and s.dataset.has_end,
        ("mixture",),
        "this mixture ends by its stop, max_steps, max_tokens or max_epochs, so "
        "leave epochs=1",
    ),
)
"""The table."""


def kinds_of(settings: LoaderSettings) -> set[str]:
    """Return the kinds of source that these settings read."""
    source, delivers = settings.dataset, settings.sequences.delivers
    parts = source.parts.values()
    kinds = {data.kind if delivers == "tokens" else delivers for data in parts}
    return kinds | ({source.kind} & {"mixture"})


def check_options(settings: LoaderSettings) -> None:
    """Refuse settings that the kind of source cannot do; warn of joined documents.

    Raises:
        InvalidArgumentError: Naming the option, the kind, and what to do.
    """
    kinds = kinds_of(settings)
    for option in OPTIONS:
        for kind in kinds.intersection(option.refused):
            if option.is_asked(settings):
                raise InvalidArgumentError(
                    f"{_asked(option, settings)} does not go with "
                    f"{KINDS[kind].partition(':')[0]}: {option.instead}"
                )
    _check_parts(settings)
    _check_fleet(settings)
    _check_nodes(settings)
    tokenizer = _tokenizer_of_texts(settings)
    warn_of_texts(tokenizer, settings.sequences, settings.fields)


def _check_fleet(settings: LoaderSettings) -> None:
    """Refuse settings that need a fixed number of ranks, or steps of one size."""
    if settings.fleet is not None and settings.balance is not None:
        raise InvalidArgumentError(
            f"balance={settings.balance!r} deals sequences for one number of ranks, "
            "and with global_batch_size= that number changes: leave balance out, or "
            "give batch_size and a new Loader for each number of ranks"
        )
    if settings.dataset.kind == "mixture" and isinstance(
        settings.global_batch_size, list
    ):
        raise InvalidArgumentError(
            f"global_batch_size={settings.global_batch_size} has stages, and weights "
            "of a mixture change at steps of one size: give one size"
        )


def _check_nodes(settings: LoaderSettings) -> None:
    """Refuse settings that move sequences between nodes; warn of other ranks."""
    nodes, world_size = settings.shuffle.nodes, settings.world_size
    if nodes is None:
        return
    asked = {
        "balance=": settings.balance,
        "batch_tokens=": settings.batch_tokens,
        "global_batch_size=": settings.fleet,
        "epochs=": settings.epochs != 1 and settings.dataset.kind != "mixture",
    }
    for name in (name for name, is_asked in asked.items() if is_asked):
        raise InvalidArgumentError(
            f"{name} gives ranks sequences of all nodes, so that {nodes!r} has no use: "
            "leave one of the two out"
            + ", and iterate once for each epoch"
            * (name == "epochs=")
        )
    if world_size != nodes.world_size:
        warn_user(
            f"{nodes!r} are {nodes.world_size} ranks, and this run has "
            f"{world_size}: the order stays, and each rank reads files of all nodes",
            PagefeedWarning,
        )


def _check_parts(settings: LoaderSettings) -> None:
    """Refuse labels that a loss would shift inside a part of a sequence.

    At the ends of chunks, the loss would pair tokens that are not neighbours.
    """
    fields = settings.fields
    if settings.context_parallel and "labels" in fields.names and not fields.shifted:
        raise InvalidArgumentError(
            f"{settings.context_parallel!r} cuts sequences, so that the loss cannot "
            "shift labels: the next token may be on another rank. Give fields="
            f"pagefeed.Fields(names={fields.names!r}, shifted=True), and a loss that "
            "compares logits[i] with labels[i]"
        )


def _asked(option: Option, settings: LoaderSettings) -> str:
    name = option.name.partition("=")[0].partition("(")[0]
    value = getattr(settings, name.lower(), None)
    if option.name.startswith(("Packed", "Documents", "Windows")):
        value = settings.sequences
    shown = f"{name.lower()}={value!r}"
    return option.name if value is None or len(shown) > 80 else shown


def warn_of_texts(tokenizer: Any, cut: Any, fields: Fields) -> None:
    """Warn of texts that are joined without a separator, or whose end has no label.

    Args:
        tokenizer: Tokenizer of plain texts. With None there is no warning: rows of
            tokens may already end with a separator.
        cut: How the texts are cut.
        fields: The fields of batches.
    """
    if tokenizer is None or not isinstance(cut, TokenCut) or cut.eos is not None:
        return
    if isinstance(cut, Windows) and cut.bos is None and tokenizer.eos is not None:
        warn_user(
            f"{cut!r} joins documents without a separator, and the tokenizer "
            f"{tokenizer.name!r} has one: give Windows({cut.length}, "
            f"eos={tokenizer.eos})",
            PagefeedWarning,
        )
    has_labels = not {"labels", "loss_mask"}.isdisjoint(fields.names)
    if cut.bos is not None and has_labels and not fields.across_documents:
        warn_user(
            f"no label of {cut!r} says where a document ends: bos begins the next one "
            "and carries no loss. Give eos=, or fields=pagefeed.Fields(names="
            f"{fields.names!r}, across_documents=True), where bos is the last label",
            PagefeedWarning,
        )


def _tokenizer_of_texts(settings: LoaderSettings) -> Any:
    """Return the tokenizer of the first plain texts, without a template; or None."""
    for data in _parts(settings):
        if data.tokenizer is not None and data.row_encoder is None:
            return data.tokenizer
    return None
