"""Files of a teacher's top-k: read back, resumed, refused; shards of open-instruct."""

import contextlib
import math
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import pagefeed as pf
from pagefeed.errors import FileAccessError, InvalidArgumentError
from pagefeed.integrations.open_instruct import CompressedLogits

K = 5


def some(first: int, count: int, length: int = 9) -> tuple[Any, Any, Any]:
    """Tokens from ``first`` on, with ids and log-probabilities that tell them."""
    tokens = first + np.arange(count * length).reshape(count, length)
    return tokens, tokens[..., None] + np.arange(K), -tokens[..., None] - np.ones(K) / 4


def read(folder: Path, **options: Any) -> list[dict[str, Any]]:
    names = {"teacher_ids": -1, "teacher_logprobs": pf.Aligned(**options)}
    data = pf.parquet(folder, column="input_ids", aligned=names)
    return list(pf.Loader(data, sequences=pf.Packed(16), batch_size=2, drop_last=False))


@pytest.mark.parametrize("dtype", ["float16", "float32", "bfloat16"])
@pytest.mark.parametrize("group", ["1KiB", "4MiB"])
def test_what_was_appended_is_read(tmp_path: Path, dtype: Any, group: str):
    lengths = [9, 0, 3, 8]
    with pf.TeacherWriter(
        tmp_path, k=K, logprob_dtype=dtype, group_size=group, columns={"id": "string"}
    ) as out:
        for first in (1, 101, 201):
            ids = {"id": [f"{first}-{n}" for n in range(4)]}
            out.append(*some(first, 4), lengths=lengths, columns=ids)
        assert out.num_rows == 12
    options: Any = {"dtype": "bfloat16"} if dtype == "bfloat16" else {}
    seen = 0
    for batch in read(tmp_path, **options):
        tokens = batch["input_ids"]
        own = tokens > 0
        seen += int(own.sum())
        expected = tokens[own][:, None] + np.arange(K)
        np.testing.assert_array_equal(batch["teacher_ids"][own], expected)
        assert (batch["teacher_ids"][~own] == -1).all()
        found = batch["teacher_logprobs"][own]
        if dtype == "bfloat16":
            found = (found.astype(np.uint32) << 16).view(np.float32)
        wanted = -tokens[own][:, None] - 0.25 + 0 * expected
        np.testing.assert_allclose(found, wanted, rtol=1e-2)
    assert seen == 3 * sum(lengths)
    table = pq.read_table(tmp_path)
    assert table["id"].to_pylist()[:5] == ["1-0", "1-1", "1-2", "1-3", "101-0"]
    [path] = tmp_path.glob("*.parquet")
    with pq.ParquetFile(path) as file:
        column = file.metadata.row_group(0).column(1)
        assert column.has_offset_index
        assert file.metadata.num_row_groups == (1 if group == "4MiB" else 3)


def test_tensors_and_rows_of_their_own_are_taken(tmp_path: Path):
    torch = pytest.importorskip("torch")
    tokens, ids, logprobs = (torch.from_numpy(each) for each in some(1, 2))
    with pf.TeacherWriter(tmp_path, k=K) as out:
        out.append(tokens, ids, logprobs.to(torch.bfloat16))
        out.append([tokens[0, :3]], [ids[0, :3]], [logprobs[0, :3]])
    lists = pq.read_table(tmp_path)["teacher_ids"].to_pylist()
    assert lists[2] == ids[0, :3].tolist()
    assert lists[:2] == ids.tolist()


def test_a_killed_process_goes_on_behind_its_files(tmp_path: Path):
    program = f"""
import os, signal, sys
import numpy as np
import pagefeed as pf
with pf.TeacherWriter({str(tmp_path)!r}, k={K}, process=3) as out:
    assert out.num_rows == 0
    for first in range(0, 40, 4):
        tokens = np.arange(first, first + 4)[:, None] + np.zeros(6, int)
        ids = tokens[..., None] + np.zeros({K}, int)
        out.append(tokens, ids, -np.ones(ids.shape))
        if first == 16:
            out.commit()
        if first == 32:
            os.kill(os.getpid(), signal.SIGKILL)
"""
    done = subprocess.run([sys.executable, "-c", program], check=False)
    assert done.returncode == -signal.SIGKILL
    with pf.TeacherWriter(tmp_path, k=K, process=3) as out:
        assert out.num_rows == 20
        while out.num_rows < 40:
            tokens = np.full((1, 6), out.num_rows)
            ids = tokens[..., None] + np.zeros(K, int)
            out.append(tokens, ids, -np.ones(ids.shape))
    with pf.TeacherWriter(tmp_path, k=K, process=1) as other:
        tokens, ids, logprobs = some(1000, 1)
        other.append(tokens, ids, logprobs)
    found = pq.read_table(tmp_path)["input_ids"].to_pylist()
    assert [row[0] for row in found] == [1000, *range(40)]
    names = sorted(path.name for path in tmp_path.glob("*.parquet"))
    assert names == [
        *("part-00001-00000.parquet", "part-00003-00000.parquet"),
        "part-00003-00001.parquet",
    ]


def test_an_error_leaves_what_was_committed(tmp_path: Path):
    out = pf.TeacherWriter(tmp_path, k=K)
    with contextlib.suppress(ZeroDivisionError), out:
        out.append(*some(1, 2))
        out.commit()
        out.append(*some(100, 2))
        raise ZeroDivisionError
    assert pf.TeacherWriter(tmp_path, k=K).num_rows == 2
    left = {path.name for path in tmp_path.iterdir() if not path.name.endswith("lock")}
    assert left == {"part-00000-00000.parquet"}


def test_files_end_and_processes_are_apart(tmp_path: Path):
    with pf.TeacherWriter(tmp_path, k=K, group_size=1, file_size=1) as out:
        out.append(*some(1, 3))
        with pytest.raises(FileAccessError), pf.TeacherWriter(tmp_path, k=K):
            pass
        with pf.TeacherWriter(tmp_path, k=K, process=1) as other:
            other.append(*some(100, 1))
    assert len([*tmp_path.glob("part-00000-*.parquet")]) == 3
    with pytest.raises(InvalidArgumentError, match="other settings"):
        pf.TeacherWriter(tmp_path, k=K + 1)
    (tmp_path / "part-00002-00000.parquet").write_bytes(b"PAR1")
    with pytest.raises(InvalidArgumentError, match="no file of a TeacherWriter"):
        pf.TeacherWriter(tmp_path, k=K, process=2)


def test_what_does_not_fit_is_refused_and_nothing_is_appended(tmp_path: Path):
    tokens, ids, logprobs = some(1, 2)
    nan = logprobs.copy()
    nan[1, 2, 3] = np.nan
    bad: list[tuple[Any, ...]] = [
        (tokens, ids[:1], logprobs),
        (tokens, ids[:, :3], logprobs),
        (tokens, ids[..., :2], logprobs),
        (tokens, ids, nan),
        (tokens, ids, ids),
        (tokens, -ids, logprobs),
        (tokens, ids + (1 << 31), logprobs),
        (tokens, ids * 1.0, logprobs),
        (tokens, ids, logprobs * 1e6),
        (tokens[..., None], ids, logprobs),
        (3, ids, logprobs),
        (tokens.astype(str), ids, logprobs),
        (tokens, ids.astype(str), logprobs),
        (tokens, ids, logprobs.astype(str)),
        (tokens.tolist(), ids.astype(object), logprobs.astype(bytes)),
    ]
    with pf.TeacherWriter(tmp_path, k=K) as out:
        for each in bad:
            with pytest.raises(InvalidArgumentError):
                out.append(*each)
        for lengths in ([1], [1, 10], [-1, 2]):
            with pytest.raises(InvalidArgumentError, match="lengths"):
                out.append(tokens, ids, logprobs, lengths=lengths)
        with pytest.raises(InvalidArgumentError, match="columns"):
            out.append(tokens, ids, logprobs, columns={"id": [1, 2]})
        assert out.num_rows == 0
    assert not [*tmp_path.glob("*.parquet")]
    wrong: Any
    for wrong in [
        *({"k": 0}, {"k": 2, "dtype": "int8"}, {"k": 2, "logprob_dtype": "int8"}),
        *({"k": 2, "process": -1}, {"k": 2, "compression": "x"}),
        *({"k": 2, "columns": {"input_ids": "int32"}}, {"k": 2, "columns": {"a": "?"}}),
    ]:
        with pytest.raises(InvalidArgumentError):
            pf.TeacherWriter(tmp_path, **wrong)


def packed(values: npt.NDArray[Any], bits: int) -> npt.NDArray[Any]:
    """Bytes of numbers of so many bits, the highest first."""
    text = "".join(format(int(value), f"0{bits}b") for value in values)
    text += "0" * (-len(text) % 8)
    return np.array([int(text[i : i + 8], 2) for i in range(0, len(text), 8)], np.uint8)


CONFIGS: list[dict[str, Any]] = [
    {"d": 1000, "k": 6, "exact_k": 6, "delta_encoding": False},
    {"d": 1024, "k": 6, "exact_k": 6, "exact_dtype": "float16"},
    {
        "d": 100_000,
        "k": 8,
        "exact_k": 2,
        "exact_dtype": "float16",
        "polynomial_terms": [0, 1, "sqrt"],
        "term_dtype": "float32",
        "residual_bins": [
            {"scale_dtype": "float16", "element_bits": 7, "num_elements": 3},
            {"scale_dtype": "float32", "element_bits": 1, "num_elements": 2},
        ],
        "delta_encoding": True,
        "normalize_t": True,
    },
]


def compressed(
    ids: npt.NDArray[Any], config: dict[str, Any], draw: np.random.Generator
) -> tuple[list[int], list[int], npt.NDArray[Any]]:
    """The bytes of one token, and the numbers that they stand for, one by one."""
    k, exact = config["k"], config["exact_k"]
    kind = np.dtype(config.get("exact_dtype", "float32"))
    first = (-np.sort(draw.random(exact))).astype(kind)
    made, rest = [first.view(np.uint8)], np.zeros(k - exact)
    terms = config.get("polynomial_terms", [])
    factors = draw.random(len(terms)).astype(config.get("term_dtype", "float32"))
    made.append(factors.view(np.uint8))
    for place in range(k - exact):
        point = place / (k - exact - 1) if config.get("normalize_t") else place
        for factor, term in zip(factors, terms, strict=True):
            value = math.sqrt(point) if term == "sqrt" else point**term
            rest[place] += float(factor) * value
    at = 0
    for each in config.get("residual_bins", []):
        bits, count = each["element_bits"], each["num_elements"]
        scale = np.array([draw.random()], each["scale_dtype"])
        whole = draw.integers(0, 1 << bits, count)
        made += [scale.view(np.uint8), packed(whole, bits)]
        for value in whole.tolist():
            signed = 2 * value - 1 if bits == 1 else value - (1 << (bits - 1))
            rest[at] += signed * float(scale[0])
            at += 1
    numbers = np.concatenate([first.astype(np.float64), rest])
    numbers = np.cumsum(numbers) if config.get("delta_encoding", True) else numbers
    bits = math.ceil(math.log2(config["d"]))
    return packed(ids, bits).tolist(), np.concatenate(made).tolist(), numbers


@pytest.mark.parametrize("config", CONFIGS)
@pytest.mark.parametrize("shifted", [True, False])
@pytest.mark.parametrize("form", ["numpy", "torch"])
def test_shards_of_open_instruct(
    tmp_path: Path, config: dict[str, Any], shifted: bool, form: Any
):
    if form == "torch":
        pytest.importorskip("torch")
    draw, expected = np.random.default_rng(0), {}
    columns: dict[str, list[Any]] = {
        name: [] for name in ("input_ids", "compressed_logprobs", "bytepacked_indices")
    }
    token = 1
    for length in (5, 1, 7, 12):
        row = list(range(token, token + length))
        token += length
        columns["input_ids"].append(row)
        lists: list[Any] = [[], []]
        for each in row[1:]:  # Of the first token, nothing is said.
            ids = draw.integers(0, config["d"], config["k"])
            indices, logprobs, wanted = compressed(ids, config, draw)
            lists[0].append(logprobs)
            lists[1].append(indices)
            expected[each] = ids, wanted
        columns["compressed_logprobs"].append(lists[0])
        columns["bytepacked_indices"].append(lists[1])
    kinds = {name: pa.list_(pa.list_(pa.uint8())) for name in columns}
    kinds["input_ids"] = pa.list_(pa.uint64())
    table = {name: pa.array(rows, kinds[name]) for name, rows in columns.items()}
    pq.write_table(pa.table(table), tmp_path / "data_0.parquet")
    logits = CompressedLogits(config, shifted=shifted)
    loader = pf.Loader(
        pf.parquet(tmp_path, column="input_ids", aligned=logits.aligned),
        sequences=pf.Packed(16, eos=0),
        batch_size=2,
        format=form,
        fields=pf.Fields(names=("input_ids", "labels"), shifted=True),
        transform=logits.unpack,
        drop_last=False,
    )
    seen = set()
    for batch in loader:
        assert "teacher_bytes" not in batch
        tokens = np.asarray(batch["labels"] if shifted else batch["input_ids"])
        found = np.asarray(batch["teacher_ids"])
        numbers = np.asarray(batch["teacher_logprobs"])
        assert found.shape == numbers.shape == (*tokens.shape, config["k"])
        for place, which in np.ndenumerate(tokens):
            if int(which) not in expected:
                assert (found[place] == -1).all()
                assert (numbers[place] == -np.inf).all()
                continue
            seen.add(int(which))
            np.testing.assert_array_equal(found[place], expected[int(which)][0])
            np.testing.assert_allclose(
                numbers[place], expected[int(which)][1], rtol=1e-4, atol=1e-4
            )
    assert seen == set(expected)


def test_other_configurations_are_refused():
    good = CONFIGS[2]
    assert CompressedLogits(good).k == 8
    bins = [{"scale_dtype": "float16", "element_bits": 40, "num_elements": 1}]
    for bad in [
        *({}, {"d": 10, "k": 0, "exact_k": 0}, good | {"exact_k": 9}),
        *(good | {"exact_dtype": "int8"}, good | {"residual_bins": bins}),
        *(good | {"polynomial_terms": ["sin"]}, good | {"exact_k": 7}, "x"),
    ]:
        with pytest.raises(InvalidArgumentError, match="compression_config"):
            CompressedLogits(bad)  # type: ignore[arg-type]


def test_two_writers_of_one_number_are_kept_apart(tmp_path: Path):
    """With and without `with`, in one process."""
    one, other = (pf.TeacherWriter(tmp_path, k=K) for _ in range(2))
    one.append(*some(1, 2))
    with pytest.raises(FileAccessError, match="being written"):
        other.append(*some(100, 2))
    with pytest.raises(FileAccessError, match="being written"), other:
        pass
    one.commit()
    one.abandon()
    with pytest.raises(FileAccessError, match=r"holds 2 rows .* had 0"):
        other.append(*some(100, 2))
    again = pf.TeacherWriter(tmp_path, k=K)
    again.append(*some(100, 2))
    again.abandon()
    assert again.num_rows == 2
    again.append(*some(200, 3))
    again.commit()
    again.abandon()
    found = pq.read_table(tmp_path)["input_ids"].to_pylist()
    assert [row[0] for row in found] == [1, 10, 200, 209, 218]


ODD: list[Any] = [
    *(3, 2.7, True, "id", b"id", object(), {"id": 3}, {3: "string"}, {"id": None}),
    *([3, None], ["3", "1"], [2.7, 1], [True, False], [[1], [1, 2]], [-1, 1], [1]),
    *([10**400, 1], [math.nan, 1], [["a", "b"], ["c", "d"]], [None, None], [[], []]),
    *(np.zeros((2, 9), complex), np.array(3), np.array(["a", "b"]), {"id": [1, "b"]}),
    *({"id": ["a", object()]}, {"id": "ab"}, {"id": ["a"]}, [], {}),
]


@pytest.mark.parametrize("odd", ODD, ids=[f"odd{n}" for n in range(len(ODD))])
@pytest.mark.parametrize(
    ("name", "kind"),
    [
        *((name, "string") for name in ("tokens", "ids", "logprobs", "lengths")),
        *(("columns", kind) for kind in ("string", "int32", "timestamp[us]")),
    ],
)
def test_whatever_is_given_is_written_or_refused(
    tmp_path: Path, name: str, odd: Any, kind: str
):
    given = dict(zip(["tokens", "ids", "logprobs"], some(1, 2), strict=True))
    value = {"string": "a", "int32": 1}.get(kind, np.datetime64("2024-01-01", "us"))
    given |= {"lengths": [3, 1], "columns": {"id": [value, value]}, name: odd}
    with pf.TeacherWriter(tmp_path, k=K, columns={"id": kind}) as out:
        try:
            out.append(**given)
        except InvalidArgumentError:
            assert out.num_rows == 0
        else:
            assert name == "columns" or (name == "lengths" and odd in ([], [-1, 1]))


@pytest.mark.parametrize("odd", ODD, ids=[f"odd{n}" for n in range(len(ODD))])
@pytest.mark.parametrize(
    "name", ["columns", "k", "process", "dtype", "compression", "group_size", "folder"]
)
def test_whatever_a_writer_is_made_of_is_refused_by_name(
    tmp_path: Path, name: str, odd: Any
):
    given: dict[str, Any] = {"folder": tmp_path, "k": K, name: odd}
    if name == "folder" and isinstance(odd, str):
        given["folder"] = str(tmp_path / odd)
    with contextlib.suppress(InvalidArgumentError):
        pf.TeacherWriter(**given)
