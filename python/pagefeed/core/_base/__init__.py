"""Helpers of all layers: arrays, sizes, checks, extras, stored arrays, progress, reprs.

Nothing here knows what a dataset is.
"""

from pagefeed.core._base.arguments import (
    MOST,
    check_callable,
    check_choice,
    check_column,
    check_columns,
    check_flag,
    check_number,
    check_positive,
    check_token,
    check_vocab_size,
    check_whole,
    near_name,
)
from pagefeed.core._base.arrays import (
    Int64Array,
    UInt32Array,
    UInt64Array,
    distinct,
    joined_ranges,
    looked_up,
    narrow_difference,
    of_bfloat16,
    ranges_between,
    sorted_with_places,
    to_bfloat16,
)
from pagefeed.core._base.extras import require
from pagefeed.core._base.faces import Facts, html_of, html_table, some_of, text_of
from pagefeed.core._base.fields import FIELDS, IGNORED, LABELS, FieldEntry
from pagefeed.core._base.lazy_attribute import is_made, lazy
from pagefeed.core._base.lease import UnusableError, is_taken, made_once
from pagefeed.core._base.log import logger
from pagefeed.core._base.parallel import in_order, num_processors
from pagefeed.core._base.progress import (
    Progress,
    ProgressCallback,
    Work,
    report_to,
)
from pagefeed.core._base.setting import Setting
from pagefeed.core._base.sizes import format_bytes, parse_bytes
from pagefeed.core._base.stepwise import finished, gathered
from pagefeed.core._base.stored import (
    ArrayFolder,
    ArrayWriter,
    CheckedArray,
    find_arrays,
    keeps_arrays,
    remove_arrays,
    stored_arrays,
    warn_of_folder,
)
from pagefeed.core._base.writing import WholeWriter, write_errors

__all__ = [
    "FIELDS",
    "IGNORED",
    "LABELS",
    "MOST",
    "ArrayFolder",
    "ArrayWriter",
    "CheckedArray",
    "Facts",
    "FieldEntry",
    "Int64Array",
    "Progress",
    "ProgressCallback",
    "Setting",
    "UInt32Array",
    "UInt64Array",
    "UnusableError",
    "WholeWriter",
    "Work",
    "check_callable",
    "check_choice",
    "check_column",
    "check_columns",
    "check_flag",
    "check_number",
    "check_positive",
    "check_token",
    "check_vocab_size",
    "check_whole",
    "distinct",
    "find_arrays",
    "finished",
    "format_bytes",
    "gathered",
    "html_of",
    "html_table",
    "in_order",
    "is_made",
    "is_taken",
    "joined_ranges",
    "keeps_arrays",
    "lazy",
    "logger",
    "looked_up",
    "made_once",
    "narrow_difference",
    "near_name",
    "num_processors",
    "of_bfloat16",
    "parse_bytes",
    "ranges_between",
    "remove_arrays",
    "report_to",
    "require",
    "some_of",
    "sorted_with_places",
    "stored_arrays",
    "text_of",
    "to_bfloat16",
    "warn_of_folder",
    "write_errors",
]
