"""Buckets of the hub: no commits, so that the hashes of their files tell of changes."""

import json
import random
import shutil
import traceback
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import pagefeed as pf
from made.numbered import numbered_loader
from made.tokenizers_made import tokenizer_json
from pagefeed.errors import (
    AccessDeniedError,
    FileAccessError,
    InvalidArgumentError,
    MissingFileError,
    StaleFileError,
)
from pagefeed.remote import output_folder, write_index
from servers.web_servers import TOKEN, Cdn, Hub, as_json, running

FOLDER = "hf://buckets/owner/name/tokens"


@pytest.fixture
def place(root, tmp_path):
    """A folder of its own, whose files may change."""
    shutil.copytree(root / "corpus", tmp_path / "corpus")
    return tmp_path / "corpus"


@pytest.fixture
def hub(place):
    cdn = Cdn(place)
    hub = Hub(place, cdn)
    with running(cdn, hub):
        yield hub


@pytest.fixture
def uploads(monkeypatch, tmp_path):
    """The hub's library as it is, with a cache of its own."""
    pytest.importorskip("huggingface_hub", minversion="1.5")
    pytest.importorskip("hf_xet")
    monkeypatch.setenv("HF_XET_CACHE", f"{tmp_path}/xet")


def options(hub, **others):
    given = {"hf_endpoint": hub.url, "hf_token": TOKEN, "allow_http": True}
    settings: Any = given | {"deadline": 5} | others
    return settings


def dataset(hub, url=FOLDER, **others):
    return pf.parquet(url, column="input_ids", storage_options=options(hub, **others))


def tokens_of(data):
    return [batch["input_ids"].tolist() for batch in numbered_loader(data)]


def test_files_folders_and_patterns(hub, place):
    (place / "tokens-old").mkdir()
    shutil.copy(place / "tokens" / "part-0.parquet", place / "tokens-old" / "x.parquet")
    both = tuple(f"{FOLDER}/part-{number}.parquet" for number in (0, 1))
    for url in (FOLDER, f"{FOLDER}/", f"{FOLDER}/*.parquet"):
        assert dataset(hub, url).files == both
    assert dataset(hub, f"{FOLDER}/part-1.parquet").files == both[1:]
    assert len(dataset(hub, "hf://buckets/owner/name").files) == 3
    near = tokens_of(pf.parquet(place / "tokens", column="input_ids"))
    hub.asked.clear()
    assert tokens_of(dataset(hub)) == near
    asked = [path for _, path, _ in hub.asked]
    assert asked[0] == "/api/buckets/owner/name/tree/tokens?recursive=true"
    assert sum("/resolve/" in path for path in asked) <= 4
    assert all(path.startswith(("/api/", "/buckets/owner/name/res")) for path in asked)
    assert not any("authorization" in headers for _, _, headers in hub.cdn.asked)


def test_their_own_library_reads_the_same_from_this_server(hub):
    fs = pytest.importorskip("huggingface_hub").HfFileSystem(
        endpoint=hub.url, token=TOKEN, skip_instance_cache=True
    )
    found = fs.find("buckets/owner/name/tokens")
    assert [f"hf://{path}" for path in found] == list(dataset(hub).files)
    url = fs.url("buckets/owner/name/tokens/part-0.parquet")
    assert url == f"{hub.url}/buckets/owner/name/resolve/tokens/part-0.parquet"


@pytest.mark.parametrize("itself", [False, True], ids=["redirected", "itself"])
def test_a_file_that_changed_is_refused_by_name(hub, place, itself):
    hub.serves_itself = itself
    data = dataset(hub)
    loader = numbered_loader(data)
    batches = iter(loader)
    next(batches)
    state = loader.state_dict()
    path = place / "tokens" / "part-1.parquet"
    before = path.read_bytes()
    path.write_bytes(before[:-9] + bytes([before[-9] ^ 1]) + before[-8:])
    with pytest.raises(StaleFileError, match=r"part-1.*changed since it was indexed"):
        tokens_of(data)
    path.unlink()
    with pytest.raises(MissingFileError, match="part-1"):
        tokens_of(dataset(hub, [f"{FOLDER}/part-{n}.parquet" for n in (0, 1)]))
    path.write_bytes(before)
    again = numbered_loader(dataset(hub))
    again.load_state_dict(state)
    assert len(list(again)) == len(loader) - 1


def test_a_file_that_changed_is_indexed_again(hub, place, tmp_path):
    def opened():
        settings = options(hub)
        return pf.parquet(
            FOLDER,
            column="input_ids",
            cache_dir=tmp_path / "cache",
            storage_options=settings,
        )

    before = opened().fingerprint
    path = place / "tokens" / "part-1.parquet"
    shutil.copy(place / "tokens" / "part-0.parquet", path)
    with pytest.raises(StaleFileError, match="part-1"):
        _ = opened().fingerprint
    assert dataset(hub).fingerprint != before


def test_an_index_that_all_nodes_share(hub, tmp_path):
    settings, folder = options(hub), tmp_path / "_pagefeed"
    write_index(FOLDER, folder, column="input_ids", storage_options=settings)
    expected = tokens_of(dataset(hub))
    hub.asked.clear()
    data = pf.parquet(
        FOLDER, column="input_ids", index=folder, storage_options=settings
    )
    assert tokens_of(data) == expected
    assert not any("/api/" in path for _, path, _ in hub.asked)


@pytest.mark.usefixtures("uploads")
def test_an_index_is_written_and_replaced_in_a_bucket(hub, place):
    settings, folder = options(hub), f"{FOLDER}/_pagefeed"
    expected = tokens_of(dataset(hub))
    for force in (False, True):
        write_index(
            FOLDER, folder, column="input_ids", storage_options=settings, force=force
        )
        read = pf.parquet(
            FOLDER, column="input_ids", index=folder, storage_options=settings
        )
        assert tokens_of(read) == expected
        shutil.copy(place / "tokens" / "part-0.parquet", place / "tokens" / "z.parquet")
        expected = tokens_of(dataset(hub))


@pytest.mark.usefixtures("uploads")
def test_texts_are_tokenized_into_a_bucket(hub, tmp_path):
    texts = pa.table({"text": [f"text number {row}" for row in range(300)]})
    pq.write_table(texts, tmp_path / "a.parquet", row_group_size=100)
    (tmp_path / "tokenizer.json").write_text(tokenizer_json("gpt2"))
    output = f"{FOLDER}-made"
    for _ in range(2):  # The second finds all done.
        report = pf.tokenize(
            tmp_path / "a.parquet",
            output,
            column="text",
            tokenizer=pf.Tokenizer(tmp_path / "tokenizer.json"),
            shard_size="1KB",
            storage_options=options(hub),
        )
    assert report.num_documents == 300
    made = dataset(hub, output)
    assert len(made) == 300
    assert len(made.files) > 1


@pytest.mark.usefixtures("uploads")
@pytest.mark.parametrize("part", ["/xet-write-token", "/xorbs/", "/batch"])
def test_a_write_that_is_refused_names_the_file_and_no_token(hub, part):
    def refuse(handler):
        if is_refused := part in handler.path:
            handler.send(403, b"no")
        return is_refused

    hub.fault = refuse
    out = output_folder(f"{FOLDER}/out", options(hub), "output")
    with pytest.raises(FileAccessError, match=r"out/a\.json: the hub did not") as told:
        out.write("a.json", random.Random(part).randbytes(5000))
    shown = "".join(traceback.format_exception(told.value))
    assert TOKEN not in shown
    hub.fault = None
    assert out.read("a.json") is None


def test_datasets_of_the_hub_are_not_written(hub):
    with pytest.raises(InvalidArgumentError, match="hf upload"):
        output_folder("hf://datasets/owner/name/a", options(hub), "output")


def test_what_is_no_bucket_is_refused(hub):
    for url in ("hf://buckets/a", "hf://buckets/a/b@main/c", "hf://bucket/a/b"):
        with pytest.raises(InvalidArgumentError, match="hf://buckets/OWNER/NAME"):
            dataset(hub, url)
    with pytest.raises(MissingFileError, match=r"none\.parquet"):
        dataset(hub, f"{FOLDER}/none.parquet")
    with pytest.raises(MissingFileError, match="holds no Parquet files"):
        dataset(hub, f"{FOLDER}/none/")


def test_refusals_and_strange_answers(hub, caplog):
    with pytest.raises(AccessDeniedError, match="401") as caught:
        dataset(hub, hf_token="hf_wrong")
    assert "hf_wrong" not in f"{caught.value}{caplog.text}"

    def missing(handler):
        handler.send(401, b"", {"X-Error-Code": "RepoNotFound"})
        return True

    hub.fault = missing
    with pytest.raises(MissingFileError, match="the bucket does not exist, or is priv"):
        dataset(hub)
    for answer in ({"no": "list"}, [{"type": "file"}], [{"type": "file", "path": "a"}]):
        hub.fault = lambda handler, a=answer: handler.send(200, as_json(a)) is None
        with pytest.raises(FileAccessError, match="not as expected"):
            dataset(hub)


def test_a_list_may_say_a_file_twice(hub):
    def twice(handler):
        if "/tree" not in handler.path:
            return False
        size, entries = 7, ["tokens/a.parquet", "tokens/a.parquet"]
        one = {"type": "file", "size": size, "xetHash": "0", "mtime": None}
        handler.send(200, json.dumps([one | {"path": p} for p in entries]).encode())
        return True

    hub.fault = twice
    assert dataset(hub).files == (f"{FOLDER}/a.parquet",)
