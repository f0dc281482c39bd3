"""Arrays on disk: whole, of their key and their version, or made anew."""

import json
import resource
import shutil
import signal
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pagefeed.caches import arrays as stored
from pagefeed.caches.arrays import ArrayFolder, ArrayWriter, stored_arrays
from pagefeed.errors import CacheWarning, FileAccessError, MissingFileError

KEY = "of this"


def write(writer):
    writer.append("first", np.arange(5))
    writer.append("none", [])
    writer.append("second", [7, -7])
    writer.append("first", [9])
    writer.about["digests"] = ["ab", "cd"]


def contents(found):
    names = ("first", "none", "second")
    return [found[name].tolist() for name in names], dict(found.about)


def is_sound(found):
    return found.sizes == {"first": 6, "none": 0, "second": 2}


CONTENTS = ([[0, 1, 2, 3, 4, 9], [], [7, -7]], {"digests": ["ab", "cd"]})


@pytest.fixture(autouse=True)
def told(monkeypatch):
    """Nothing was told yet."""
    monkeypatch.setattr(stored, "_told", set())


@pytest.fixture
def folder(tmp_path) -> Path:
    assert (
        contents(stored_arrays(str(tmp_path), "name", KEY, write, is_sound)) == CONTENTS
    )
    path: Path = tmp_path / "name"
    return path


def test_arrays_are_written_once(folder):
    def again(writer):
        raise AssertionError(writer)

    found = stored_arrays(str(folder.parent), "name", KEY, again, is_sound)
    assert contents(found) == CONTENTS
    assert [path.name for path in folder.parent.iterdir()] == ["name"]
    assert contents(stored_arrays(None, "name", KEY, write, is_sound)) == CONTENTS


def test_every_flipped_bit_is_noticed_and_made_anew(folder):
    for path in sorted(folder.iterdir()):
        data = path.read_bytes()
        for place in range(len(data)):
            for bit in range(8):
                changed = bytearray(data)
                changed[place] ^= 1 << bit
                path.write_bytes(changed)
                with pytest.raises((ValueError, KeyError, TypeError)):
                    ArrayFolder(folder, KEY)
        found = stored_arrays(str(folder.parent), "name", KEY, write, is_sound)
        assert contents(found) == CONTENTS
        assert path.read_bytes() == data


@pytest.mark.parametrize("name", ["about.json", "numbers"])
def test_what_is_cut_or_missing_is_made_anew(folder, name):
    path = folder / name
    data = path.read_bytes()
    for cut in (*range(len(data)), None):
        if cut is None:
            path.unlink()
        else:
            path.write_bytes(data[:cut])
        with pytest.raises((ValueError, KeyError, OSError)):
            ArrayFolder(folder, KEY)
    found = stored_arrays(str(folder.parent), "name", KEY, write, is_sound)
    assert contents(found) == CONTENTS


def resealed(folder, **changes):
    """Change what is noted, under a right checksum."""
    path = folder / "about.json"
    content = json.loads(path.read_text())["content"] | changes
    path.write_bytes(stored._with_checksum(content))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"version": 0}, "other contents"),
        ({"key": "of that"}, "other contents"),
        ({"arrays": {"first": 6, "none": 0, "second": 3}}, "has not 9 numbers"),
        ({"checksums": []}, "checksums"),
        ({"checksums": [0]}, "damaged"),
    ],
)
def test_other_versions_keys_and_sizes_are_not_taken(folder, changes, message):
    resealed(folder)
    assert contents(ArrayFolder(folder, KEY)) == CONTENTS
    resealed(folder, **changes)
    with pytest.raises(ValueError, match=message):
        ArrayFolder(folder, KEY)
    found = stored_arrays(str(folder.parent), "name", KEY, write, is_sound)
    assert contents(found) == CONTENTS


@pytest.mark.parametrize(
    "sizes",
    [
        {"first": 7, "none": 0, "second": 1},
        {"first": 6, "second": 2},
        {"first": 6, "none": 0, "second": 2.0},
        {"first": 8, "none": -2, "second": 2},
    ],
)
def test_arrays_that_do_not_fit_are_made_anew(folder, sizes, caplog):
    caplog.set_level("INFO", logger="pagefeed")
    resealed(folder, arrays=sizes)
    for _ in range(2):
        found = stored_arrays(str(folder.parent), "name", KEY, write, is_sound)
        assert contents(found) == CONTENTS
    [told] = [each for each in caplog.records if "made again" in each.message]
    assert str(folder) in told.message
    assert list(folder.parent.iterdir()) == [folder]


@given(
    parts=st.lists(st.tuples(st.integers(0, 5), st.lists(st.integers(-9, 9)))),
    sizes=st.tuples(st.integers(0, 100), st.sampled_from([8, 24, 1 << 20])),
)
def test_arrays_grow_as_if_in_memory(parts, sizes):
    expected: dict[str, list[int]] = {}
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(stored, "_SPILLED_BYTES", sizes[0])
        patched.setattr(stored, "_CHECKED_BYTES", sizes[1])

        def grow(writer):
            for number, values in parts:
                writer.append(f"{number}", values)
                expected.setdefault(f"{number}", []).extend(values)

        found = stored_arrays(None, "name", KEY, grow, is_sound)
    assert {name: found[name].tolist() for name in expected} == expected


def is_a_file(path):
    path.touch()
    return path


def is_below_a_file(path):
    path.touch()
    return path / "folder"


def is_no_place_for_files(_):
    return Path("/proc/pagefeed")


UNUSABLE = [is_a_file, is_below_a_file, is_no_place_for_files]


@pytest.mark.parametrize("place", UNUSABLE)
def test_a_folder_that_cannot_be_used_is_told_once(tmp_path, place):
    folder = str(place(tmp_path / "cache"))
    with pytest.warns(CacheWarning, match="cannot be used.*cache_dir") as told:
        found = stored_arrays(folder, "name", KEY, write, is_sound)
    assert len(told) == 1
    assert folder in str(told[0].message)
    assert contents(found) == CONTENTS
    assert contents(stored_arrays(folder, "name", KEY, write, is_sound)) == CONTENTS


@contextmanager
def files_of_at_most(size):
    """As on a disk that is full."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, handler)


def test_a_full_disk_is_told_and_left_clean(tmp_path, monkeypatch):
    def much(writer):
        writer.append("much", np.zeros(1 << 13, dtype=np.int64))

    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    monkeypatch.setattr(stored, "_SPILLED_BYTES", 1 << 10)
    folder = tmp_path / "cache"
    with (
        files_of_at_most(1 << 12),
        pytest.warns(CacheWarning, match=str(folder)),
        pytest.raises(FileAccessError, match=r"TMPDIR.*cache_dir"),
    ):
        stored_arrays(str(folder), "name", KEY, much, is_sound)
    assert list(tmp_path.iterdir()) == [folder]
    assert list(folder.iterdir()) == []
    assert (
        len(stored_arrays(str(folder), "name", KEY, much, is_sound)["much"]) == 1 << 13
    )


def test_trouble_of_what_is_written_is_not_the_folders(tmp_path):
    def fail(_):
        raise MissingFileError("a.parquet does not exist")

    for folder in (str(tmp_path), None):
        with pytest.raises(MissingFileError, match=r"a\.parquet"):
            stored_arrays(folder, "name", KEY, fail, is_sound)
    assert list(tmp_path.iterdir()) == []


def test_another_process_may_be_first(tmp_path):
    with ArrayWriter(tmp_path / "name", KEY, durable=True) as writer:
        write(writer)
        stored_arrays(str(tmp_path), "name", KEY, write, is_sound)
    assert contents(ArrayFolder(tmp_path / "name", KEY)) == CONTENTS
    with ArrayWriter(tmp_path / "name", KEY, durable=True) as writer:
        write(writer)
        shutil.rmtree(tmp_path / "name")
        (tmp_path / "name").mkdir()
        (tmp_path / "name" / "else").touch()
    assert contents(ArrayFolder(tmp_path / "name", KEY)) == CONTENTS


def test_numbers_are_verified_where_they_are_read(tmp_path, monkeypatch):
    monkeypatch.setattr(stored, "_CHECKED_BYTES", 64)
    numbers = np.arange(101, dtype=np.float32)

    def write_floats(writer):
        writer.append("before", np.arange(3))
        writer.append("costs", np.append(numbers, numbers[-1:]).view(np.int64))

    def opened():
        found = stored_arrays(
            str(tmp_path), "name", KEY, write_floats, lambda _: True, lazily=True
        )
        return found, found.checked("costs", 101, 100)

    found, costs = opened()
    assert len(costs) == 101
    assert costs[np.array([0, 100, 7])].tolist() == [0, 100, 7]
    assert costs[90:].tolist() == numbers[90:].tolist()
    path = tmp_path / "name" / stored._NUMBERS
    content = bytearray(path.read_bytes())
    content[3 * 8 + 4 * 50] ^= 1
    path.write_bytes(content)
    found, costs = opened()
    # Those of other blocks are right.
    assert costs[:40].tolist() == numbers[:40].tolist()
    assert found["before"].tolist() == [0, 1, 2]
    for read in (
        lambda: costs[np.array([3, 50])],
        lambda: costs[45:60],
        lambda: found["costs"],
    ):
        with pytest.raises(FileAccessError, match="damaged"):
            read()
    with pytest.raises(ValueError, match="damaged"):
        ArrayFolder(tmp_path / "name", KEY)


def test_damage_is_told_once(folder, caplog):
    caplog.set_level("INFO", logger="pagefeed")
    (folder / "about.json").write_text("{")
    assert (
        contents(stored_arrays(str(folder.parent), "name", KEY, write, is_sound))
        == CONTENTS
    )
    [told] = [each for each in caplog.records if "made again" in each.message]
    assert told.levelname == "INFO"
