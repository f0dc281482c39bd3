"""Records that cannot be read are told by file and place, and none is lost unsaid."""

import datetime
import gzip
import json
import subprocess
import sys
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import pagefeed as pf
from made.texts_made import make_tokenizer

GOOD = {"text": "one two", "n": 1}
LINES = [
    json.dumps(GOOD).encode(),
    b"{broken",
    b'{"txt": "no text"}',
    b'{"text": 5}',
    b'{"text": "half \\ud800 pair"}',
    b'{"text": "bad \xff utf-8"}',
    b'{"text": "wrong n", "n": "x"}',
    b"[1]",
    b"",
    b'{"text": null, "n": null}',
    json.dumps(GOOD).encode(),
]
WRONG = [2, 3, 4, 5, 6, 8]
LEFT_OUT = 7
"""Its text is sound, and its number is not."""


@pytest.fixture(scope="module")
def tok():
    return make_tokenizer()


def write(path):
    # A file whose first lines are sound, so that columns are told by these.
    path.write_bytes(b"\n".join([LINES[0], *LINES[1:]]) + b"\n")
    return path


def rejected(folder):
    return [
        json.loads(line)
        for file in sorted((folder / "_rejected").glob("*.jsonl"))
        for line in file.read_text().splitlines()
    ]


def texts(done, tok):
    table = pa.concat_tables([pq.read_table(file) for file in done.files])
    return [tok.decode(row) for row in table["input_ids"].to_pylist()]


FAILING = """
import sys
import pagefeed as pf
tok = pf.Tokenizer(lambda text: [*text.encode()], vocab_size=256, name="bytes")
pf.tokenize(sys.argv[1], sys.argv[2], tokenizer=tok, shard_size="1MB")
"""


def in_format(kind, folder):
    """A file of texts that breaks off, or has a row that is none."""
    rows = [{"text": "some words of a text " * 20}] * 3000
    path = folder / f"a.{kind}"
    if kind == "jsonl":
        lines = [json.dumps(row) for row in rows]
        path.write_text("\n".join([*lines, "{broken"]))
    elif kind == "jsonl.gz":
        text = "\n".join(json.dumps({"text": random_text(n)}) for n in range(3000))
        path.write_bytes(gzip.compress(text.encode())[:-9000])
    elif kind == "csv":
        path.write_text("text\n" + "some words\n" * 30000 + "a,b,c\n")
    else:
        pq.write_table(pa.table({"text": ["words"] * 9, "n": [1] * 9}), path)
        held = bytearray(path.read_bytes())
        held[4:40] = bytes(36)
        path.write_bytes(held)
    return path


def random_text(seed):
    return " ".join(str(hash((seed, n))) for n in range(20))


@pytest.mark.parametrize("kind", ["jsonl", "jsonl.gz", "csv", "parquet"])
def test_the_last_line_of_a_failed_job_is_its_error(tmp_path, kind):
    """Readers that the end of the process closes say nothing."""
    command = [sys.executable, "-c", FAILING, in_format(kind, tmp_path)]
    done = subprocess.run(
        [*command, tmp_path / "out"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert "pagefeed.errors." in done.stderr
    assert "ignored" not in done.stderr


@pytest.mark.parametrize("is_begun", [True, False])
def test_a_folder_of_another_job_is_left_as_it_is(tmp_path, tok, is_begun):
    """It is neither claimed nor given a lock: the job that works there goes on."""
    source, out = write(tmp_path / "a.jsonl"), tmp_path / "out"
    options: Any = {"on_error": "skip", "max_rejected": 99}
    if is_begun:
        with pytest.raises(pf.errors.CorruptFileError):
            pf.tokenize(source, out, tokenizer=tok)
        (out / ".tokenize.lock").unlink(missing_ok=True)
    else:
        out.mkdir()
        (out / "other.txt").write_text("of somebody")
    before = {path: path.stat().st_mtime_ns for path in out.rglob("*")}
    other = pf.Tokenizer(lambda text: [*text.encode()], vocab_size=256, name="bytes")
    with pytest.raises(pf.errors.InvalidArgumentError, match="give an"):
        pf.tokenize(source, out, tokenizer=other, **options)
    assert {path: path.stat().st_mtime_ns for path in out.rglob("*")} == before


def test_the_first_corrupt_record_fails_the_job_by_name(tmp_path, tok):
    source = write(tmp_path / "a.jsonl")
    with pytest.raises(pf.errors.CorruptFileError, match=r"a\.jsonl, line 2: no JSON"):
        pf.tokenize(source, tmp_path / "out", tokenizer=tok, keep={"n": "int64"})


@pytest.mark.parametrize("shard_size", ["256MiB", "64"])
def test_corrupt_records_are_listed(shard_size, tmp_path, tok):
    source = write(tmp_path / "a.jsonl")
    done = pf.tokenize(
        source,
        tmp_path / "out",
        tokenizer=tok,
        keep={"n": "int64"},
        on_error="skip",
        shard_size=shard_size,
        max_rejected=len(WRONG),
    )
    assert texts(done, tok) == ["one two", "wrong n", "", "one two"]
    found = rejected(tmp_path / "out")
    lines = {int(one["position"].split()[1]): one["records"] for one in found}
    assert lines == {**dict.fromkeys(WRONG, 1), LEFT_OUT: 0}
    assert {one["file"] for one in found} == {str(source)}
    assert done.num_rejected == len(WRONG)
    assert done.reasons["no JSON"] == 2
    assert done.reasons["column 'n' is int64"] == 1


def test_a_stream_that_breaks_off_keeps_what_came_whole(tmp_path, tok):
    whole = b"".join(b'{"text": "document %d"}\n' % n for n in range(5000))
    broken = gzip.compress(whole)[:-2000]
    (tmp_path / "a.jsonl.gz").write_bytes(broken)
    with pytest.raises(pf.errors.CorruptFileError, match=r"a\.jsonl\.gz"):
        pf.tokenize(tmp_path / "a.jsonl.gz", tmp_path / "no", tokenizer=tok)
    done = pf.tokenize(
        tmp_path / "a.jsonl.gz", tmp_path / "out", tokenizer=tok, on_error="skip"
    )
    found = texts(done, tok)
    assert found == [f"document {n}" for n in range(len(found))]
    assert len(found) > 3000
    [one] = rejected(tmp_path / "out")
    assert one["position"] == f"all that follows {len(found)} records"


def test_damaged_row_groups_are_told_by_their_rows(tmp_path, tok):
    path = tmp_path / "a.parquet"
    rows = [f"document {n} " * 9 for n in range(300)]
    pq.write_table(
        pa.table({"text": rows}),
        path,
        row_group_size=100,
        write_page_checksum=True,
        compression="none",
        use_dictionary=False,
    )
    chunk = pq.read_metadata(path).row_group(1).column(0)
    data = bytearray(path.read_bytes())
    data[chunk.data_page_offset + 500] ^= 255
    path.write_bytes(data)
    done = pf.tokenize(
        path, tmp_path / "out", tokenizer=tok, on_error="skip", max_rejected=0.4
    )
    assert texts(done, tok) == rows[:100] + rows[200:]
    [one] = rejected(tmp_path / "out")
    assert (one["position"], one["records"]) == ("rows 100 to 199", 100)
    assert done.num_rejected == 100


def test_rows_of_csv_with_other_columns_are_told(tmp_path, tok):
    path = tmp_path / "a.csv"
    path.write_text('text,n\n"one, two",1\nthree\n"four\nfive",x\nsix,6\n')
    done = pf.tokenize(
        path,
        tmp_path / "out",
        tokenizer=tok,
        keep={"n": "int64"},
        on_error="skip",
        max_rejected=1,
    )
    assert texts(done, tok) == ["one, two", "four\nfive", "six"]
    first, second = sorted(rejected(tmp_path / "out"), key=lambda one: one["error"])
    assert first["error"] == "1 values for 2 columns"
    assert "column 'n'" in second["error"]
    assert second["records"] == 0


def test_bytes_that_are_no_text_are_told_by_row(tmp_path, tok):
    path = tmp_path / "a.parquet"
    pq.write_table(
        pa.table({"text": pa.array([b"one", b"\xff\xfe", None, b"two"])}), path
    )
    done = pf.tokenize(
        path, tmp_path / "out", tokenizer=tok, on_error="skip", max_rejected=1
    )
    assert texts(done, tok) == ["one", "", "two"]
    [one] = rejected(tmp_path / "out")
    assert (one["position"], one["error"]) == ("row 1", "it is not UTF-8")


def test_fields_whose_names_are_no_text_are_left_out(tmp_path, tok):
    path = tmp_path / "a.jsonl"
    path.write_text('{"text": "one", "\\ud800": 1, "id": 7}\n')
    done = pf.tokenize(path, tmp_path / "out", tokenizer=tok, keep=["id"])
    assert texts(done, tok) == ["one"]
    with pytest.raises(pf.errors.ColumnNotFoundError):
        pf.tokenize(path, tmp_path / "other", tokenizer=tok, keep=["\ud800"])


def test_values_of_csv_that_are_no_text_are_null_and_told(tmp_path, tok):
    (tmp_path / "a.csv").write_bytes(b"text,id\none,\x80\ntwo,b\n")
    pf.tokenize(
        tmp_path / "a.csv",
        tmp_path / "out",
        tokenizer=tok,
        keep=["id"],
        on_error="skip",
    )
    [path] = (tmp_path / "out").glob("*.parquet")
    assert pq.read_table(path)["id"].to_pylist() == [None, "b"]
    told = "".join(one.read_text() for one in (tmp_path / "out/_rejected").iterdir())
    assert r"cannot hold b'\\x80'" in told


def test_lines_in_the_middle_of_a_large_file_keep_their_numbers(tmp_path, tok):
    lines = [json.dumps({"text": f"document {n}"}) for n in range(2000)]
    lines[1500] = "broken"
    (tmp_path / "a.jsonl").write_text("\n".join(lines))
    done = pf.tokenize(
        tmp_path / "a.jsonl",
        tmp_path / "out",
        tokenizer=tok,
        on_error="skip",
        shard_size="1KiB",
    )
    assert len(done.files) > 5
    assert texts(done, tok) == [f"document {n}" for n in range(2000) if n != 1500]
    [one] = rejected(tmp_path / "out")
    assert one["position"] == "line 1501"


@pytest.mark.parametrize("name", ["at", "listed", "inside"])
def test_kept_times_of_any_year_arrive_right(tmp_path, tok, name):
    """INT96: as nanoseconds, years far away would wrap around."""
    times = [datetime.datetime(1, 1, 1), None, datetime.datetime(3000, 1, 1)]
    at = pa.array(times, pa.timestamp("us"))
    rows = pa.table(
        {
            "text": ["one", "two", "one two"],
            "at": at,
            "listed": pa.array([[t, t] for t in times], pa.list_(at.type)),
            "inside": pa.StructArray.from_arrays([at], ["at"]),
        }
    )
    for folder, says_unit in (("said", True), ("unsaid", False)):
        (tmp_path / folder).mkdir()
        pq.write_table(
            rows,
            tmp_path / folder / "0.parquet",
            use_deprecated_int96_timestamps=True,
            store_schema=says_unit,
        )
        out = tmp_path / f"{folder} tokens"
        done = pf.tokenize(tmp_path / folder, out, tokenizer=tok, keep=[name])
        kept = pq.read_table(done.folder)[name]
        assert kept.to_pylist() == rows[name].to_pylist()
