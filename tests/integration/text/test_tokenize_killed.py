"""Killed at any moment and started again, the result is that of a run at a stretch."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import pagefeed as pf
from made.shared_data import ROOT
from made.texts_made import make_tokenizer
from made.tokenizers_made import hard_texts
from pagefeed.prepare.tokenizing.folder import JobFolder

TIMES = 10

PROGRAM = """
import os, random, signal, sys, time
import pandas, pyarrow.compute, pyarrow.json, pyarrow.parquet  # Once, not in each.
import pagefeed as pf
from pagefeed.text import counts
from made.texts_made import make_tokenizer
from made.tokenizers_made import hard_texts

kind, source, folder, times = sys.argv[1:]
tokenizer = make_tokenizer()
# Its engine is tried on its first documents: here, and not in every process.
tokenizer.encode_batch([*hard_texts(1000)], num_threads=1)
counts.CHUNK_ROWS = 64  # Small, so that it is killed between them.

def tokenize(output):
    pf.tokenize(
        source, output, tokenizer=tokenizer, keep=["n"], num_threads=2,
        shard_size="48KiB", on_error="skip",
    )

def count(cache):
    texts = pf.parquet(source, column="text", cache_dir=cache)
    texts.tokenize(tokenizer).index

def stage(output):
    pf.prepare.stage(pf.parquet(source, column="text"), output, num_threads=2)

def export(output):
    data = pf.parquet(source, column="n", aligned=["twice"])
    cut = pf.Packed(16)
    loader = pf.Loader(data, sequences=cut, batch_size=4, rank=0, world_size=1)
    pf.export(loader, output, shard_size="16KiB", num_threads=2)

def forked(output, seconds=None):
    child = os.fork()
    if not child:
        code = 1
        try:
            globals()[kind](output)
            code = 0
        finally:
            os._exit(code)
    if seconds is not None:
        time.sleep(seconds)
        os.kill(child, signal.SIGKILL)
    return os.waitpid(child, 0)[1]

begin = time.monotonic()
assert forked(f"{folder}/whole") == 0
took = time.monotonic() - begin
chance, kills = random.Random(7), 0
for number in range(int(times)):
    kills += forked(f"{folder}/{number}", chance.uniform(0, took)) != 0
    assert forked(f"{folder}/{number}") == 0
print(kills)
"""


def kill_often(kind, source, folder, times=TIMES):
    """Run it once at a stretch, and some times killed and started again."""
    paths = [str(ROOT / "python"), str(ROOT / "tests")]
    program = f"import sys\nsys.path[:0] = {paths!r}\n{PROGRAM}"
    done = subprocess.run(
        [sys.executable, "-c", program, kind, source, folder, f"{times}"],
        check=True,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert int(done.stdout) > 0
    return [contents(folder / name) for name in ("whole", *map(str, range(times)))]


def contents(folder):
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(Path(folder).rglob("*"))
        if path.is_file()
    }


@pytest.fixture
def texts():
    return [*hard_texts(1000)]


def test_tokenizing_goes_on_where_it_was_killed(tmp_path, texts):
    source, out = tmp_path / "a.jsonl", tmp_path / "out"
    out.mkdir()
    lines = [json.dumps({"text": text, "n": n}) for n, text in enumerate(texts)]
    lines[700] = "broken"
    source.write_text("\n".join(lines))
    whole, *others = kill_often("tokenize", source, out)
    assert all(other == whole for other in others)
    assert len(whole) > 4
    assert any(name.startswith("_rejected") for name in whole)


def test_the_manifest_names_no_draft_of_a_killed_process(tmp_path, texts):
    source, out = tmp_path / "a.jsonl", tmp_path / "out"
    lines = [json.dumps({"text": text}) for text in texts[:50]]
    source.write_text("\n".join(["broken", *lines]))
    # A process that is killed while it writes rejected records leaves their draft.
    draft = out / "_rejected" / ".part-00000-000.jsonl.7_86pc9o"

    def killed(*_: object) -> None:
        draft.write_text("brok")
        raise InterruptedError

    options: Any = {"tokenizer": make_tokenizer(), "on_error": "skip"}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(JobFolder, "finish", killed)
        with pytest.raises(InterruptedError):
            pf.tokenize(source, out, max_rejected=1, **options)
    pf.tokenize(source, out, max_rejected=1, **options)
    manifest = json.loads((out / "_manifest.json").read_text())
    assert manifest["rejected"] == ["_rejected/part-00000-000.jsonl"]
    assert not draft.exists()


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["stage", "export"])
def test_copies_go_on_where_they_were_killed(tmp_path, texts, kind):
    source, out = tmp_path / "far", tmp_path / "out"
    source.mkdir()
    out.mkdir()
    numbers = [[n, *range(n % 9)] for n in range(len(texts) * 20)]
    for part in range(20):
        some = numbers[part * len(texts) :][: len(texts)]
        columns = {"text": texts, "n": some, "twice": some}
        pq.write_table(pa.table(columns), source / f"{part:02}.parquet")
    whole, *others = kill_often(kind, source, out, 20)
    assert all(other == whole for other in others)
    assert len(whole) > 10


def test_counting_goes_on_where_it_was_killed(tmp_path, texts):
    source, out = tmp_path / "a.parquet", tmp_path / "out"
    out.mkdir()
    pq.write_table(
        pa.table({"text": texts}),
        source,
        data_page_size=2000,
        use_dictionary=False,
        write_page_index=True,
        write_batch_size=16,
    )
    whole, *others = kill_often("count", source, out)
    for other in others:
        # Nothing but drafts of the killed is left, and never read.
        assert whole.items() <= other.items()
        assert not [name for name in other if ".parts/" in name]
