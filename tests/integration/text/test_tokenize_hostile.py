"""Files that are damaged, or far too large, end in a typed error, in bounded memory."""

import gzip
import io
import itertools
import json
import random
import subprocess
import sys
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import ipc

import pagefeed as pf
from made.shared_data import ROOT
from made.texts_made import make_tokenizer
from made.tokenizers_made import tokenizer_json
from pagefeed.cli import main

LONG = 128 << 20
"""Bytes of the record that is too long."""
MOST_TAKEN = 64 << 20
"""Bytes of memory for a limit of 1 MiB a record, and all that pyarrow takes at once."""
TEXTS = ["one two", "three"]


@pytest.fixture(scope="module")
def tok():
    return make_tokenizer()


def texts(done, tok):
    table = pa.concat_tables([pq.read_table(file) for file in done.files])
    return [tok.decode(row) for row in table["input_ids"].to_pylist()]


def bytes_around(before, behind):
    """A stream of bytes, of which some hundred MiB are in the middle."""
    middle = itertools.repeat(b"a" * (1 << 20), LONG >> 20)
    return itertools.chain([before], middle, [behind])


def gzipped(path, parts):
    with gzip.open(path, "wb", compresslevel=1) as out:
        for part in parts:
            out.write(part)
    return path


def long_line(folder):
    lines = [json.dumps({"text": text}).encode() for text in TEXTS]
    parts = bytes_around(lines[0] + b'\n{"text": "', b'"}\n' + lines[1] + b"\n")
    return gzipped(folder / "a.jsonl.gz", parts)


def no_line_end(folder):
    with open(folder / "a.jsonl", "wb") as out:
        out.writelines(bytes_around(b"", b""))
    (folder / "b.jsonl").write_text("".join(f'{{"text": "{t}"}}\n' for t in TEXTS))
    return folder


PROGRAM = """
import resource, sys
import pyarrow.csv, pyarrow.json, pyarrow.parquet
import pagefeed as pf
from made.texts_made import make_tokenizer
from pagefeed.cli import main

tok = make_tokenizer()
tok.encode_batch(["a b"], num_threads=1)

def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10

before = peak()
done = pf.tokenize(
    sys.argv[1], sys.argv[2], tokenizer=tok, num_threads=1, on_error="skip",
    max_record="1MiB", max_rejected=1,
)
print(peak() - before, done.num_rejected, list(done.reasons))
"""


def started(program, *arguments, **options):
    paths = [str(ROOT / "python"), str(ROOT / "tests")]
    text = f"import sys\nsys.path[:0] = {paths!r}\n{program}"
    command = [sys.executable, "-c", text, *map(str, arguments)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, **options)


@pytest.mark.parametrize("make", [long_line, no_line_end])
def test_a_record_of_any_length_takes_no_memory(make, tmp_path, tok):
    (tmp_path / "in").mkdir()
    source = make(tmp_path / "in")
    with started(PROGRAM, source, tmp_path / "out") as process:
        said, _ = process.communicate()
    assert process.returncode == 0
    taken, rejected, reasons = said.split(maxsplit=2)
    assert int(taken) < MOST_TAKEN
    assert int(rejected) == 1
    assert "longer than max_record='1.0 MiB'" in reasons
    files = sorted((tmp_path / "out").glob("*.parquet"))
    rows = pa.concat_tables([pq.read_table(file) for file in files])["input_ids"]
    assert [tok.decode(row) for row in rows.to_pylist()] == TEXTS


@pytest.mark.parametrize("suffix", ["csv", "parquet", "arrow"])
def test_the_limit_holds_for_every_format(suffix, tmp_path, tok):
    rows = [TEXTS[0], "x" * 5000, TEXTS[1]]
    path, table = tmp_path / f"a.{suffix}", pa.table({"text": rows})
    if suffix == "csv":
        path.write_text('text,n\n"' + '",1\n"'.join(rows) + '",1\n')
    elif suffix == "parquet":
        pq.write_table(table, path)
    else:
        with ipc.new_file(str(path), table.schema) as out:
            out.write_table(table)
    done = pf.tokenize(
        path,
        tmp_path / "out",
        tokenizer=tok,
        max_record=4000,
        max_rejected=1,
        on_error="skip",
    )
    assert texts(done, tok) == TEXTS
    assert list(done.reasons) == ["it is longer than max_record='3.9 KiB'"]


def test_a_long_row_of_csv_is_read_with_larger_blocks(tmp_path, tok):
    rows = [*TEXTS * 50, "x" * 5000, *TEXTS]
    (tmp_path / "a.csv").write_text(
        "text,n\n1\n" + "".join(f'"{row}",1\n' for row in rows) + "2,3,4\n"
    )
    done = pf.tokenize(
        tmp_path / "a.csv",
        tmp_path / "out",
        tokenizer=tok,
        shard_size=1000,
        on_error="skip",
        max_rejected=2,
    )
    assert texts(done, tok) == rows
    assert done.num_rejected == 2


def damaged(data, chance):
    data = bytearray(data)
    for _ in range(chance.choice([1, 2, 5])):
        data[chance.randrange(len(data))] = chance.choice([0, 127, 128, 255])
    return bytes(data)


ARROW_PROGRAM = """
import os, sys
from contextlib import suppress
import pagefeed as pf
from made.texts_made import make_tokenizer
from pagefeed.cli import main

tok = make_tokenizer()
tok.encode_batch(["a b"], num_threads=1)
folder, kept = sys.argv[1], sys.argv[2].split(",")
for name in sorted(os.listdir(folder)):
    with suppress(pf.errors.PagefeedError):
        pf.tokenize(
            f"{folder}/{name}", f"{folder}/{name}.out", tokenizer=tok, keep=kept,
            num_threads=1, on_error="skip", retries=0,
        )
"""


@pytest.mark.parametrize("codec", [None, "zstd"])
def test_a_damaged_arrow_file_never_ends_the_process(codec, tmp_path):
    numbers = range(60)
    table = pa.table(
        {
            "text": [f"text {n}" for n in numbers],
            "url": [f"u{n}" for n in numbers],
            "tags": [["a"] * (n % 4) for n in numbers],
            "kind": pa.array([f"k{n % 3}" for n in numbers]).dictionary_encode(),
            "meta": [{"a": n, "b": f"b{n}"} for n in numbers],
        }
    )
    sink = io.BytesIO()
    with ipc.new_file(
        sink, table.schema, options=ipc.IpcWriteOptions(compression=codec)
    ) as out:
        out.write_table(table)
    chance = random.Random(3)
    (tmp_path / "in").mkdir()
    for number in range(40):
        (tmp_path / "in" / f"{number:03}.arrow").write_bytes(
            damaged(sink.getvalue(), chance)
        )
    with started(ARROW_PROGRAM, tmp_path / "in", "url,tags,kind,meta") as process:
        process.communicate()
    assert process.returncode == 0


FULL_PROGRAM = """
import resource, signal, sys
import pagefeed as pf
from made.texts_made import make_tokenizer
from pagefeed.cli import main

tok = make_tokenizer()
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[3]), resource.RLIM_INFINITY))
try:
    pf.tokenize(sys.argv[1], sys.argv[2], tokenizer=tok, retries=0, compression="none")
except pf.errors.FileAccessError as problem:
    print(problem)
"""


@pytest.mark.parametrize("most", [10, 4 << 10, 100 << 10])
def test_a_full_disk_is_an_error_that_leaves_no_draft(most, tmp_path, tok):
    rows = [{"text": f"document {n} " * 20} for n in range(2000)]
    (tmp_path / "a.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    with started(
        FULL_PROGRAM,
        tmp_path / "a.jsonl",
        tmp_path / "out",
        most,
        stderr=subprocess.PIPE,
    ) as process:
        said, shown = process.communicate()
    assert "cannot be written" in said
    assert "Traceback" not in shown
    assert not list((tmp_path / "out").rglob(".*"))
    done = pf.tokenize(
        tmp_path / "a.jsonl", tmp_path / "out", tokenizer=tok, compression="none"
    )
    assert done.num_documents == len(rows)


HELD_PROGRAM = """
import sys, time
from pagefeed.remote import locked
with locked(sys.argv[1]):
    print("held", flush=True)
    time.sleep(600)
"""


def test_one_process_writes_a_folder(tmp_path, tok):
    (tmp_path / "a.jsonl").write_text('{"text": "one two"}\n')
    (tmp_path / "out").mkdir()
    with started(HELD_PROGRAM, tmp_path / "out" / ".tokenize.lock") as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        with pytest.raises(
            pf.errors.FileAccessError, match=f"process {process.pid} of"
        ):
            pf.tokenize(tmp_path / "a.jsonl", tmp_path / "out", tokenizer=tok)
        process.kill()
    done = pf.tokenize(tmp_path / "a.jsonl", tmp_path / "out", tokenizer=tok)
    assert texts(done, tok) == ["one two"]
    assert not [*(tmp_path / "out").glob(".*")]


def write_lines(path, rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


DRIFTS: dict[str, tuple[Any, Any, Any, list[Any]]] = {
    "a flag": (0.5, True, pa.string(), ["0.5", "true"]),
    "a list of texts": ([1], ["a"], pa.string(), ["[1]", '["a"]']),
    "a number with a fraction": (1, 0.5, pa.float64(), [1.0, 0.5]),
    "a number as text": (1, "x", pa.string(), ["1", "x"]),
    "a text as number": ("x", 1, pa.string(), ["x", "1"]),
    "a huge number": (1, 10**30, pa.string(), ["1", str(10**30)]),
    "half of a pair": ("x", "\ud800", pa.string(), ["x", '"\\ud800"']),
    "an object": ({"a": 1}, {"b": 2}, pa.string(), ['{"a": 1}', '{"b": 2}']),
    "a list": (["a"], "a", pa.string(), ['["a"]', "a"]),
}


SEEN_AS_ANOTHER = {"a flag"}
"""What has the narrower type even if it is among the first records."""
WIDE = {"a text as number", "half of a pair", "an object"}
"""Texts and JSON, which hold any later value."""


@pytest.mark.parametrize("num_first", [1, 20], ids=["soon", "late"])
@pytest.mark.parametrize("drift", DRIFTS)
def test_a_later_value_of_another_type_names_one_that_holds_it(
    drift, num_first, tmp_path, tok
):
    first, last, kind, values = DRIFTS[drift]
    # Twenty of these are more than decides on a type.
    text = "one" if num_first == 1 else "one " * 20_000
    rows = [{"text": text, "n": first}] * num_first + [{"text": "two", "n": last}]
    path, out, keep = write_lines(tmp_path / "a.jsonl", rows), tmp_path / "out", ["n"]
    options: dict[str, Any] = {"tokenizer": tok, "shard_size": "8KiB"}
    if drift in SEEN_AS_ANOTHER or (num_first > 1 and drift not in WIDE):
        told = f"a.jsonl, line {num_first + 1}: .* keep={{'n': '{kind}'}}"
        with pytest.raises(pf.errors.InvalidArgumentError, match=told):
            pf.tokenize(path, tmp_path / "no", keep=keep, **options)
        options["keep"] = {"n": str(kind)}
    done = pf.tokenize(path, out, **{"keep": keep} | options)
    table = pa.concat_tables([pq.read_table(file) for file in done.files])
    assert table["n"].type == kind
    assert table["n"].to_pylist() == [values[0]] * num_first + [values[1]]
    assert (done.num_rejected, done.num_documents) == (0, num_first + 1)


def test_numbers_of_thousands_of_digits_are_no_error(tmp_path, tok):
    lines = [f'{{"text": "one", "n": {"1" * 5000}}}', '{"text": "two", "n": "\\udc00"}']
    (tmp_path / "a.jsonl").write_text("\n".join(lines))
    for keep in ([], ["n"]):
        out = tmp_path / f"out{len(keep)}"
        done = pf.tokenize(tmp_path / "a.jsonl", out, tokenizer=tok, keep=keep)
        assert texts(done, tok) == ["one", "two"]


def test_a_string_beside_that_is_no_utf_8_is_null_and_told(tmp_path, tok):
    (tmp_path / "a.csv").write_bytes(b"text,n\none,a\ntwo,\xb0\n")
    done = pf.tokenize(
        tmp_path / "a.csv", tmp_path / "out", tokenizer=tok, keep=["n"], on_error="skip"
    )
    assert texts(done, tok) == ["one", "two"]
    assert pq.read_table(done.files[0])["n"].to_pylist() == ["a", None]
    assert done.reasons == {"column 'n' is string": 1}


def test_csv_columns_of_one_name_are_refused(tmp_path, tok):
    (tmp_path / "a.csv").write_text("n,text,n\n1,one,2\n")
    done = pf.tokenize(tmp_path / "a.csv", tmp_path / "out", tokenizer=tok)
    assert texts(done, tok) == ["one"]
    with pytest.raises(pf.errors.UnsupportedError, match="2 columns are called 'n'"):
        pf.tokenize(tmp_path / "a.csv", tmp_path / "no", tokenizer=tok, keep=["n"])


@pytest.mark.parametrize("most", [1, 0.2], ids=["number", "share"])
def test_more_rejected_than_may_be_is_an_error(most, tmp_path, tok):
    path, out = tmp_path / "a.jsonl", tmp_path / "out"
    path.write_text('{"text": "one"}\n' * 3 + '{"txt": 1}\nbroken\n')
    told = r"2 of 5 records were rejected \(1 there is no field 'text'; 1 no JSON\)"
    with pytest.raises(pf.errors.LimitExceededError, match=told):
        pf.tokenize(path, out, tokenizer=tok, on_error="skip", max_rejected=most)
    done = pf.tokenize(path, out, tokenizer=tok, on_error="skip", max_rejected=0.4)
    assert (done.num_documents, done.num_rejected) == (3, 2)
    with pytest.raises(pf.errors.LimitExceededError, match=told):
        pf.tokenize(path, out, tokenizer=tok, on_error="skip", max_rejected=most)


@pytest.mark.parametrize("content", ["", "\n\n"])
def test_inputs_without_records_are_an_error(content, tmp_path, tok):
    (tmp_path / "a.jsonl").write_text(content)
    with pytest.raises(
        pf.errors.EmptySelectionError, match=r"a\.jsonl.* hold no record"
    ):
        pf.tokenize(tmp_path / "a.jsonl", tmp_path / "out", tokenizer=tok)


@pytest.mark.parametrize("most", [0.5, 2.0, -1, True, "1%"])
def test_what_is_no_number_of_records_is_refused(most, tmp_path, tok):
    path = write_lines(tmp_path / "a.jsonl", [{"text": "one"}])
    options: dict[str, Any] = {"tokenizer": tok, "max_rejected": most}
    if most == 0.5:
        pf.tokenize(path, tmp_path / "out", **options)
        return
    with pytest.raises(pf.errors.InvalidArgumentError, match="max_rejected="):
        pf.tokenize(path, tmp_path / "out", **options)


def test_the_verb_ends_with_an_error_where_all_is_rejected(tmp_path, capsys):
    (tmp_path / "t.json").write_text(tokenizer_json("llama3"))
    (tmp_path / "a.jsonl").write_text("broken\n" * 3)
    command = ["tokenize", str(tmp_path / "a.jsonl")]
    command += ["--tokenizer", str(tmp_path / "t.json")]
    command += ["--output", str(tmp_path / "out"), "--on-error", "skip"]
    assert main([*command, "--max-rejected", "100%"]) == 1
    assert "all 3 records were rejected (3 no JSON)" in capsys.readouterr().err
