"""Statistics of row groups, which pyarrow believes: some cannot be bounds."""

from __future__ import annotations

from typing import Any

from pagefeed.selection.query import Expression, Query, Schema, arrow

_ORDER_OF_TYPE = b"\x1c\x00\x00"
"""Entry of a footer for each column whose bounds are in the order of its type."""
_SHIFTS_TIMES = "Parquet.Net version 4"
"""A writer whose bounds of timestamps are in its zone, and their values in UTC."""
_END_OF_FOOTER = slice(None, -8)
"""A footer in a file, without its length and the magic at the end."""


def without_groups(
    fragment: Any, schema: Schema, query: Query, expression: Expression
) -> Any:
    """Leave row groups out of a fragment that statistics prove to have no match.

    A row group stays if a column of the query has statistics that contradict
    themselves, or that an old writer compared in another order than that of the type.
    """
    try:
        may_match = fragment.subset(filter=expression, schema=schema).row_groups
    except arrow().ArrowNotImplementedError:  # For bounds of an extension type.
        return fragment
    kept = {group.id for group in may_match}
    left_out = [group.id for group in fragment.row_groups if group.id not in kept]
    if not left_out:
        return fragment
    metadata = fragment.metadata
    leaves = [metadata.schema.column(leaf) for leaf in range(metadata.num_columns)]
    used = [n for n, leaf in enumerate(leaves) if query.may_use(leaf.path)]
    is_ordered = _is_ordered(metadata)
    shifts_times = (metadata.created_by or "").startswith(_SHIFTS_TIMES)
    for group in left_out:
        for n in used:
            chunk = metadata.row_group(group).column(n)
            is_shifted = shifts_times and leaves[n].logical_type.type == "TIMESTAMP"
            if is_shifted or not _are_bounds(chunk, leaves[n], is_ordered=is_ordered):
                kept.add(group)
    return fragment.subset(row_group_ids=sorted(kept))


def _is_ordered(metadata: Any) -> bool:
    """Return whether the footer has orders of columns, as old ones have not."""
    stream = arrow().BufferOutputStream()
    metadata.write_metadata_file(stream)
    footer = stream.getvalue().to_pybytes()[_END_OF_FOOTER]
    return footer.endswith(_ORDER_OF_TYPE * metadata.num_columns + b"\x00")


def _are_bounds(chunk: Any, leaf: Any, *, is_ordered: bool) -> bool:
    """Return whether the statistics of a column in a row group may be believed."""
    said = chunk.statistics
    if said is None:
        return True  # They prove nothing.
    if not said.has_null_count:
        counts_fit = leaf.max_definition_level == 0  # An unknown number is not 0.
    elif said.has_min_max:
        counts_fit = 0 <= said.null_count < chunk.num_values
    else:
        counts_fit = 0 <= said.null_count <= chunk.num_values
    if not counts_fit or not said.has_min_max:
        return counts_fit
    if not is_ordered and leaf.physical_type.endswith("BYTE_ARRAY"):
        return False
    try:
        return not said.min > said.max
    except (arrow().ArrowException, TypeError, ValueError, OverflowError):
        return False
