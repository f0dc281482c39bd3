"""Results as a table, and as a page of Markdown."""

from collections.abc import Iterator
from typing import Any

from loaders.orders import SHOWN

__all__ = ["page", "table"]

COLUMNS = (
    "loader",
    "Mtok/s",
    "CPU s / 1e9",
    "first batch",
    "wait p50 / p99",
    "memory",
    "converted in",
    "same page",
    "same file",
    "same batches",
    "resumed in",
    *SHOWN,
    "order fails",
)

ABOUT = """\
Compare pagefeed with the loader you use, on the same data:
rate, waits, memory, shuffle and resume. `make loaders` repeats this on your machine,
and `benchmarks/loaders/README.md` says how to add a loader.

Every loader shuffles the same samples of {length:,} tokens into batches of
{batch_size}, as int64 tensors of torch, from {millions:,.0f} million tokens in
{files} Parquet files. Each is set up as its documentation says. Loaders run in turn, in
separate processes; the tables show {rounds}, on {processors} processors ({system}) at a
load of {load}.
"""

# Tables of the page, narrow enough for a small screen: columns, and what they mean.
PARTS = {
    "Rate": (
        ("Mtok/s", "CPU s / 1e9", "first batch"),
        """\
Millions of tokens a second, and processor seconds for 10^9 tokens, over half an
epoch after its first eighth, in at most {seconds:g} seconds each. The time to the first
batch is that of a new process, imports included.
""",
    ),
    "Waits and memory": (
        ("wait p50 / p99", "memory", "converted in"),
        """\
Waits of a consumer that works 20 ms on each batch. Memory is anonymous
and shared memory of all processes, at its highest. Some loaders first convert the data.
""",
    ),
    "Shuffle and resume": (
        ("same page", "same file", "same batches", "resumed in"),
        """\
Pairs of samples in a batch from one page or file, divided by those of a uniform
shuffle: 1 is as good as random. A new process loads the saved state. *Same batches*
says whether the next {after} are those that came without the stop.
""",
    ),
    "Order": (
        (*SHOWN, "order fails"),
        """\
Orders of 8,192 small samples in 8 files under 24 seeds, compared with random ones by
the tests of [an order's promises](orders.md). *Again* is how often a sample is in the
first batch, or in the same eighth of the epoch, under another seed, or shares a batch
with the same sample. Numbers are multiples of a random order. The last column names the
tests that fail. Some loaders hold all of this data in a shard, window or buffer: with
more data their orders may be less random.
""",
    ),
}


def page(found: dict[str, Any], picture: str | None = None) -> str:
    """Write the page: what was asked, the table, what columns mean, limits."""
    lines = ["# Loaders compared", "", _about(found), ""]
    if note := found.get("note"):
        lines += [note, ""]
    if picture:
        lines += [f"![Tokens a second of each loader]({picture})", ""]
    rows = found["results"]
    for title, (columns, meaning) in PARTS.items():
        seconds = found["settings"]["seconds"]
        text = meaning.format(after=found["after_state"], seconds=seconds)
        lines += [f"## {title}", "", text, *table(rows, columns), ""]
    limits = [
        f"- **{row['loader']}**: {_sentences(row['limits'])}"
        for row in found["results"]
        if row["limits"] and row["rounds"]
    ]
    if limits:
        lines += ["## Limits of each loader", "", *limits, ""]
    return "\n".join(lines)


def _sentences(limits: str) -> str:
    return " ".join(f"{each[0].upper()}{each[1:]}." for each in limits.split("; "))


def _about(found: dict[str, Any]) -> str:
    asked = found["settings"]
    count = asked["rounds"]
    rounds = "one round" if count == 1 else f"medians of {count} rounds"
    given = asked | found["machine"] | {"rounds": rounds}
    return ABOUT.format(millions=asked["num_tokens"] / 1e6, **given).strip()


def table(
    rows: list[dict[str, Any]], columns: tuple[str, ...] = COLUMNS[1:]
) -> Iterator[str]:
    """Lines of a table in Markdown: the loader's name, then some columns."""
    yield f"| {' | '.join((COLUMNS[0], *columns))} |"
    yield "|---" * (len(columns) + 1) + "|"
    for row in rows:
        if row["rounds"]:
            cells = _cells(row)
            shown = [cells[name] for name in columns]
        else:
            shown = [_failed(row), *[""] * (len(columns) - 1)]
        yield f"| {' | '.join([row['loader'], *shown])} |"


def _failed(row: dict[str, Any]) -> str:
    why: str = row["failed"][0] if row["failed"] else "nothing was measured"
    return why.replace("|", "/")


def _cells(row: dict[str, Any]) -> dict[str, str]:
    resumed, convert = row["resume_seconds"], row["convert"]
    return {
        "Mtok/s": f"{row['tokens_per_second'] / 1e6:.0f}",
        "CPU s / 1e9": f"{row['cpu_seconds_per_1e9']:.1f}",
        "first batch": f"{row['start_seconds']:.1f} s",
        "wait p50 / p99": " / ".join(
            f"{1e3 * row[name]:.1f}" for name in ("wait_p50", "wait_p99")
        )
        + " ms",
        "memory": f"{row['run_peak_bytes'] / 2**20:.0f} MiB",
        "converted in": f"{convert['seconds']:.0f} s, {convert['bytes'] / 1e9:.2f} GB"
        if convert
        else "-",
        "same page": f"{row['same_page']:.1f}",
        "same file": f"{row['same_file']:.2f}",
        "same batches": _exactness(row),
        **_orders(row.get("orders")),
        "resumed in": "failed" if resumed is None else f"{resumed:.1f} s",
    }


def _orders(found: dict[str, Any] | None) -> dict[str, str]:
    if found is None or "failed" in found:
        why = "not measured" if found is None else found["failed"].replace("|", "/")
        return dict.fromkeys(SHOWN, "-") | {"order fails": why}
    fails = ", ".join(found["fails"]) or "none"
    return {name: f"{found[name]:.2f}" for name in SHOWN} | {"order fails": fails}


def _exactness(row: dict[str, Any]) -> str:
    if row["same_batches"]:
        return "yes"
    again = row["seen_again"]
    return "no" if not again else f"no, {again:.0%} seen before"
