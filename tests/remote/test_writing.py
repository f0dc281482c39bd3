"""What is written to a bucket appears whole, goes on after a kill, and does not mix."""

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import pagefeed as pf
from made.shared_data import ROOT
from made.texts_made import make_tokenizer
from pagefeed.cli import main
from pagefeed.errors import FileAccessError, InvalidArgumentError, MissingFileError
from pagefeed.remote import output_file, output_folder, outputs

PROGRAM = """
import json, sys
import pagefeed as pf
from made.texts_made import make_tokenizer

source, output, options = sys.argv[1:]
pf.tokenize(
    source, output, tokenizer=make_tokenizer(), keep=["n"], num_threads=2,
    shard_size="48KiB", on_error="skip", storage_options=json.loads(options),
)
"""


@pytest.fixture
def bucket(root: Path, tmp_path: Path) -> Path:
    """An empty bucket, as its folder."""
    found = root / f"written-{tmp_path.name.lower().replace('_', '-')}"
    found.mkdir(exist_ok=True)
    return found


@pytest.fixture
def folder(s3, bucket: Path):
    return output_folder(f"s3://{bucket.name}/out", s3.options, "output")


def contents(place: Path) -> dict[str, bytes]:
    files = (file for file in place.rglob("*") if file.is_file())
    return {str(file.relative_to(place)): file.read_bytes() for file in files}


@pytest.mark.parametrize("size", [0, 10, 11 << 20, 21 << 20])
def test_an_object_appears_whole(folder, bucket, monkeypatch, size: int):
    monkeypatch.setattr(outputs, "PART_BYTES", 5 << 20)
    data = random.Random(size).randbytes(size)
    with folder.writer("a/b c.bin") as out:
        for at in range(0, size, 700_001):
            out.write(data[at : at + 700_001])
        assert "out/a/b c.bin" not in contents(bucket)
    assert contents(bucket) == {"out/a/b c.bin": data}
    assert out.size == size
    assert folder.read("a/b c.bin") == data
    assert folder.names() == ["a"]
    assert folder.names("a") == ["b c.bin"]
    assert folder.size("a/b c.bin") == size
    assert folder.size("a/none") is None


def test_nothing_is_left_of_what_fails(folder, bucket, monkeypatch):
    monkeypatch.setattr(outputs, "PART_BYTES", 5 << 20)

    def fail() -> None:
        with folder.writer("a.bin") as out:
            out.write(bytes(12 << 20))
            assert folder.names() == [".a.bin.upload"]
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fail()
    assert contents(bucket) == {}


def test_parts_of_a_killed_process_are_removed(folder, bucket, root, monkeypatch):
    monkeypatch.setattr(outputs, "PART_BYTES", 5 << 20)
    before = set(os.listdir(root))
    killed = folder.writer("a.bin")
    killed.write(bytes(12 << 20))
    for part in killed._parts:
        part.result()
    assert set(os.listdir(root)) > before, "parts lie in the server"
    with folder.writer("a.bin") as out:
        out.write(b"1" * (12 << 20))
    assert contents(bucket) == {"out/a.bin": b"1" * (12 << 20)}
    left = {name for name in os.listdir(root) if "upload" in name}
    assert left <= before


def test_of_two_writers_one_is_first(folder):
    assert folder.replace("m.json", b"1", None)
    assert not folder.replace("m.json", b"2", None)
    _, version = folder.read_version("m.json")
    assert folder.replace("m.json", b"2", version)
    assert not folder.replace("m.json", b"3", version)
    assert folder.replace("m.json", b"2", version), "an answer may have been lost"
    assert folder.read("m.json") == b"2"


def write_texts(path: Path, count: int = 900) -> Path:
    lines = [
        json.dumps(
            {"text": f"{number} words of a text " * (1 + number % 9), "n": number}
        )
        for number in range(count)
    ]
    path.write_text("\n".join([*lines[:7], "broken", *lines[7:]]) + "\n")
    return path


def tokenized(source: Path, output: Any, **more: Any) -> Any:
    options = {"keep": ["n"], "shard_size": "48KiB", "on_error": "skip"} | more
    return pf.tokenize(source, output, tokenizer=make_tokenizer(), **options)


def test_tokens_are_those_of_a_folder(s3, bucket, tmp_path):
    source = write_texts(tmp_path / "a.jsonl")
    here = tokenized(source, tmp_path / "out")
    url = f"s3://{bucket.name}/tokens"
    there = tokenized(source, url, storage_options=s3.options)
    assert contents(bucket / "tokens") == contents(tmp_path / "out")
    assert there.files[0].startswith(url)
    again = tokenized(source, url, storage_options=s3.options)
    assert again == there
    with pytest.raises(InvalidArgumentError, match="of another job"):
        tokenized(source, url, shard_size="9KiB", storage_options=s3.options)
    read = pf.parquet(url, column="input_ids", storage_options=s3.options)
    direct = pf.parquet(tmp_path / "out", column="input_ids")
    assert read.index.fingerprint == direct.index.fingerprint
    assert here.num_tokens == there.num_tokens


@pytest.mark.timeout(600)
def test_killed_at_any_moment_the_objects_are_the_same(s3, bucket, root, tmp_path):
    source = write_texts(tmp_path / "a.jsonl")
    tokenized(source, tmp_path / "out")
    expected = contents(tmp_path / "out")
    url = f"s3://{bucket.name}/tokens"
    command = [sys.executable, "-c", PROGRAM, str(source), url, json.dumps(s3.options)]
    environment = os.environ | {"PYTHONPATH": str(ROOT / "tests")}
    left = random.Random(7)

    def started() -> subprocess.Popen[bytes]:
        return subprocess.Popen(command, env=environment)

    begin = time.monotonic()
    with started() as process:
        assert process.wait() == 0
    seconds = time.monotonic() - begin
    assert contents(bucket / "tokens") == expected
    num_killed, moments = 0, []
    while num_killed < int(os.environ.get("PAGEFEED_KILLS", "4")):
        output_folder(url, s3.options, "output").remove(expected)
        with started() as process:
            moments.append(left.uniform(0.3, 1.0) * seconds)
            time.sleep(moments[-1])
            process.send_signal(signal.SIGKILL)
            num_killed += process.wait() != 0
        while True:  # Killed in going on, too.
            with started() as process:
                try:
                    code = process.wait(left.uniform(0.5, 1.5) * seconds)
                except subprocess.TimeoutExpired:
                    process.send_signal(signal.SIGKILL)
                    num_killed += 1
                    continue
            assert code == 0
            break
        assert contents(bucket / "tokens") == expected, moments
    uploads = [name for name in os.listdir(root) if name.startswith(".upload")]
    assert uploads == []


def test_the_last_that_began_goes_on(s3, bucket):
    url = f"s3://{bucket.name}/tokens"
    first = output_folder(url, s3.options, "output")
    other = output_folder(url, s3.options, "output")
    with other.claimed(".lock"):
        held = other.read(".lock")
        assert held is not None
        with first.claimed(".lock"):
            first.check_claim()
            with pytest.raises(FileAccessError, match="was taken over by process"):
                other.check_claim()
        other.write(".lock", held)  # So that it can end.


def test_a_conversion_to_parquet(s3, bucket, tmp_path):
    tokens = pf.parquet(s3.urls, column="input_ids", storage_options=s3.options)
    url = f"s3://{bucket.name}/again"

    def convert(output: Any) -> pf.prepare.Conversion:
        return pf.convert(tokens, output, to="parquet", storage_options=s3.options)

    done = convert(url)
    convert(tmp_path / "again")
    assert contents(bucket / "again") == contents(tmp_path / "again")
    read = pf.parquet(url, column="input_ids", storage_options=s3.options)
    assert tuple(read.files) == done.files
    with pytest.raises(InvalidArgumentError, match="is there already"):
        convert(url)


def test_a_tokenizer_is_trained_extended_and_read(s3, bucket, tmp_path, capsys):
    rng = random.Random(3)
    words = ["".join(rng.choices("abcdefgh", k=rng.randint(2, 9))) for _ in range(90)]
    texts = [" ".join(rng.choices(words, k=40)) for _ in range(80)]
    pq.write_table(pa.table({"text": texts}), tmp_path / "a.parquet")
    data = pf.parquet(tmp_path / "a.parquet", column="text")
    url, here = f"s3://{bucket.name}/bpe/tokenizer.json", tmp_path / "tokenizer.json"
    far = {"storage_options": s3.options}
    there = pf.prepare.train_tokenizer(data, url, vocab_size=300, **far)
    local = pf.prepare.train_tokenizer(data, here, vocab_size=300)
    assert (bucket / "bpe" / "tokenizer.json").read_bytes() == here.read_bytes()
    assert (there.path, there.fingerprint) == (url, local.fingerprint)
    config = {"eos_token": "<|endoftext|>", "chat_template": "a template"}
    (bucket / "bpe" / "tokenizer_config.json").write_text(json.dumps(config))
    for source in (url, f"s3://{bucket.name}/bpe", f"s3://{bucket.name}/bpe/"):
        read = pf.Tokenizer(source, storage_options=s3.options)
        assert (read.name, read.fingerprint) == ("tokenizer.json", local.fingerprint)
        assert read.config["chat_template"] == "a template"
        assert read.eos == 0
    longer = f"s3://{bucket.name}/longer.json"
    pf.prepare.extend_tokenizer(read, data, longer, new_tokens=9, min_gain=1, **far)
    options = [f"--storage-option={name}={value}" for name, value in s3.options.items()]
    run = [s3.base, *options, "--column", "text", "--json"]
    assert main(["count", *run, "--tokenizer", longer]) == 0
    assert json.loads(capsys.readouterr().out)["tokenizer"] == "longer.json"


def test_tokenizers_that_are_not_there(s3, bucket):
    place = f"s3://{bucket.name}/none"
    for url in (place, f"{place}/tokenizer.json", f"{place}.model"):
        with pytest.raises(MissingFileError, match="give the path of a tokenizer"):
            pf.Tokenizer(url, storage_options=s3.options)
    with pytest.raises(InvalidArgumentError, match="are for remote storage"):
        pf.Tokenizer("here.json", storage_options=s3.options)
    with pytest.raises(InvalidArgumentError, match="are of a URL"):
        pf.Tokenizer(len, vocab_size=9, storage_options=s3.options)
    data = pf.parquet(s3.urls, column="text", storage_options=s3.options)
    with pytest.raises(InvalidArgumentError, match="is a URL, https://"):
        pf.prepare.train_tokenizer(data, "https://host/t.json?sig=a", vocab_size=300)


def test_one_file(s3, bucket, tmp_path):
    url = f"s3://{bucket.name}/a/report.html"
    with output_file(url, s3.options, "output") as out:
        out.write(b"<html>")
    assert contents(bucket) == {"a/report.html": b"<html>"}
    with output_file(tmp_path / "here", None, "output") as out:
        out.write(b"here")
    assert (tmp_path / "here").read_bytes() == b"here"
    for wrong in ("https://host/a?sig=secret", "hf://datasets/a/b/c", 7):
        with pytest.raises(InvalidArgumentError) as told:
            output_file(wrong, None, "output")
        assert "secret" not in str(told.value)
