"""An index that is written once: no listing, no footers, the same dataset."""

import io
import json
import logging
import pickle

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import pagefeed as pf
from made.changed_indexes import HEAD, head_and_body, shared
from pagefeed.cli import main
from pagefeed.core.storage import paths
from pagefeed.dataset import check_index, write_index
from pagefeed.remote import index_writing
from servers.counting_store import CountingStore
from servers.web_servers import running

CORPUS = "s3://corpus/web"
INDEX = f"{CORPUS}/_pagefeed"
KEY = "corpus/web/_pagefeed/tokens.pages.index"
NUM_FILES = 40


def file_of(number, rows=6):
    out = io.BytesIO()
    tokens = [[number * 100 + row] * (1 + row % 3) for row in range(rows)]
    table = pa.table({"tokens": tokens, "lang": ["en"] * rows})
    pq.write_table(table, out, row_group_size=3, write_page_index=True)
    return out.getvalue()


@pytest.fixture
def store():
    store = CountingStore()
    with running(store):
        for number in range(NUM_FILES):
            store.put(f"corpus/web/{number:03}.parquet", file_of(number))
        yield store


def written(store, **more):
    options = {"column": "tokens", "storage_options": store.options} | more
    return write_index(CORPUS, INDEX, **options)


def opened(store, files=CORPUS, **more):
    options = {"column": "tokens", "storage_options": store.options}
    return pf.parquet(files, **options | {"index": INDEX} | more)


def batches(dataset):
    loader = pf.Loader(dataset, sequences=pf.Windows(4), batch_size=2, seed=3)
    return np.concatenate([batch["input_ids"] for batch in loader])


def test_it_is_the_dataset_without_a_listing_or_footers(store, tmp_path):
    done = written(store)
    assert (done.num_files, done.num_read) == (NUM_FILES, NUM_FILES)
    direct = opened(store, index=None)
    expected = batches(direct)
    store.counts.clear()
    shared = opened(store, cache_dir=tmp_path)
    assert shared.index.fingerprint == direct.index.fingerprint == done.fingerprint
    assert shared.files == direct.files
    assert store.counts == {"GET": 2}, "the head, and the index"
    assert np.array_equal(batches(shared), expected)
    store.counts.clear()
    for _ in range(3):
        again = opened(store, cache_dir=tmp_path)
        assert len(again.index) == len(direct.index)
    assert store.counts == {"GET": 3}, "the head; the rest is kept on this machine"
    assert pickle.loads(pickle.dumps(again)).index.fingerprint == done.fingerprint


def test_only_new_and_changed_files_are_read(store):
    first = written(store)
    assert check_index(CORPUS, INDEX, column="tokens", storage_options=store.options).ok
    store.put("corpus/web/0005b.parquet", file_of(900))
    store.put("corpus/web/007.parquet", file_of(901))
    for key in ("corpus/web/011.parquet", "corpus/web/012.parquet"):
        del store.objects[key], store.tags[key]
    found = check_index(CORPUS, INDEX, column="tokens", storage_options=store.options)
    assert found.added == (f"{CORPUS}/0005b.parquet",)
    assert found.changed == (f"{CORPUS}/007.parquet",)
    assert found.removed == (f"{CORPUS}/011.parquet", f"{CORPUS}/012.parquet")
    before = opened(store)
    assert len(before.files) == NUM_FILES, "what came later is not taken unasked"
    assert before.index.fingerprint == first.fingerprint
    with pytest.raises(pf.errors.StaleFileError, match="changed since it was indexed"):
        batches(before.with_files([7]))
    with pytest.raises(pf.errors.InvalidArgumentError, match="--shrink"):
        written(store)
    second = written(store, shrink=True)
    assert (second.num_read, second.num_dropped) == (2, 2)
    after, direct = opened(store), opened(store, index=None)
    assert after.index.fingerprint == direct.index.fingerprint
    assert np.array_equal(batches(after), batches(direct))
    third, data = written(store), store.objects[KEY]
    assert (third.num_read, store.objects[KEY]) == (0, data), "nothing is new"


def test_a_first_read_proves_that_its_object_is_the_indexed_one(store):
    """Of a file that this process has neither listed nor read, of the same size."""
    written(store)
    key = "corpus/web/007.parquet"
    same, before = len(store.objects[key]), opened(store)
    changed = file_of(8)
    assert len(changed) == same
    store.put(key, changed)
    store.counts.clear()
    with pytest.raises(pf.errors.StaleFileError, match=r"007\.parquet, .*changed"):
        before.with_files([7]).index.read_page(0)
    assert store.counts == {"GET": 1}
    store.put(key, file_of(7))
    assert len(before.with_files([7]).index.read_page(0)) > 0


def test_parts_of_the_dataset_are_parts_of_the_index(store):
    written(store)
    some = opened(store, [f"{CORPUS}/00[2-4].parquet", f"{CORPUS}/001.parquet"])
    names = [file.rpartition("/")[2] for file in some.files]
    assert names == ["002.parquet", "003.parquet", "004.parquet", "001.parquet"]
    before = store.total
    fingerprint = some.index.fingerprint
    assert store.total == before, "nothing is read for it"
    direct = opened(store, some.files, index=None)
    assert fingerprint == direct.index.fingerprint
    with pytest.raises(pf.errors.MissingFileError, match="the index has no such files"):
        opened(store, f"{CORPUS}/more/")
    for other in ("s3://corpus", "s3://corpus/we", f"{CORPUS}2", "s3://corpus/*/*"):
        with pytest.raises(pf.errors.InvalidArgumentError, match="not within these"):
            opened(store, other)
    with pytest.raises(pf.errors.MissingFileError, match="--column lang"):
        opened(store, column="lang")


@pytest.mark.parametrize("paths", [f"{CORPUS}/0[01]*.parquet", f"{CORPUS}/02"])
def test_an_index_loses_files_only_when_it_may(store, paths):
    """Of a part of the folder, or after a listing that is short."""
    for number in range(3):
        store.put(f"corpus/web/02/{number}.parquet", file_of(50 + number))
    whole = written(store)
    options = {"column": "tokens", "storage_options": store.options}
    with pytest.raises(pf.errors.InvalidArgumentError, match=r"43 files .*--shrink"):
        write_index(paths, INDEX, **options)
    for number in range(50):  # More files, of which the index has none.
        store.put(f"corpus/other/{number}.parquet", file_of(number))
    with pytest.raises(pf.errors.InvalidArgumentError, match=r"43 files .*--shrink"):
        write_index("s3://corpus/other", INDEX, **options)
    assert opened(store).index.fingerprint == whole.fingerprint
    some = write_index(paths, INDEX, **options, shrink=True)
    with pytest.raises(pf.errors.InvalidArgumentError, match="not within these"):
        opened(store)
    assert len(opened(store, paths).files) == some.num_files
    assert written(store).fingerprint == whole.fingerprint, "more is always taken"
    assert len(opened(store).files) == 43


def test_files_named_one_by_one_are_no_folder(store):
    names = [f"{CORPUS}/00{n}.parquet" for n in range(3)]
    options = {"column": "tokens", "storage_options": store.options}
    write_index(names, INDEX, **options)
    assert opened(store, names[1:]).files == tuple(names[1:])
    with pytest.raises(pf.errors.InvalidArgumentError, match="named one by one"):
        opened(store)


@pytest.mark.parametrize("num_files", [2, 7, 19])
def test_an_index_grows_by_any_number_of_files(store, num_files):
    for key in [*store.objects]:
        del store.objects[key], store.tags[key]
    for number in range(num_files):
        store.put(f"corpus/web/{number:03}.parquet", file_of(number, rows=2))
        if number % (1 + num_files % 3) == 0:
            written(store)
    written(store)
    direct = opened(store, index=None)
    assert opened(store).index.fingerprint == direct.index.fingerprint
    assert opened(store).files == direct.files


def test_two_writers_do_not_mix(store, monkeypatch):
    real, others = index_writing._brought_up_to_date, list[bool]()

    def late(*args):
        found = real(*args)
        if not others:
            others.append(True)
            store.put("corpus/web/999.parquet", file_of(999))
            written(store)  # The other, which comes first.
        return found

    monkeypatch.setattr(index_writing, "_brought_up_to_date", late)
    done = written(store)
    assert done.num_files == NUM_FILES + 1, "the second looked again"


def test_a_killed_writer_changes_nothing(store, monkeypatch):
    first = written(store)
    store.put("corpus/web/999.parquet", file_of(999))
    with monkeypatch.context() as patch:
        patch.setattr(index_writing, "packed_index", raise_interrupt)
        with pytest.raises(KeyboardInterrupt):
            written(store)
    assert opened(store).index.fingerprint == first.fingerprint


def raise_interrupt(*_):
    raise KeyboardInterrupt


WRONG = [-1, 2**70, 1.5, "x", None, [], {}, True, "../x", 0, [[0]], ["a", 1]]


def test_a_head_made_by_hand_is_read_or_refused(store):
    """And each is replaced by the command that its error names."""
    done = written(store)
    good = store.objects[KEY]
    head, body = head_and_body(good)
    cases = [
        json.dumps(head | {name: value}).encode().ljust(HEAD) + body
        for name in head
        for value in WRONG
    ]
    cases += [
        json.dumps({n: v for n, v in head.items() if n != name}).encode() + body
        for name in head
    ]
    cases += [b"", b"\xff", b"[" * 9999, good[:-40], good[: HEAD - 9], b"[]", b"3"]
    refused = []
    for case in cases:
        store.put(KEY, case)
        try:
            found = opened(store).index.fingerprint
        except (pf.errors.CorruptFileError, pf.errors.InvalidArgumentError) as error:
            refused.append(str(error))
        else:
            assert found == done.fingerprint
    words = ("--force", "own name", "not within these")
    assert all(any(word in text for word in words) for text in refused)
    assert len(refused) > len(cases) - 40
    with pytest.raises(pf.errors.CorruptFileError, match="--force"):
        written(store)
    assert written(store, force=True).fingerprint == done.fingerprint
    assert opened(store).index.fingerprint == done.fingerprint


@pytest.mark.parametrize("damage", ["half", "flipped", "gone", "longer", "sealed"])
def test_a_damaged_index_is_refused_at_once_and_replaced(store, damage):
    done = written(store)
    good = store.objects[KEY]
    head, body = head_and_body(good)
    held = {
        "half": good[: HEAD + len(body) // 2],
        "flipped": good[:-2000] + bytes([good[-2000] ^ 1]) + good[-1999:],
        "longer": good + b"x",
        "sealed": shared(head, body[: len(body) // 2]),
    }
    if damage == "gone":
        del store.objects[KEY], store.tags[KEY]
        with pytest.raises(pf.errors.MissingFileError, match="write the index of"):
            opened(store)
    else:
        store.put(KEY, held[damage])
    store.counts.clear()
    if damage in ("half", "flipped", "sealed"):
        with pytest.raises(pf.errors.CorruptFileError, match=r"damaged.*--force"):
            opened(store)
        assert store.total <= 5, "it is not tried again"
        with pytest.raises(pf.errors.CorruptFileError, match="--force"):
            written(store)
    assert written(store, force=True).fingerprint == done.fingerprint
    assert opened(store).index.fingerprint == done.fingerprint


def test_the_index_of_other_files_is_refused(store):
    """With right digests: the head says which files and rows it is of."""
    written(store)
    head, _ = head_and_body(store.objects[KEY])
    store.put("corpus/web/999.parquet", file_of(999))
    written(store)
    _, other = head_and_body(store.objects[KEY])
    store.put(KEY, shared(head, other))
    with pytest.raises(pf.errors.CorruptFileError, match="num_files is 41"):
        opened(store)


def test_an_index_is_named_by_its_folder(store):
    done = written(store)
    for name in (done.path, f"{INDEX}/tokens.pages.json"):
        with pytest.raises(pf.errors.InvalidArgumentError, match="give the folder"):
            opened(store, index=name)


def test_files_of_a_server_are_read_by_its_storage(tmp_path):
    """Also if the folder of the index is one of this machine."""
    store = CountingStore()
    with running(store):
        for number in range(3):
            store.put(f"corpus/web/{number}.parquet", file_of(number))
        options = {"column": "tokens", "storage_options": store.options}
        write_index(CORPUS, tmp_path, **options)
        shared = pf.parquet(CORPUS, index=tmp_path, **options)
        assert np.array_equal(batches(shared), batches(opened(store, index=None)))


def test_an_index_that_is_not_given_is_told_of_once(store, caplog):
    paths.tell_of_index.cache_clear()
    with caplog.at_level(logging.INFO, "pagefeed"):
        opened(store, index=None)
        assert "_pagefeed" not in caplog.text
        written(store)
        caplog.clear()
        for _ in range(2):
            opened(store, index=None)
        told = [each for each in caplog.messages if "index=" in each]
        assert len(told) == 1
        assert f'index="{INDEX}"' in told[0]
        opened(store)
    assert f"of {NUM_FILES} files, written 20" in caplog.text


def test_a_folder_of_this_machine(tmp_path, capsys):
    for number in range(3):
        (tmp_path / f"{number}.parquet").write_bytes(file_of(number))
    index = str(tmp_path / "_pagefeed")
    command = ["index", str(tmp_path), "--column", "tokens", "--output", index]
    assert main(command) == 0
    assert main([*command, "--check"]) == 0
    dataset = pf.parquet(tmp_path, column="tokens", index=index)
    direct = pf.parquet(tmp_path, column="tokens")
    assert dataset.index.fingerprint == direct.index.fingerprint
    assert dataset.files == direct.files
    (tmp_path / "3.parquet").write_bytes(file_of(3))
    capsys.readouterr()
    assert main([*command, "--check"]) == 1
    told = capsys.readouterr().out
    assert "3.parquet" in told
    assert "num added" in told


def test_a_real_server(s3, tmp_path):
    index = "s3://corpus/_index/of tokens"
    options = {"column": "input_ids", "storage_options": s3.options}
    done = write_index(s3.base, index, **options)
    again = write_index(s3.base, index, **options)
    assert (done.num_read, again.num_read) == (len(s3.urls), 0)
    shared = pf.parquet(s3.base, index=index, cache_dir=tmp_path, **options)
    direct = pf.parquet(s3.base, **options)
    assert shared.index.fingerprint == direct.index.fingerprint
    assert np.array_equal(batches(shared), batches(direct))
