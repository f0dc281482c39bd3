"""The table of options: each works as it says, or is refused when a loader is made."""

import itertools
import re
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch

import pagefeed as pf
import pagefeed.torch
from made.shared_data import ROOT
from made.texts_made import make_tokenizer
from pagefeed.checks.options import KINDS, OPTIONS
from pagefeed.core.order import FINAL_KINDS
from pagefeed.errors import InvalidArgumentError, PagefeedError

EOS = 256
LENGTH = 16
TOKENIZER = make_tokenizer()
SPAN = [{"start": 0, "end": 2, "name": "a"}]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("options")
    rows = [[n % 200 + 1] * (n % 23 + 2) for n in range(300)]
    table = {
        "tokens": rows,
        "text": ["a" * len(row) for row in rows],
        "weights": rows,
        "id": [*range(300)],
        "spans": [SPAN for _ in rows],
    }
    for part in range(2):
        pq.write_table(
            pa.table(table).slice(150 * part, 150),
            path / f"{part}.parquet",
            row_group_size=50,
        )
    kinds = [("token", "u2"), ("weights", "i4")]
    with pf.StreamWriter(path / "stream", dtype=kinds, serialize="bytes") as out:
        for row in rows:
            record = np.zeros(len(row), dtype=[("token", "u2"), ("weights", "i4")])
            record["token"] = record["weights"] = row
            out.append(record, spans=[(0, 2, b"a")])
    return path


def make_dataset(folder, kind, **given):
    """A dataset of a kind; a mixture is of tokens."""
    if kind == "flat":
        return pf.stream(folder / "stream", **given)
    if kind == "text":
        return pf.parquet(folder, column="text", **given).tokenize(TOKENIZER)
    if kind == "mixture":
        parts = {name: pf.parquet(folder, column="tokens", **given) for name in "ab"}
        return pf.mix(parts, stop="all_exhausted")
    return pf.parquet(folder, column="tokens", **given)


SEQUENCES = {
    "documents": pf.Documents(max_length=LENGTH),
    "rows": pf.Documents(),
}


def make_loader(folder, kind, *, dataset_given=None, **given):
    settings: dict[str, Any] = {
        "sequences": SEQUENCES.get(kind, pf.Windows(LENGTH, eos=EOS)),
        "batch_size": 4,
        "rank": 0,
        "world_size": 1,
        "num_threads": 2,
    }
    dataset = make_dataset(folder, kind, **(dataset_given or {}))
    return pf.Loader(dataset, **settings | given)


def fields_given(kind):
    return {"fields": ("input_ids", "metadata")} if kind != "rows" else {}


def spans_given(kind):
    return {} if kind == "flat" else {"dataset_given": {"spans": ["spans"]}}


def decode_given(kind):
    """Rows with a number that a function changes; a mixture is of rows."""
    given: dict[str, Any] = {"decode": {"id": lambda number: -number - 1}}
    most = LENGTH if kind == "documents" else None
    if kind in ("documents", "rows", "mixture"):
        given["sequences"] = pf.Documents(columns=["id"], max_length=most)
    return given


def context_given(kind):
    given: dict[str, Any] = {
        "context_parallel": pf.ContextParallel(1, LENGTH // 2),
        "fields": pf.Fields(shifted=True),
    }
    if kind == "documents":
        given["sequences"] = pf.Documents(max_length=LENGTH, pad="max_length")
    return given


MAKES: dict[str, Any] = {
    "Packed(multiple_of=)": {"sequences": pf.Packed(LENGTH, eos=EOS, multiple_of=2)},
    "Documents(...)": {"sequences": pf.Documents(max_length=LENGTH)},
    "Windows(overlap=)": {"sequences": pf.Windows(LENGTH, eos=EOS, overlap=4)},
    "Windows(join='file')": {"sequences": pf.Windows(LENGTH, eos=EOS, join="file")},
    **{f"shuffle={kind!r}": {"shuffle": kind} for kind in FINAL_KINDS},
    "Shuffle(window=)": {"shuffle": pf.Shuffle(window=100)},
    "Shuffle(passes=)": {"shuffle": pf.Shuffle(passes=2)},
    "Shuffle(nodes=)": {
        "shuffle": pf.Shuffle(nodes=pf.Nodes(2, 1)),
        "world_size": 2,
        "rank": 1,
    },
    "batch_tokens=": {"batch_size": None, "batch_tokens": 64},
    "global_batch_size=": {"batch_size": None, "global_batch_size": 4},
    "lengths=": {"lengths": [(0, LENGTH // 2), (5, LENGTH)]},
    "balance=": {"balance": "attention"},
    "context_parallel=": context_given,
    "fields=('labels', ...)": {"fields": ("input_ids", "labels", "loss_mask")},
    "fields=('dataset_ids',)": {"fields": ("input_ids", "dataset_ids")},
    "fields=('metadata',)": {"fields": ("input_ids", "metadata")},
    "metadata=": lambda kind: {
        "dataset_given": {"metadata": ["id"]},
        **fields_given(kind),
    },
    "spans=": lambda kind: spans_given(kind) | fields_given(kind),
    "aligned=": {"dataset_given": {"aligned": ["weights"]}},
    "decode=": decode_given,
    "transform=": {"transform": lambda batch: {"changed": next(iter(batch.values()))}},
    "format='torch'": {"format": "torch"},
    "pin_memory=True": {"format": "torch", "pin_memory": True},
    "dtype=": {"dtype": "int32"},
    "padding=": {"padding": 7},
    "vocab_size=": {"vocab_size": EOS + 1},
    "num_threads=": {"num_threads": 1},
    "drop_last=False": {"drop_last": False, "batch_size": 7},
    "epochs=1": {"epochs": 1},
    "epochs=2": {"epochs": 2},
    "epochs=None": {"epochs": None},
}


OF_CUTS = ("documents", "rows")
NEVER = {
    **dict.fromkeys(["Packed(multiple_of=)", "Windows(overlap=)"], OF_CUTS),
    **dict.fromkeys(["Windows(join='file')", "lengths="], OF_CUTS),
    "Documents(...)": ("tokens", "flat", "text"),
    "metadata=": ("flat",),
    "aligned=": ("text",),
}
"""Options that have no meaning for some kinds."""
REFUSED = {option.name: option for option in OPTIONS}
CALLS = {
    **dict.fromkeys(["state_dict, load_state_dict", "set_epoch, epoch, step"], ()),
    **dict.fromkeys(["stats, metrics, check_ranks", "as_dataset"], ()),
    **dict.fromkeys(["DataLoader(num_workers=2)", "len, num_sequences"], ()),
    **dict.fromkeys(["seek, skip", "locate, steps_of, plan"], ()),
    "set_weights": ("tokens", "flat", "text", *OF_CUTS),
    **dict.fromkeys(["verify, diagnose, trace", "forecast"], ()),
    "inspect": ("mixture",),
    "mix, SequenceView": (),
    **dict.fromkeys(["dataset.infill", "dataset.erase"], ("mixture",)),
}
"""Later calls of a loader or dataset, and the kinds that refuse them."""


def tokens_of(batch):
    return batch["input_ids"] if "input_ids" in batch else np.array([0])


def num_steps(loader):
    return sum(1 for _ in itertools.islice(loader, 2000))


CHECKS: dict[str, Any] = {
    "fields=('labels', ...)": lambda batch: (
        batch["labels"].shape == (4, LENGTH)
        or batch["labels"].shape == batch["input_ids"].shape
    ),
    "fields=('dataset_ids',)": lambda batch: batch["dataset_ids"].min() == 0,
    "fields=('metadata',)": lambda batch: pa.table(batch["metadata"]).num_rows > 0,
    "metadata=": lambda batch: (
        "id" in batch or "id" in pa.table(batch["metadata"]).column_names
    ),
    "spans=": lambda batch: (
        "spans" in batch or "spans" in pa.table(batch["metadata"]).column_names
    ),
    "aligned=": lambda batch: len(batch["weights"]) == 4,
    "decode=": lambda batch: max(batch["id"]) < 0,
    "transform=": lambda batch: [*batch] == ["changed"],
    "format='torch'": lambda batch: (
        any(isinstance(each, torch.Tensor) for each in batch.values())
        or "tokens" in batch
    ),
    "dtype=": lambda batch: tokens_of(batch).dtype == np.int32 or "tokens" in batch,
}


def test_every_refusal_is_tried():
    assert {*REFUSED} <= {*MAKES}


@pytest.mark.filterwarnings("ignore::UserWarning")  # Of pinning without a device.
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", MAKES)
def test_each_works_or_is_refused(folder, name, kind):
    if kind in NEVER.get(name, ()):
        return
    given = MAKES[name]
    given = given(kind) if callable(given) else given
    option = REFUSED.get(name)
    if option is not None and kind in option.refused:
        with pytest.raises(InvalidArgumentError) as caught:
            make_loader(folder, kind, **given)
        assert KINDS[kind].partition(":")[0] in str(caught.value)
        assert option.instead in str(caught.value)
        return
    loader = make_loader(folder, kind, **given)
    assert option is None or option.is_asked(loader._settings)
    batch = next(iter(loader))
    assert CHECKS.get(name, len)(batch)


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "mixture"])
def test_epochs_are_as_many_as_asked(folder, kind):
    one, two = (num_steps(make_loader(folder, kind, epochs=n)) for n in (1, 2))
    assert abs(two - 2 * one) <= 3
    assert num_steps(make_loader(folder, kind, epochs=None)) == 2000


def both(make):
    """Whether all of some calls raise what they should, or none raises."""
    raised: list[type[PagefeedError] | None] = []
    for call in make:
        try:
            call()
            raised.append(None)
        except PagefeedError as error:
            raised.append(type(error))
    assert len(set(raised)) == 1, raised
    return raised[0]


def diagnosed(loader):
    with pf.diagnose(loader):
        next(iter(loader))


def calls(name, folder, kind):
    """What to try of a line of the table."""
    loader = make_loader(folder, kind, epochs=1)
    file = getattr(loader.dataset, "files", [None])[0]
    in_two = pagefeed.torch.as_dataset(make_loader(folder, kind, format="torch"))
    return {
        "state_dict, load_state_dict": [
            loader.state_dict,
            lambda: loader.load_state_dict(loader.state_dict()),
        ],
        "set_epoch, epoch, step": [
            lambda: loader.set_epoch(3),
            lambda: loader.epoch,
            lambda: loader.step,
        ],
        "stats, metrics, check_ranks": [
            loader.stats,
            loader.metrics,
            lambda: loader.check_ranks(lambda facts: [facts]),
        ],
        "as_dataset": [lambda: next(iter(in_two))],
        "DataLoader(num_workers=2)": [
            lambda: next(iter(loader._session.iterate(worker=0, num_workers=2)))
        ],
        "len, num_sequences": [lambda: len(loader), lambda: loader.num_sequences],
        "seek, skip": [lambda: loader.seek(1), lambda: loader.skip([3])],
        "locate, steps_of, plan": [
            lambda: loader.locate(4, 0),
            *([] if kind == "mixture" else [lambda: loader.steps_of(file, 0)]),
        ],
        "set_weights": [lambda: loader.set_weights({"a": 1.0})],
        "forecast": [lambda: pf.forecast(make_loader(folder, kind))],
        "verify, diagnose, trace": [
            lambda: pf.verify(make_loader(folder, kind)),
            lambda: diagnosed(make_loader(folder, kind)),
            lambda: pf.trace(make_loader(folder, kind), 0),
        ],
        "inspect": [lambda: pf.inspect(loader.dataset)],
        "mix, SequenceView": [lambda: pf.mix({"a": loader.dataset})],
        "dataset.infill": [
            lambda: loader.dataset.infill(pf.Infill(prefix=1, middle=2, suffix=3))
        ],
        "dataset.erase": [lambda: loader.dataset.erase(rows={})],
    }[name]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", CALLS)
def test_each_call_works_or_is_refused(folder, name, kind):
    if (name, kind) == ("mix, SequenceView", "mixture"):
        return
    raised = both(calls(name, folder, kind))
    assert raised is (InvalidArgumentError if kind in CALLS[name] else None)


def shown(name, refused):
    never = NEVER.get(name, ())
    cells = ["-" if k in never else "no" if k in refused else "yes" for k in KINDS]
    return f"| `{name}` | {' | '.join(cells)} |"


def test_documentation_shows_the_table():
    page = (ROOT / "docs/reference/options.md").read_text()
    head = [f"| | {' | '.join(KINDS)} |", f"|{' --- |' * (len(KINDS) + 1)}"]
    refused = {name: option.refused for name, option in REFUSED.items()}
    lines = [shown(name, refused.get(name, ())) for name in MAKES]
    lines += [shown(name, refused) for name, refused in CALLS.items()]
    found = re.findall(r"^\|.*\|$", page, flags=re.MULTILINE)
    kinds = [f"| {kind} | {what} |" for kind, what in KINDS.items()]
    wanted = "\n".join(["| | |", "| --- | --- |", *kinds, *head, *lines])
    assert "\n".join(found) == wanted, wanted


def counted_loader(texts, **given):
    return pf.Loader(texts.tokenize(TOKENIZER), **given)


def text_loader(texts, **given):
    return pf.TextLoader(texts, TOKENIZER, **given)


@pytest.mark.parametrize("make", [counted_loader, text_loader])
def test_documents_joined_without_a_separator_are_told(folder, make):
    texts = pf.parquet(folder, column="text")
    given: dict[str, Any] = {"batch_size": 1, "rank": 0, "world_size": 1}
    with pytest.warns(UserWarning, match=r"give Windows\(16, eos=") as told:
        make(texts, sequences=pf.Windows(LENGTH), **given)
    assert [each.filename for each in told] == [__file__]
    make(texts, sequences=pf.Windows(LENGTH, eos=TOKENIZER.eos), **given)


@pytest.mark.parametrize("make", [counted_loader, text_loader])
def test_documents_without_an_end_to_learn_are_told(folder, make):
    texts = pf.parquet(folder, column="text")
    given: dict[str, Any] = {"batch_size": 1, "fields": ("input_ids", "labels")}
    with pytest.warns(UserWarning, match="says where a document ends") as told:
        make(texts, sequences=pf.Windows(LENGTH, bos=EOS), **given)
    assert [each.filename for each in told] == [__file__]
