"""An index that is written once: no listing, no footers, the same dataset."""

import io
import json
import logging
import pickle
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import pagefeed as pf
from pagefeed.cli import main
from pagefeed.core.storage import paths
from pagefeed.dataset import check_index, write_index
from pagefeed.remote import index_writing
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
    with pytest.raises(pf.errors.InvalidArgumentError, match="--shrink"):
        written(store)
    second = written(store, shrink=True)
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


@pytest.mark.parametrize("page_index", [True, "row_group"])
def test_a_pin_is_exactly_that_object_or_an_error(store, page_index):
    first = written(store, page_index=page_index)
    store.put("corpus/web/900.parquet", file_of(900))
    second = written(store, page_index=page_index)
    for done in (first, second):
        found = opened(store, index=done.pinned, page_index=page_index)
        assert found.index.fingerprint == done.fingerprint
    latest = opened(store, index=second.path, page_index=page_index)
    assert latest.index.fingerprint == second.fingerprint
    folder, _, name = first.pinned.rpartition("/")
    column, kind, digest, _ = name.split(".")
    wrong = [
        f"{column}.{kind}.{digest[:-1]}.json",
        f"{column}.{kind}.{digest}.old.json",
        f"{column}.{kind}{digest}.json",
        f"{column}.{kind}.{digest.upper()}x.json",
        f"other.{kind}.{digest}.json",
        f"{column}.{'pages' if kind != 'pages' else 'headers'}.{digest}.json",
        "manifest.json",
    ]
    for typo in wrong:
        with pytest.raises(pf.errors.InvalidArgumentError, match="no manifest of"):
            opened(store, index=f"{folder}/{typo}", page_index=page_index)
    missing = f"{folder}/{column}.{kind}.{'0' * 16}.json"
    with pytest.raises(pf.errors.MissingFileError, match="0000"):
        opened(store, index=missing, page_index=page_index)
    other: Any = "row_group" if page_index is True else True
    with pytest.raises(pf.errors.InvalidArgumentError, match="page_index"):
        opened(store, index=first.pinned, page_index=other)
    key = first.pinned.removeprefix("s3://")
    store.put(key, store.objects[second.pinned.removeprefix("s3://")])
    with pytest.raises(pf.errors.CorruptFileError, match="has other contents"):
        opened(store, index=first.pinned, page_index=page_index)


@pytest.mark.parametrize("num_files", range(2, 20))
def test_an_index_grows_by_any_number_of_files(store, num_files):
    """Of one size and of several, with at most so many packs."""
    for key in [*store.objects]:
        del store.objects[key], store.tags[key]
    for number in range(num_files):
        store.put(f"corpus/web/{number:03}.parquet", file_of(number, rows=2))
        if number % (1 + num_files % 3) == 0:
            done = written(store)
            assert done.num_packs <= index_writing.MOST_PACKS
    done = written(store)
    direct = opened(store, index=None)
    assert opened(store).index.fingerprint == direct.index.fingerprint
    assert opened(store).files == direct.files


def hand_made(good, random):
    """A manifest with some place in it replaced by something else."""
    content = json.loads(good)
    content.pop("version") if random.random() < 0.1 else None
    values = [-1, 2**70, 1.5, "x", None, [], {}, True, [[0, 0, 99]], [[5, 0, 1]]]
    values += [[[0, -1, 3]], [[0, 0]], [{"name": "a"}], "../x", 0]
    place: Any = content
    for _ in range(random.randrange(1, 4)):
        keys = [*place] if isinstance(place, dict) else [*range(len(place))]
        if not keys:
            break
        key = random.choice(keys)
        if not isinstance(place[key], dict | list) or random.random() < 0.4:
            place[key] = random.choice(values)
            break
        place = place[key]
    return json.dumps(content).encode()


def test_hand_made_manifests_are_read_or_corrupt(store):
    """And each is replaced by the command that its error names."""
    done = written(store)
    key = done.path.removeprefix("s3://")
    good = store.objects[key]
    cases = [hand_made(good, Random(seed)) for seed in range(400)]
    cases += [b"", b"\xff", b"[" * 9999, good[:-40], b"[]", b"3", b'{"format": 1}']
    refused = []
    for case in cases:
        store.put(key, case)
        try:
            found = opened(store).index.fingerprint
        except (pf.errors.CorruptFileError, pf.errors.InvalidArgumentError) as error:
            refused.append(str(error))
        else:
            assert found == done.fingerprint
    words = ("--force", "own name", "not within these")
    assert all(any(word in text for word in words) for text in refused)
    assert len(refused) > 300
    store.put(key, b"{}")
    with pytest.raises(pf.errors.CorruptFileError, match="--force"):
        written(store)
    assert written(store, force=True).fingerprint == done.fingerprint
    assert opened(store).index.fingerprint == done.fingerprint


@pytest.mark.parametrize("damage", ["half", "flipped", "gone", "empty", "longer"])
def test_a_damaged_pack_is_told_at_once_and_replaced(store, damage):
    done = written(store)
    [pack] = [key for key in store.objects if "/packs/" in key]
    good = store.objects[pack]
    held = {
        "half": good[: len(good) // 2],
        "flipped": good[:2000] + bytes([good[2000] ^ 1]) + good[2001:],
        "empty": b"",
        "longer": good + b"x",
    }
    if damage == "gone":
        del store.objects[pack], store.tags[pack]
    else:
        store.put(pack, held[damage])
    store.counts.clear()
    if damage != "longer":  # What is behind the pack is not read.
        with pytest.raises(pf.errors.CorruptFileError, match=r"packs/.*--force"):
            opened(store)
        assert store.total <= 4, "it is not tried again"
        store.put("corpus/web/777.parquet", file_of(777))
        with pytest.raises(pf.errors.CorruptFileError, match=r"packs/.*--force"):
            written(store)
        del store.objects["corpus/web/777.parquet"]
    assert written(store, force=True).fingerprint == done.fingerprint
    assert opened(store).index.fingerprint == done.fingerprint


def test_force_collects_what_killed_writers_left(store):
    written(store)
    left = [f"packs/{'0' * 32}.arrow", "packs/.x.arrow.upload"]
    for name in left:
        store.put(f"corpus/web/_pagefeed/{name}", b"left")
    written(store, column="lang", page_index="row_group")
    others = {key for key in store.objects if "/packs/" in key}
    written(store, force=True)
    after = {key for key in store.objects if "/packs/" in key}
    assert others - after == {f"corpus/web/_pagefeed/{name}" for name in left}
    shared = opened(store)
    assert len(shared.files) == NUM_FILES


def test_damage_is_an_error(store):
    done = written(store)
    [pack] = [key for key in store.objects if "/packs/" in key]
    good = store.objects[pack]
    store.put(pack, good[:2000] + bytes([good[2000] ^ 1]) + good[2001:])
    with pytest.raises(pf.errors.CorruptFileError, match="packs/"):
        opened(store)
    store.put("corpus/web/_pagefeed/tokens.pages.json", b"{}")
    with pytest.raises(pf.errors.CorruptFileError, match="no index of this release"):
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
