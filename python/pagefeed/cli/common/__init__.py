"""What verbs share: the arguments of a run and of a mixture, and what they tell."""

from pagefeed.cli.common.options import (
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
    "configure_run",
    "configure_storage",
    "configure_tokenizer",
    "make_dataset",
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
