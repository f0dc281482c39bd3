"""What verbs share: the arguments of a run and of a mixture, and what they tell."""

from pagefeed.cli.common.flags import in_flags
from pagefeed.cli.common.formats import (
    configure_paths,
    open_parquet,
    open_paths,
    same_named,
)
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
from pagefeed.cli.common.telling import (
    as_json,
    check_lines,
    tell,
    tell_damage,
    tell_facts,
)

__all__ = [
    "AnyDataset",
    "as_json",
    "check_lines",
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
    "open_parquet",
    "open_paths",
    "pairs_of",
    "same_named",
    "selected",
    "storage_options",
    "tell",
    "tell_damage",
    "tell_facts",
]
