"""Files of the formats' own writers, read as their own readers read them.

Megatron-Core's builder and MosaicML's writer: `make test-trainers ARGS=formats`.
"""

import numpy as np
import pytest

import pagefeed as pf

LENGTHS = [5, 1, 300, 0, 40_000, 17, 2]

INTEGERS = [f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)]


def documents(dtype: str) -> list[np.ndarray]:
    """Documents of these lengths, with all that a type can hold."""
    rng = np.random.default_rng(1)
    most = min(np.iinfo(dtype).max, 2**40)
    return [rng.integers(0, most, length, dtype=dtype) for length in LENGTHS]


@pytest.mark.parametrize("multimodal", [False, True])
@pytest.mark.parametrize(
    "dtype", ["uint8", "int8", "int16", "uint16", "int32", "int64"]
)
def test_megatron_core(tmp_path, dtype, multimodal):
    module = "megatron.core.datasets.indexed_dataset"
    indexed = pytest.importorskip(module, reason="make test-trainers ARGS=formats")
    torch = pytest.importorskip("torch", reason="make test-trainers ARGS=formats")
    prefix = str(tmp_path / "corpus")
    kind = getattr(np, dtype)
    builder = indexed.IndexedDatasetBuilder(f"{prefix}.bin", kind, multimodal)
    for number, tokens in enumerate(documents(dtype)):
        values = torch.from_numpy(tokens.astype(np.int64))
        halves = [values[: len(values) // 2], values[len(values) // 2 :]]
        for mode, half in enumerate(halves[number % 2 :]):
            builder.add_item(half, mode)
        builder.end_document()
    builder.finalize(f"{prefix}.idx")
    theirs = indexed.IndexedDataset(prefix, multimodal=multimodal)
    by_sequence = pf.megatron(prefix, rows="sequences")
    assert len(by_sequence) == len(theirs)
    for number, row in enumerate(by_sequence):
        sequence = theirs[number][0] if multimodal else theirs[number]
        assert row["input_ids"] == sequence.tolist()
    borders = theirs.document_indices
    assert len(pf.megatron(prefix)) == len(borders) - 1
    for number, row in enumerate(pf.megatron(prefix)):
        rows = range(borders[number], borders[number + 1])
        parts = [theirs[at][0] if multimodal else theirs[at] for at in rows]
        assert row["input_ids"] == np.concatenate(parts).tolist()
    modes = by_sequence.modes()
    assert (modes is None) == (not multimodal)
    if modes is not None:
        assert (modes == theirs.index.sequence_modes).all()


@pytest.mark.parametrize(
    ("encoding", "dtype"),
    [
        *((f"ndarray:{dtype}", dtype) for dtype in INTEGERS),
        ("bytes", "int64"),
        ("bytes", "uint32"),
    ],
)
@pytest.mark.parametrize("others", [{}, {"id": "int"}, {"text": "str", "url": "str"}])
def test_mosaicml_streaming(tmp_path, encoding, dtype, others):
    streaming = pytest.importorskip(
        "streaming", reason="make test-trainers ARGS=formats"
    )
    columns = {"tokens": encoding, **others}
    values = {"id": 7, "text": "a text", "url": "u" * 99}
    out = str(tmp_path / "mds")
    # Arrays without numbers are none for the writer.
    rows = [row for row in documents(dtype) if len(row)]
    with streaming.MDSWriter(out=out, columns=columns, size_limit=50_000) as writer:
        for tokens in rows:
            value = tokens.tobytes() if encoding == "bytes" else tokens
            writer.write({"tokens": value} | {name: values[name] for name in others})
    theirs = streaming.LocalDataset(local=out)
    ours = pf.mds(out, column="tokens", dtype=dtype if encoding == "bytes" else None)
    assert len(ours) == len(theirs) == len(rows)
    for sample, row in zip(theirs, ours, strict=True):
        found = sample["tokens"]
        found = np.frombuffer(found, dtype) if encoding == "bytes" else found
        assert row["tokens"] == found.tolist()


def test_mosaicml_streaming_of_one_shape(tmp_path):
    streaming = pytest.importorskip(
        "streaming", reason="make test-trainers ARGS=formats"
    )
    rows = np.arange(60, dtype=np.uint16).reshape(10, 6)
    out = str(tmp_path / "mds")
    with streaming.MDSWriter(out=out, columns={"tokens": "ndarray:uint16:6"}) as writer:
        for row in rows:
            writer.write({"tokens": row})
    assert [row["tokens"] for row in pf.mds(out)] == rows.tolist()
