"""Files written on a Ray cluster of two nodes: the same, also when one dies."""

import json
import os
import threading
import time
from pathlib import Path

import pytest

ray = pytest.importorskip("ray", reason="make test-trainers ARGS=ray")

import pagefeed as pf  # noqa: E402
from made.texts_made import make_tokenizer  # noqa: E402
from made.tokenizers_made import hard_texts  # noqa: E402


@pytest.fixture
def cluster(ray_nodes):
    """Two nodes, and this process their driver."""
    ray_nodes.connect()
    yield ray_nodes
    ray.shutdown()


@pytest.fixture
def source(tmp_path):
    path = tmp_path / "a.jsonl"
    rows = ({"text": text, "n": n} for n, text in enumerate(hard_texts(3000)))
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def contents(folder):
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(Path(folder).rglob("*"))
        if path.is_file()
    }


def tokenize(source, output, engine):
    return pf.tokenize(
        source,
        output,
        tokenizer=make_tokenizer(),
        keep=["n"],
        shard_size="32KiB",
        engine=engine,
    )


@pytest.mark.usefixtures("cluster")
def test_two_nodes_write_the_same_files(source, tmp_path):
    here = tokenize(source, tmp_path / "local", "local")
    there = tokenize(source, tmp_path / "ray", "ray")
    assert len(here.files) > 4
    assert contents(there.folder) == contents(here.folder)


def test_a_node_that_dies_in_the_middle_loses_nothing(cluster, source, tmp_path):
    here = tokenize(source, tmp_path / "local", "local")
    account = tmp_path / "ray" / "_unfinished"
    died = []

    def kill():
        while len(list(account.glob("part-*.json"))) < 2:
            time.sleep(0.01)
        died.append(len(list(account.glob("part-*.json"))))
        cluster.kill_one()

    killer = threading.Thread(target=kill, daemon=True)
    killer.start()
    there = tokenize(source, tmp_path / "ray", "ray")
    killer.join()
    assert died[0] < len(here.files)
    assert contents(there.folder) == contents(here.folder)


@pytest.mark.usefixtures("cluster")
@pytest.mark.parametrize("to", ["npy", "parquet"])
def test_two_nodes_export_the_same_files(source, tmp_path, to):
    tokens = tokenize(source, tmp_path / "tokens", "local")

    def export(engine):
        loader = pf.Loader(
            pf.parquet(tokens.folder, column="input_ids"),
            sequences=pf.Packed(64),
            batch_size=4,
            seed=1,
            epochs=1,
            rank=0,
            world_size=1,
        )
        output = tmp_path / engine
        return pf.export(loader, output, to=to, shard_size="8KiB", engine=engine)

    here, there = export("local"), export("ray")
    assert len(here.files) > 4
    assert contents(there.folder) == contents(here.folder)


def ids_or_death(text):
    """A tokenizer that ends its process at one text, as a defect of a library would."""
    if text == "die":
        os._exit(1)
    return list(text.encode())


@pytest.mark.usefixtures("cluster")
def test_a_task_that_kills_its_worker_each_time_names_its_input(tmp_path):
    for name in "abc":
        rows = [{"text": f"document {n} of {name}"} for n in range(100)]
        rows[50]["text"] = "die" if name == "b" else "live"
        lines = "".join(json.dumps(row) + "\n" for row in rows)
        (tmp_path / f"{name}.jsonl").write_text(lines)
    tokenizer = pf.Tokenizer(ids_or_death, vocab_size=256, name="bytes")
    told = r"b\.jsonl: the worker died 2 times"
    with pytest.raises(pf.errors.DataError, match=told):
        pf.tokenize(
            sorted(tmp_path.glob("*.jsonl")),
            tmp_path / "out",
            tokenizer=tokenizer,
            shard_size="1KiB",
            retries=1,
            engine="ray",
        )


@pytest.mark.usefixtures("cluster")
def test_errors_of_tasks_come_as_they_are(tmp_path):
    path = tmp_path / "a.jsonl"
    rows = [{"text": "one", "n": 1}] * 50_000 + [{"text": "two", "n": "x"}]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    for engine in ("local", "ray"):
        with pytest.raises(pf.errors.InvalidArgumentError, match="line 50001"):
            tokenize(path, tmp_path / engine, engine)
    path.write_text(path.read_text().replace('"x"', "2"))
    here = tokenize(path, tmp_path / "local 2", "local")
    there = tokenize(path, tmp_path / "ray 2", "ray")
    assert contents(there.folder) == contents(here.folder)
    path.write_text(path.read_text() + "broken\n")
    with pytest.raises(pf.errors.CorruptFileError, match="line 50002: no JSON"):
        tokenize(path, tmp_path / "broken", "ray")
