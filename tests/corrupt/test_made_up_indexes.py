"""A shared index is held against the footers of its files: no other pages are read."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.ipc
import pyarrow.parquet as pq
import pytest

import pagefeed as pf
from made.changed_indexes import Columns, changed, head_and_body, shared
from pagefeed.cli import main
from pagefeed.dataset import write_index
from pagefeed.errors import CorruptFileError, InvalidArgumentError

NUM_FILES = 3
LENGTH = 7
KINDS = [True, False, "row_group"]
PLACES = ("offset", "page_offset", "dictionary_offset", "dictionary_size")


def write_files(folder: Path, **options: object) -> None:
    folder.mkdir()
    for number in range(NUM_FILES):
        rows = [[number * 1000 + row] * LENGTH for row in range(40)]
        tokens = pa.array(rows, pa.list_(pa.int32()))
        others = pa.array([[1, 2, 3, 4, 5, 6, row[0]] for row in rows], tokens.type)
        pq.write_table(
            pa.table({"tokens": tokens, "other": others}),
            folder / f"{number}.parquet",
            **{"row_group_size": 16, "write_page_index": True} | options,
        )


class Corpus:
    """A folder with the shared index of each of its two columns."""

    def __init__(self, path: Path, kind: Any = True, **options: object) -> None:
        self.data, self.folder, self.kind = path / "d", path / "d" / "_pagefeed", kind
        write_files(self.data, **options)
        for column in ("tokens", "other"):
            write_index(self.data, self.folder, column=column, page_index=kind)
        self.whole = self.read()

    def file(self, column: str) -> Path:
        [path] = self.folder.glob(f"{column}.*.index")
        return path

    def put(self, body: bytes, **head: object) -> None:
        """Replace the index of the tokens."""
        about, _ = head_and_body(self.file("tokens").read_bytes())
        self.file("tokens").write_bytes(shared(about | head, body))

    def body(self, column: str) -> bytes:
        return head_and_body(self.file(column).read_bytes())[1]

    def read(self, cache_dir: Path | None = None) -> list[list[int]]:
        """The rows, by windows of one row each."""
        data = pf.parquet(
            self.data,
            column="tokens",
            index=self.folder,
            page_index=self.kind,
            cache_dir=cache_dir,
        )
        loader = pf.Loader(data, sequences=pf.Windows(LENGTH), batch_size=1, seed=1)
        return [
            row for batch in loader for row in np.sort(batch["input_ids"], 0).tolist()
        ]


def columns_of(body: bytes) -> Columns:
    batch = pa.ipc.open_file(pa.BufferReader(body)).get_batch(0)
    return {name: batch.column(name).to_pylist() for name in batch.schema.names}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "layout", [{}, {"use_dictionary": False, "compression": "zstd"}]
)
def test_pages_of_another_column_are_refused(tmp_path, kind, layout):
    corpus = Corpus(tmp_path, kind, **layout)
    other = columns_of(corpus.body("other"))
    places = {name: other[name] for name in PLACES}
    corpus.put(changed(corpus.body("tokens"), lambda columns: columns.update(places)))
    for cache in (None, tmp_path / "c", tmp_path / "c"):
        with pytest.raises(CorruptFileError, match=r"parquet.*other pages of .tokens"):
            corpus.read(cache_dir=cache)


def test_so_are_those_of_a_whole_index_under_another_name(tmp_path):
    corpus = Corpus(tmp_path)
    named = changed(corpus.body("other"), lambda _: None, column="tokens")
    about, _ = head_and_body(corpus.file("other").read_bytes())
    corpus.put(named, fingerprint=about["fingerprint"])
    with pytest.raises(CorruptFileError, match=r"other pages of .tokens"):
        corpus.read()


@pytest.mark.parametrize("change", ["footer", "earlier", "again", "left out", "codec"])
def test_every_file_is_held_against_its_footer_when_it_is_first_read(tmp_path, change):
    layout: dict[str, object] = {"compression": "zstd", "use_dictionary": False}
    corpus = Corpus(tmp_path, data_page_size=64, write_batch_size=2, **layout)
    body = corpus.body("tokens")

    def make_up(columns: Columns) -> None:
        """In the last file: the others are read."""
        last = columns["file_first_span"][0][NUM_FILES - 1]
        if change == "footer":
            columns["digest_low"][0][-1] ^= 1
        elif change == "earlier":
            columns["offset"][0][last] -= 1
        elif change == "again":
            columns["offset"][0][last + 1] = columns["offset"][0][last]
        elif change == "left out":
            columns["row_group"][0][last] = 1
        else:
            columns["codec"][0][last] = 1

    corpus.put(changed(body, make_up))
    data = pf.parquet(corpus.data, column="tokens", index=corpus.folder)
    for _ in range(2):
        with pytest.raises(CorruptFileError, match=r"2\.parquet.*other pages"):
            corpus.read()
    assert len(data.with_files([0, 1])[0]["tokens"]) == LENGTH
    assert (
        main(
            [
                "index",
                str(corpus.data),
                "--column",
                "tokens",
                "--check",
                "--output",
                str(corpus.folder),
            ]
        )
        == 1
    )


def test_sound_files_are_held_against_their_footers_once(tmp_path):
    corpus = Corpus(tmp_path)
    assert sorted(map(tuple, corpus.whole)) == sorted(
        (number * 1000 + row,) * LENGTH
        for number in range(NUM_FILES)
        for row in range(40)
    )
    assert (
        main(
            [
                "index",
                str(corpus.data),
                "--column",
                "tokens",
                "--check",
                "--output",
                str(corpus.folder),
            ]
        )
        == 0
    )


@pytest.mark.parametrize("name", ["elsewhere/1.parquet", "d/../e/1.parquet", "d", ""])
def test_an_index_has_no_file_outside_of_what_it_says_it_is_of(tmp_path, name):
    """The folder's own file would be left out without a word."""
    corpus = Corpus(tmp_path)
    outside = f"{tmp_path}/{name}" if name else ""

    def move(columns: Columns) -> None:
        columns["path"][0][1] = outside

    corpus.put(changed(corpus.body("tokens"), move))
    with pytest.raises((CorruptFileError, pf.errors.PagefeedError)) as refused:
        corpus.read()
    assert "--force" in str(refused.value) or name == "d"


def test_an_index_of_a_folder_and_a_file_may_be_read_in_part(tmp_path):
    for name in ("d", "e"):
        write_files(tmp_path / name)
    paths = [tmp_path / "d", tmp_path / "e" / "1.parquet"]
    write_index(paths, tmp_path / "i", column="tokens")
    for part, count in ((paths, 4), (paths[:1], 3), (paths[1:], 1)):
        assert (
            len(pf.parquet(part, column="tokens", index=tmp_path / "i").files) == count
        )
    with pytest.raises(InvalidArgumentError, match="not within these"):
        pf.parquet(tmp_path / "e", column="tokens", index=tmp_path / "i")


def test_flat_tokens_are_no_index_of_parquet(tmp_path):
    """Its pages would be any bytes of a file."""
    corpus = Corpus(tmp_path)
    records = re.sub(r"\s", "", '{"dtype": "int32"}')
    corpus.put(changed(corpus.body("tokens"), lambda _: None, flat=records))
    with pytest.raises(CorruptFileError, match="--force"):
        corpus.read()
