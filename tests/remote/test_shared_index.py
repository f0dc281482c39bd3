"""An index that is written once: no listing, no footers, the same dataset."""

import io
import logging
import pickle

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import pagefeed as pf
from pagefeed.cli import main
from pagefeed.dataset import check_index, index_writing, write_index
from pagefeed.storage import paths
from servers.counting_store import CountingStore
from servers.web_servers import running

CORPUS = "s3://corpus/web"
INDEX = f"{CORPUS}/_pagefeed"
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
    assert (done.num_files, done.num_read, done.num_packs) == (NUM_FILES, NUM_FILES, 1)
    direct = opened(store, index=None)
    expected = batches(direct)
    store.counts.clear()
    shared = opened(store, cache_dir=tmp_path)
    assert shared.index.fingerprint == direct.index.fingerprint == done.fingerprint
    assert shared.files == direct.files
    assert store.counts == {"GET": 2}, "the manifest, and the pack"
    assert np.array_equal(batches(shared), expected)
    store.counts.clear()
    for _ in range(3):
        again = opened(store, cache_dir=tmp_path)
        assert len(again.index) == len(direct.index)
    assert store.counts == {"GET": 3}, "the manifest; the rest is kept on this machine"
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
    second = written(store)
    assert (second.num_read, second.num_dropped, second.num_packs) == (2, 2, 2)
    after, direct = opened(store), opened(store, index=None)
    assert after.index.fingerprint == direct.index.fingerprint
    assert np.array_equal(batches(after), batches(direct))
    pinned = opened(store, index=first.pinned)
    assert pinned.index.fingerprint == first.fingerprint
    third = written(store)
    assert (third.num_read, third.pinned) == (0, second.pinned), "nothing is new"


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


def test_many_packs_are_joined_without_a_footer(store, monkeypatch):
    monkeypatch.setattr(index_writing, "FILES_PER_GROUP", 8)
    monkeypatch.setattr(index_writing, "MOST_PACKS", 3)
    done = written(store)
    assert done.num_packs == 1
    packs = [key for key in store.objects if "/packs/" in key]
    assert len(packs) == 1, "the packs of groups are removed"
    for number in range(6):
        store.put(f"corpus/web/9{number}.parquet", file_of(500 + number))
        done = written(store)
        assert done.num_read == 1
        assert done.num_packs <= 3
    direct = opened(store, index=None)
    assert opened(store).index.fingerprint == direct.index.fingerprint


def test_a_killed_job_goes_on(store, monkeypatch):
    monkeypatch.setattr(index_writing, "FILES_PER_GROUP", 8)
    real, groups = index_writing._Writing._save, list[str]()

    def save(self, name, core, num_files):
        if len(groups) == 3:
            raise KeyboardInterrupt
        groups.append(name)
        real(self, name, core, num_files)

    with monkeypatch.context() as patch:
        patch.setattr(index_writing._Writing, "_save", save)
        with pytest.raises(KeyboardInterrupt):
            written(store)
    with pytest.raises(pf.errors.MissingFileError, match="does not exist: write the"):
        opened(store)
    store.counts.clear()
    done = written(store)
    # The footers of the last 16 files, the packs that were kept, and the manifest.
    assert store.counts["GET"] <= 16 + 3 + 2
    direct = opened(store, index=None)
    assert done.fingerprint == direct.index.fingerprint


def test_two_writers_do_not_mix(store, monkeypatch):
    real, others = index_writing._Writing._tidy, list[bool]()

    def tidy(self):
        if not others:
            others.append(True)
            store.put("corpus/web/999.parquet", file_of(999))
            written(store)  # The other, which comes first.
        real(self)

    monkeypatch.setattr(index_writing._Writing, "_tidy", tidy)
    done = written(store)
    assert done.num_files == NUM_FILES + 1, "the second looked again"


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
    with pytest.raises(pf.errors.MissingFileError, match="--column lang"):
        opened(store, column="lang")


def test_damage_is_an_error(store):
    done = written(store)
    [pack] = [key for key in store.objects if "/packs/" in key]
    good = store.objects[pack]
    store.put(pack, good[:2000] + bytes([good[2000] ^ 1]) + good[2001:])
    with pytest.raises(pf.errors.CorruptFileError, match="packs/"):
        opened(store)
    store.put("corpus/web/_pagefeed/tokens.pages.json", b"{}")
    with pytest.raises(pf.errors.CorruptFileError, match="no index of this version"):
        opened(store)
    store.put(pack, good)
    assert opened(store, index=done.pinned).index.fingerprint == done.fingerprint


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
