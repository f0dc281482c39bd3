"""Streams whose records have several numbers, or records inside: as they were given."""

import numpy as np
import pyarrow as pa
import pytest

import pagefeed as pf
from pagefeed.errors import InvalidArgumentError

DTYPE = np.dtype(
    [
        ("token", "u2"),
        ("emb", "f4", (4,)),
        ("word", [("id", "i8"), ("place", "i1", (2, 3))]),
        ("score", "f2"),
    ]
)
LENGTHS = (7, 0, 300, 41, 5, 77)


def documents() -> list[np.ndarray]:
    rng = np.random.default_rng(3)
    made = []
    for length in LENGTHS:
        records = np.zeros(length, DTYPE)
        records["token"] = rng.integers(0, 1 << 16, length)
        records["emb"] = rng.normal(size=(length, 4))
        records["word"]["id"] = rng.integers(-(1 << 62), 1 << 62, length)
        records["word"]["place"] = rng.integers(-128, 128, (length, 2, 3))
        records["score"] = rng.normal(size=length)
        made.append(records)
    return made


@pytest.fixture(params=[None, "bytes"], ids=["plain", "with spans"])
def folder(request, tmp_path):
    with pf.StreamWriter(tmp_path / "s", dtype=DTYPE, serialize=request.param) as out:
        for number, records in enumerate(documents()):
            if number % 2:
                out.append(records)
                continue
            columns = {name: records[name] for name in ("emb", "word", "score")}
            out.append(records["token"], **columns)
    return tmp_path / "s"


def joined() -> np.ndarray:
    return np.concatenate(documents())


def test_sequences_carry_all_numbers_of_their_tokens(folder):
    names = ["emb", "word.id", "word.place", "score"]
    stream = pf.stream(folder, aligned=dict.fromkeys(names, 0))
    assert (
        stream[2]["word.place"]
        == joined()["word"]["place"][7:307].reshape(300, 6).tolist()
    )
    loader = pf.Loader(
        stream, sequences=pf.Windows(16), batch_size=3, seed=1, shuffle="row"
    )
    expected = joined()
    first = {row.tobytes(): at for at, row in enumerate(expected["emb"])}
    seen = 0
    for batch in loader:
        assert batch["emb"].shape == (3, 16, 4)
        assert batch["word.place"].shape == (3, 16, 6)
        for row in range(3):
            at = first[batch["emb"][row, 0].tobytes()]
            wanted = expected[at : at + 16]
            count = len(wanted)
            assert (batch["input_ids"][row, :count] == wanted["token"]).all()
            assert (batch["emb"][row, :count] == wanted["emb"]).all()
            assert (batch["word.id"][row, :count] == wanted["word"]["id"]).all()
            places = wanted["word"]["place"].reshape(count, 6)
            assert (batch["word.place"][row, :count] == places).all()
            assert (batch["score"][row, :count] == wanted["score"]).all()
            seen += count
    assert seen >= len(expected) - 3 * 16


def test_packed_documents_and_rows_have_them_too(folder):
    stream = pf.stream(folder, aligned={"emb": pf.Aligned(width=4, padding=0)})
    by_token = {row.tobytes(): row for row in joined()["emb"]}
    for batch in pf.Loader(stream, sequences=pf.Packed(64), batch_size=1, seed=1):
        rows = [row for row in batch["emb"][0] if row.any()]
        assert all(row.tobytes() in by_token for row in rows)
    columns = pf.Documents(columns=["input_ids", "emb"])
    rows = [
        row
        for batch in pf.Loader(stream, sequences=columns, batch_size=2, shuffle=None)
        for row in pa.array(batch["emb"]).to_pylist()
    ]
    assert rows == [records["emb"].tolist() for records in documents()]


def test_wrong_shapes_and_widths_are_refused(folder, tmp_path):
    with pytest.raises(InvalidArgumentError, match="4 numbers as they are"):
        pf.stream(folder, aligned={"emb": pf.Aligned(width=3)})
    with (
        pf.StreamWriter(tmp_path / "b", dtype=DTYPE[["token", "emb"]]) as out,
        pytest.raises(InvalidArgumentError, match=r"has the shape \(2, 3\)"),
    ):
        out.append([1, 2], emb=np.zeros((2, 3)))
    with pytest.raises(InvalidArgumentError, match="Documents of numbers without"):
        pf.StreamWriter(tmp_path / "c", dtype=[("emb", "f4", (4,))])
