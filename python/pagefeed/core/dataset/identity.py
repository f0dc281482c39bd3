"""Records of datasets in states, and their differences.

The fingerprint decides whether two datasets are the same. The other facts of a record
are for messages that say what changed.
"""

from __future__ import annotations

import hashlib
from typing import Any, NamedTuple

import numpy as np

from pagefeed.core.dataset.dataset import Dataset

DIGITS = 12
"""Digits of the fingerprint in a record."""


class _Identity(NamedTuple):
    """Facts of a dataset, short enough for a state."""

    fingerprint: str
    """Fingerprint of the selected rows, and of their tokenizer."""
    files: int
    rows: int
    """Rows of all files, as is the number of tokens."""
    tokens: int
    selected: int
    """Rows that are selected."""
    contents: str
    """Digest of all files in their order, and of the column."""
    sizes: str
    """Digest of the numbers of rows and tokens of the files, in any order."""
    tokenizer: str
    """Digest of the tokenizer and chat template; ``-`` without a tokenizer."""
    snapshot: str = ""
    """Snapshot of a table, for messages. Only the contents decide about a match.
    """
    infill: str = ""
    """Identity of the infilling; "" without infilling."""


COUNTS = {
    "files": "files",
    "rows": "rows in them",
    "tokens": "tokens in them",
    "selected": "rows that are selected",
}


def identity_of_data(dataset: Dataset) -> str:
    """Return the record of a dataset: facts with blanks between them."""
    index: Any = dataset.index
    infill = index.infill
    index = index if infill is None else index.plain
    sizes = np.array([np.diff(index.file_first_row), np.diff(index.file_first_value)])
    tokenizer, rows = index.tokenizer, index.rows
    facts = _Identity(
        fingerprint=dataset.fingerprint[:DIGITS],
        files=len(index.files),
        rows=index.num_rows,
        tokens=index.num_values,
        selected=dataset.spans.num_rows,
        contents=(index if tokenizer is None else index.texts).fingerprint[:8],
        sizes=_digits(sizes[:, np.lexsort(sizes)].astype("<i8").tobytes()),
        tokenizer="-"
        if tokenizer is None
        else _digits(f"{tokenizer.fingerprint} {rows and rows.fingerprint}".encode()),
        snapshot="" if index.recipe.table is None else index.recipe.table.snapshot,
    )
    if infill is not None:
        facts = facts._replace(snapshot=facts.snapshot or "-", infill=infill.identity)
    return " ".join(map(str, facts)).rstrip()


def snapshot_in(record: str) -> str:
    """Return the snapshot in a record of a table; "" for other records.

    Example:
        >>> snapshot_in("8c01 2 90 700 90 11 22 - delta:12")
        'delta:12'
    """
    facts = dict(zip(_Identity._fields, record.split(), strict=False))
    return facts.get("snapshot", "").strip("-")


def _digits(data: bytes) -> str:
    return hashlib.blake2b(data, digest_size=4).hexdigest()


def same_files(then: str, now: str) -> bool:
    """Return whether two records are of the same files, for any selected rows.

    Example:
        >>> same_files("8c01 2 90 700 90 11 22 -", "7d02 2 90 700 85 11 22 -")
        True
    """
    contents = _Identity._fields.index("contents")
    return then.split()[contents] == now.split()[contents]


def what_changed(then: str, now: str) -> str:
    """Return the differences of two records, for messages; "" if the rows are the same.

    Two different snapshots of a table may have the same rows.

    Example:
        >>> what_changed("8c01 2 90 700 90 11 22 -", "7d02 3 95 750 95 12 23 -")
        'files then 2, now 3; rows in them then 90, now 95; tokens in them then 700, now
        750; rows that are selected then 90, now 95'
    """
    if then == now:
        return ""
    try:
        old, new = (_Identity(*text.split()) for text in (then, now))  # type: ignore[arg-type]
    except TypeError:
        return f"the state has {then!r:.60}, this loader {now!r:.60}"
    if old._replace(snapshot="") == new._replace(snapshot=""):
        return ""
    changes = [
        f"{what} then {getattr(old, name)}, now {getattr(new, name)}"
        for name, what in COUNTS.items()
        if getattr(old, name) != getattr(new, name)
    ]
    if old.infill != new.infill:
        changes.append(f"{old.infill or 'no infill'} then, now {new.infill or 'none'}")
        old, new = old._replace(snapshot=""), new._replace(snapshot="")
    if old.snapshot != new.snapshot:
        changes.append(
            f"snapshot then {old.snapshot or 'none'}, now {new.snapshot or 'none'}: "
            "open that of the state to continue on the same rows; its files are left "
            "until a vacuum or an expiry. If they are gone, the epoch cannot be "
            "finished: call set_epoch in place of loading the state"
        )
    if old.tokenizer != new.tokenizer:
        changes.append("the tokenizer, or its chat template, is another one")
    elif old.contents == new.contents:
        changes.append("the files are the same, and other rows of them are selected")
    elif not changes and old.sizes == new.sizes and int(new.files) > 1:
        changes.append(
            "as many files, with as many rows and tokens, but in another order, or "
            "written again; a file that was renamed may sort elsewhere: then give "
            "the paths as a list, in the former order"
        )
    elif not changes:
        changes.append(
            "as many files, rows and tokens, but other ones: a file was written again, "
            "or another column is read"
        )
    return "; ".join(changes)
