"""Inspections and forecasts as tables of text, for a terminal or a page."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from pagefeed.core._base import format_bytes
from pagefeed.parsing import SENSELESS
from pagefeed.reports.telling import Facts, Part, Table

MOST_STAGES = 8
"""With more stages than this, only shares are shown, on a line each."""


BAR = 40
"""Characters of the longest bar of a histogram."""


def facts_of_inspection(inspection: Any) -> Facts:
    """Return how a dataset is stored."""
    what = "texts" if inspection.tokens is None else f"{inspection.tokens:,} values"
    facts = [
        ("files", f"{inspection.files:,}, {format_bytes(inspection.stored_bytes)}"),
        ("rows", f"{inspection.rows:,}, {what} of {inspection.column}"),
        ("row groups", f"{inspection.row_groups:,}"),
        ("pages", f"{inspection.pages:,}"),
    ]
    if inspection.snapshot is not None:
        facts.insert(0, ("table", inspection.snapshot))
    if inspection.pruned_files:
        facts.insert(1, ("files pruned", f"{inspection.pruned_files:,}"))
    if inspection.page_sizes is not None:
        sizes = inspection.page_sizes
        stored = " / ".join(map(format_bytes, sizes.stored_bytes))
        facts.append(("a page (least / median / most)", stored))
        for name, numbers in (("rows", sizes.rows), ("values", sizes.tokens)):
            shown = " / ".join(f"{value:,}" for value in numbers or ())
            facts += [(f"{name} of a page", shown)] * bool(numbers)
    if inspection.checksum_share is not None:
        facts.append(("checksums", f"on {inspection.checksum_share:.0%} of the pages"))
    storage = inspection.storage
    if storage is None:
        hint = "known of Parquet alone, with pip install 'pagefeed[pyarrow]'"
        return [*facts, ("columns", hint)]
    facts.append(("offset index", f"in {storage.offset_index_share:.0%} of the chunks"))
    facts += [("written by", f"{name} ({n:,})") for name, n in storage.writers.items()]
    facts += [("tokenizer", _tokenizer(*entry)) for entry in storage.tokenizer.items()]
    return facts


def _tokenizer(key: str, value: str) -> str:
    """Return what files say of a tokenizer, in a line."""
    try:
        record = json.loads(value)
        return (
            f"{record['name']}, {record['vocab_size']:,} ids, eos {record['eos']}, "
            f"fingerprint {record['fingerprint']}"
        )
    except SENSELESS:  # Another program wrote it.
        return f"{key}: {value[:60]}"


def parts_of_inspection(inspection: Any) -> Iterator[Part]:
    """Yield what is shown of an inspection."""
    yield facts_of_inspection(inspection)
    if inspection.storage is not None:
        rows = [
            (
                *(column.name, f"{column.type}, {' '.join(column.encodings)}"),
                *(" ".join(column.codecs), format_bytes(column.stored_bytes)),
                format_bytes(column.decoded_bytes),
            )
            for column in inspection.storage.columns
        ]
        yield Table("", ("column", "type", "codec", "stored", "decoded"), rows, 3)
    if inspection.lengths is not None:
        yield _table_of_lengths(inspection.lengths)
    yield ""
    yield from (f"- {advice}" for advice in inspection.advice)


def _table_of_lengths(lengths: Any) -> Table:
    of = f"{lengths.rows_read:,} rows" + " (a sample)" * lengths.is_sample
    quantiles = ", ".join(
        f"{float(share):.0%}: {value:,}" for share, value in lengths.quantiles.items()
    )
    most = max(rows for _, _, rows, _ in lengths.histogram)
    total = max(1, sum(tokens for _, _, _, tokens in lengths.histogram))
    rows = [
        (
            f"{least:,}-{greatest:,}",
            "#" * -(-BAR * rows // most),
            rows,
            f"{tokens / total:.1%}",
        )
        for least, greatest, rows, tokens in lengths.histogram
    ]
    title = (
        f"{lengths.unit} of a document, mean {lengths.mean:,.0f}, by {of}; at most, by "
        f"share of documents: {quantiles}"
    )
    return Table(title, (lengths.unit, "", "documents", "share"), rows, 2)


def parts_of_plan(plan: Any) -> Iterator[Part]:
    """Yield what is shown of a forecast."""
    yield facts_of_plan(plan)
    if plan.needed_bytes > plan.memory_bytes:
        yield (
            "Pages are read again: give "
            f"{format_bytes(plan.needed_bytes)} of memory, or a smaller window."
        )
    yield from mixture_tables(plan)


def facts_of_plan(plan: Any) -> Facts:
    """Return the facts of a forecast, to print."""
    tokens = max(1, plan.sequences * plan.length)
    padding = f"{plan.padding_tokens:,} ({plan.padding_tokens / tokens:.2%})"
    steps = "without end" if plan.steps is None else f"{plan.steps:,} on every rank"
    unit, count = ("token", tokens) if plan.length else ("row", plan.sequences)
    bytes_each = f"{plan.bytes_read / max(1, count):.2f} bytes a {unit}"
    page_pairs, file_pairs = plan.same_page_pairs, plan.same_file_pairs
    facts = {
        "files, pages, rows": f"{plan.files:,}, {plan.pages:,}, {plan.rows:,}",
        "tokens": f"{plan.tokens:,}",
        "sequences": f"{plan.sequences:,}",
        "padding tokens": padding,
        "dropped tokens": f"{plan.dropped_tokens:,}",
        "split documents": f"{plan.splits:,}",
        "steps": steps,
        "sequences beyond them": f"{plan.remainder:,}",
        "lanes": f"{plan.num_lanes:,}",
        "sequences in the window": f"{plan.window_sequences:,}",
        "memory of a loader": format_bytes(plan.memory_bytes),
        "most memory held": format_bytes(plan.peak_bytes),
        "memory to read pages once": format_bytes(plan.needed_bytes),
        "reads of each page": f"{plan.loads_per_page:.2f}",
        "reads of page slices": f"{plan.slice_reads:,}",
        "reads": f"{plan.reads:,}, {format_bytes(plan.bytes_read)}, {bytes_each}",
    }
    for name, facts_of in (plan.columns | plan.tables).items():
        facts[f"reads of {name}"] = (
            f"{facts_of.reads:,}, {format_bytes(facts_of.bytes)}"
        )
    if plan.pruned_files:
        facts["files pruned"] = f"{plan.pruned_files:,}"
    random = f"{plan.same_page_pairs_random:.3f}", f"{plan.same_file_pairs_random:.3f}"
    facts["pairs of a batch from one page"] = f"{page_pairs:.3f} (random {random[0]})"
    facts["pairs of a batch from one file"] = f"{file_pairs:.3f} (random {random[1]})"
    if plan.met_again is not None:
        by_chance = f"{plan.met_again_random:.2%}"
        facts["batch mates that meet again"] = (
            f"{plan.met_again:.2%} (random {by_chance})"
        )
    if plan.step_costs is not None:
        now = plan.step_costs
        facts["slowest rank of a step"] = (
            f"{now.slowest:.2f} of the mean ({now.slowest_unbalanced:.2f} without "
            f"balance); steps vary by {now.spread:.0%} ({now.spread_unbalanced:.0%})"
        )
        if now.padding is not None:
            facts["padding of batches"] = (
                f"{now.padding:.1%} ({now.padding_unbalanced:.1%} without balance)"
            )
        short = [
            n for n, facts_of in plan.datasets.items() if facts_of.is_balanced is False
        ]
        if short:
            facts["datasets that are not balanced"] = (
                f"{', '.join(short)}: an epoch has fewer than some 64 sequences a rank"
            )
    return [*facts.items()]


def mixture_tables(plan: Any) -> Iterator[Table]:
    """Yield tables of the datasets of a mixture and of each stage.

    None for one dataset.
    """
    header = ("dataset", "tokens", "delivered", "share", "epochs", "left out")
    if plan.datasets:
        datasets = [
            (
                name,
                f"{dataset.tokens:,}",
                f"{dataset.delivered_tokens:,}",
                f"{dataset.share:.2%}",
                f"{dataset.epochs:.2f}",
                ""
                if dataset.out_at_step is None
                else f"from step {dataset.out_at_step:,} on",
            )
            for name, dataset in plan.datasets.items()
        ]
        yield Table("datasets", header, datasets)
    if len(plan.stages) > MOST_STAGES:
        yield _shares_by_stage(plan)
        return
    for index, stage in enumerate(plan.stages):
        title = f"stage {index} from step {stage.first_step:,} on, {stage.steps:,.0f} "
        title += "steps"
        if stage.anneal_steps:
            title += f", {stage.anneal_steps:,.0f} of them to anneal"
        rows = [
            (name, f"{n:,}", f"{stage.shares[name]:.4%}", f"{stage.epochs[name]:.2f}")
            for name, n in stage.tokens.items()
            if n
        ]
        yield Table(title, ("dataset", "tokens", "share", "epochs"), rows)


def _shares_by_stage(plan: Any) -> Table:
    names = tuple(plan.datasets)
    rows = [
        (f"{stage.first_step:,}", *(f"{stage.shares[name]:.2%}" for name in names))
        for stage in plan.stages
    ]
    return Table("shares of tokens by stage", ("from step", *names), rows)
