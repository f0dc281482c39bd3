"""Results as a table, and as a page of Markdown."""

from collections.abc import Iterator
from typing import Any

__all__ = ["page", "table"]

COLUMNS = (
    "loader",
    "Mtok/s",
    "CPU s / 1e9",
    "first batch",
    "wait p50 / p99",
    "memory",
    "same page",
    "same file",
    "resumed in",
    "same batches",
    "converted in",
)

ABOUT = """\
After this page you can compare pagefeed with the loader you use, on the same data:
rate, waits, memory, shuffle and resume. `make loaders` repeats this on your machine.
`benchmarks/loaders/README.md` says how to add a loader.

Samples of {length:,} tokens are shuffled into batches of {batch_size}: int64 tensors of
torch, from {millions:,.0f} million tokens in {files} Parquet files. Every loader is
used as its own documentation says. They take turns in processes of their own; {rounds}.
Measured on {processors} processors ({system}), at a load of {load}.
"""

MEANING = """\
- **Mtok/s, CPU**: millions of tokens a second, and seconds of all processors for 10^9
  tokens, after the first batches.
- **First batch**: from the start of the process, imports included.
- **Wait**: what a consumer waits that works 20 ms on each batch.
- **Memory**: anonymous and shared memory of all processes, at its highest.
- **Same page, same file**: pairs of samples in a batch from one page or file, divided
  by those of a uniform shuffle. 1 is as good as random.
- **Resumed in, same batches**: in a new process, from the state that was saved, and
  whether the next {after} batches are those that came without the stop.
"""


def page(found: dict[str, Any], picture: str | None = None) -> str:
    """Write the page: what was asked, the table, what columns mean, limits."""
    lines = ["# Loaders compared", "", _about(found), ""]
    if note := found.get("note"):
        lines += [note, ""]
    if picture:
        lines += [f"![Tokens a second of each loader]({picture})", ""]
    lines += [*table(found["results"]), "", MEANING.format(after=found["after_state"])]
    limits = [
        f"- **{row['loader']}**: {_sentences(row['limits'])}"
        for row in found["results"]
        if row["limits"] and row["rounds"]
    ]
    if limits:
        lines += ["## What each cannot do", "", *limits, ""]
    return "\n".join(lines)


def _sentences(limits: str) -> str:
    return " ".join(f"{each[0].upper()}{each[1:]}." for each in limits.split("; "))


def _about(found: dict[str, Any]) -> str:
    asked = found["settings"]
    count = asked["rounds"]
    rounds = "one round" if count == 1 else f"medians of {count} rounds"
    given = asked | found["machine"] | {"rounds": rounds}
    return ABOUT.format(millions=asked["num_tokens"] / 1e6, **given).strip()


def table(rows: list[dict[str, Any]]) -> Iterator[str]:
    """Lines of a table in Markdown."""
    yield f"| {' | '.join(COLUMNS)} |"
    yield "|---" * len(COLUMNS) + "|"
    for row in rows:
        cells = _cells(row) if row["rounds"] else _failed(row)
        yield f"| {' | '.join(cells)} |"


def _failed(row: dict[str, Any]) -> list[str]:
    why = row["failed"][0] if row["failed"] else "nothing was measured"
    return [row["loader"], why.replace("|", "/"), *[""] * (len(COLUMNS) - 2)]


def _cells(row: dict[str, Any]) -> list[str]:
    resumed, convert = row["resume_seconds"], row["convert"]
    return [
        row["loader"],
        f"{row['tokens_per_second'] / 1e6:.0f}",
        f"{row['cpu_seconds_per_1e9']:.1f}",
        f"{row['start_seconds']:.1f} s",
        f"{1e3 * row['wait_p50']:.1f} / {1e3 * row['wait_p99']:.1f} ms",
        f"{row['run_peak_bytes'] / 2**20:.0f} MiB",
        f"{row['same_page']:.1f}",
        f"{row['same_file']:.2f}",
        "failed" if resumed is None else f"{resumed:.1f} s",
        _exactness(row),
        f"{convert['seconds']:.0f} s, {convert['bytes'] / 1e9:.2f} GB"
        if convert
        else "-",
    ]


def _exactness(row: dict[str, Any]) -> str:
    if row["same_batches"]:
        return "yes"
    again = row["seen_again"]
    return "no" if not again else f"no, {again:.0%} seen before"
