"""What verbs share: the arguments of a run and of a mixture, and what they tell."""

from pagefeed.cli.common.flags import in_flags
from pagefeed.cli.common.formats import configure_paths, open_paths
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
    selected,
)
from pagefeed.cli.common.pairs import configure_storage, pairs_of, storage_options
from pagefeed.cli.common.telling import tell_checks, tell_damage

__all__ = [
    "AnyDataset",
    "configure_paths",
    "configure_run",
    "configure_storage",
    "configure_tokenizer",
    "in_flags",
    "make_dataset",
    "make_loader",
    "make_sequences",
    "make_sound_dataset",
    "make_tokenizer",
    "named_function",
    "open_paths",
    "pairs_of",
    "selected",
    "storage_options",
    "tell_checks",
    "tell_damage",
]
