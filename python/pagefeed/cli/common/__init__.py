"""What verbs share: the arguments of a run and of a mixture, and what they tell."""

from pagefeed.cli.common.flags import in_flags
from pagefeed.cli.common.formats import format_of, make_flat
from pagefeed.cli.common.options import (
    AnyDataset,
    configure_run,
    configure_tokenizer,
    make_dataset,
    make_loader,
    make_sequences,
    make_sound_dataset,
    make_tokenizer,
    named_function,
)
from pagefeed.cli.common.pairs import configure_storage, pairs_of, storage_options
from pagefeed.cli.common.telling import tell_checks, tell_damage

__all__ = [
    "AnyDataset",
    "configure_run",
    "configure_storage",
    "configure_tokenizer",
    "format_of",
    "in_flags",
    "make_dataset",
    "make_flat",
    "make_loader",
    "make_sequences",
    "make_sound_dataset",
    "make_tokenizer",
    "named_function",
    "pairs_of",
    "storage_options",
    "tell_checks",
    "tell_damage",
]
