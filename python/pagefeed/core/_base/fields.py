"""The fields that a batch may have, as the data plane's one table has them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from pagefeed import _core

IGNORED = _core.IGNORED
"""Label that carries no loss, as torch's cross entropy and others have it."""
LABELS = "labels"
"""Name of the column of labels."""


class FieldEntry(NamedTuple):
    """Name, type and shape of a field in every batch."""

    name: str
    """Name of the field."""
    dtypes: Sequence[str]
    """Types that the array may have, the default first. Empty if the field is not an
    array, or has the type of the tokens."""
    shape: str
    """``"tokens"``: [batch_size, length]; ``"borders"``: [segments + 1];
    ``"segments"``: [batch_size, most segments of a row]; ``"number"``; ``"rows"``: a
    list of a number for each row; ``"sequences"``: [batch_size]; ``"table"``."""
    padding: int | None
    """The number on padding, if that is the same everywhere."""
    is_ours_alone: bool
    """Only pagefeed makes it: no column of the files can be called so."""
    is_for_models: bool
    """Models of transformers take it."""


FIELDS = {entry[0]: FieldEntry(*entry) for entry in _core.field_table()}
"""The fields by name, in the order in which they lie in a batch."""
