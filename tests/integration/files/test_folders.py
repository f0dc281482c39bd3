"""Folders in the manner of Hive: columns that lie in the names of folders."""

from pathlib import Path
from urllib.parse import quote

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

import pagefeed as pf
from pagefeed.core.dataset.folders import folder_columns
from pagefeed.errors import (
    ColumnNotFoundError,
    CorruptFileError,
    InvalidArgumentError,
    MissingFileError,
)

ROWS = 50
FOLDERS = ["lang=en/year=2023", "lang=en/year=2024", "lang=de/year=2024", "lang=fr"]


def write_at(path: Path, first: int, **columns) -> Path:
    """Rows of three tokens, numbered through."""
    rows = np.arange(first, first + ROWS)
    tokens = pa.array(np.repeat(rows, 3).reshape(-1, 3).tolist(), pa.list_(pa.int32()))
    path.parent.mkdir(parents=True, exist_ok=True)
    known = {"input_ids": tokens, "place": rows}
    pq.write_table(pa.table(known | columns), path, row_group_size=20)
    return path


@pytest.fixture
def corpus(tmp_path) -> Path:
    for number, folder in enumerate(FOLDERS):
        write_at(tmp_path / "corpus" / folder / "part-0.parquet", number * ROWS)
    path: Path = tmp_path / "corpus"
    return path


def open_corpus(corpus, **options):
    # By name: in the order in which they were written.
    files = [corpus / folder / "part-0.parquet" for folder in FOLDERS]
    return pf.parquet(files, column="input_ids", **options)


def rows_of(dataset) -> list[int]:
    loader = pf.Loader(
        dataset,
        sequences=pf.Documents(columns=["place"]),
        batch_size=8,
        shuffle=None,
        drop_last=False,
    )
    found = [pa.array(batch["place"]).drop_null().to_pylist() for batch in loader]
    return [place for batch in found for place in batch]


def rows_at(*numbers: int) -> list[int]:
    return [row for n in numbers for row in range(n * ROWS, (n + 1) * ROWS)]


@pytest.mark.parametrize(
    ("name", "command"),
    [
        ("texts.jsonl", "pagefeed tokenize {} --column text --tokenizer "),
        ("table.csv", "pagefeed tokenize {} --column text --tokenizer "),
        ("tokens.bin", "pagefeed convert {} --to parquet --output tokens"),
    ],
)
def test_a_file_of_another_format_is_named_with_the_command_to_type(
    tmp_path, name, command
):
    path = tmp_path / name
    path.write_text('{"text": "a text"}\n')
    with pytest.raises(CorruptFileError, match="not a Parquet file") as error:
        len(pf.parquet(path, column="text").index)
    assert command.format(path) in str(error.value)
    with pytest.raises(MissingFileError, match="holds no Parquet files") as missing:
        pf.parquet(tmp_path, column="text")
    assert command.format(path) in str(missing.value)


def test_columns_of_folders():
    found = folder_columns(
        [
            "/a=1/data/b=x%20y/part-0.parquet",
            "/a=1/data/b=__HIVE_DEFAULT_PARTITION__/c=-07/a=2/part=0.parquet",
            "/plain/=x/part.parquet",
        ]
    )
    assert {name: column.values for name, column in found.items()} == {
        "a": (1, 2),
        "b": ("x y",),
        "c": (-7,),
    }
    by_file = {
        name: [column.value_of_file(file) for file in range(3)]
        for name, column in found.items()
    }
    assert by_file == {
        "a": [1, 2, None],
        "b": ["x y", None, None],
        "c": [None, -7, None],
    }
    assert folder_columns(["/x/a.parquet"]) == {}
    mixed = folder_columns(["/n=1/a", "/n=x/a", "/n=01/a"])["n"]
    assert mixed.values == ("01", "1", "x")
    assert folder_columns(["/n=1/a", "/n=01/a"])["n"].number_of_file.tolist() == [0, 0]


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"]), min_size=1)))
def test_any_value_comes_back_as_text_or_number(values):
    quoted = [quote(value, safe="") for value in values]
    files = [f"/x/{quote('a=b/', safe='')}={value}/part" for value in quoted]
    column = folder_columns(files).get("a=b/")
    for number, value in enumerate(values):
        assert column is not None
        found = column.value_of_file(number)
        is_whole = isinstance(column.values[0], int)
        assert found == (int(value) if is_whole else value)


@pytest.mark.parametrize(
    ("predicate", "numbers"),
    [
        ("lang == 'en'", [0, 1]),
        ("lang != 'en'", [2, 3]),
        ("lang in ['de', 'fr']", [2, 3]),
        ("year >= 2024", [1, 2]),
        ("year is null", [3]),
        ("lang == 'en' and year == 2024", [1]),
        ("not (lang == 'en' and year == 2024)", [0, 2, 3]),
    ],
)
def test_predicates_see_folders(corpus, predicate, numbers):
    assert rows_of(open_corpus(corpus).where(predicate)) == rows_at(*numbers)


def test_predicates_join_folders_and_columns(corpus):
    dataset = open_corpus(corpus)
    assert rows_of(dataset.where("lang == 'en' and place >= 90")) == [*range(90, 100)]
    assert rows_of(dataset.where("year > place")) == rows_at(0, 1, 2)


def test_files_of_other_folders_are_not_read(corpus):
    dataset = open_corpus(corpus)
    assert len(dataset) == len(FOLDERS) * ROWS
    path = corpus / FOLDERS[3] / "part-0.parquet"
    data = bytearray(path.read_bytes())
    footer = pq.read_metadata(path)
    for group in range(footer.num_row_groups):
        place = footer.row_group(group).column(1)
        size = place.total_compressed_size
        begin = min(place.data_page_offset, place.dictionary_page_offset)
        data[begin : begin + size] = bytes(size)
    path.write_bytes(data)
    selected = open_corpus(corpus).where("lang == 'en' and place >= 0")
    assert len(selected) == 2 * ROWS


def test_tiers_and_splits_follow_folders(corpus):
    dataset = open_corpus(corpus)
    tiers = dataset.tiers("year", edges=[2024])
    assert {name: len(tier) for name, tier in tiers.items()} == {
        "year < 2024": ROWS,
        "year >= 2024": 2 * ROWS,
        "year is null": ROWS,
    }
    assert len(dataset.tiers("lang", edges=["en"])["lang >= 'en'"]) == 3 * ROWS
    parts = dataset.where("lang == 'en'").split(a=0.5, b=0.5)
    assert sorted(rows_of(parts["a"]) + rows_of(parts["b"])) == rows_at(0, 1)
    with pytest.raises(InvalidArgumentError, match="equal value"):
        dataset.tiers("year", quantiles=3)


def test_documents_have_the_columns_of_folders(corpus):
    dataset = open_corpus(corpus)
    sequences = pf.Documents(columns=["lang", "place", "year"])
    loader = pf.Loader(dataset, sequences=sequences, batch_size=7, shuffle="row")
    seen = 0
    for batch in loader:
        columns = [pa.array(batch[name]) for name in ("lang", "place", "year")]
        assert [column.type for column in columns] == [
            pa.string(),
            pa.int64(),
            pa.int64(),
        ]
        rows = zip(*(column.to_pylist() for column in columns), strict=True)
        for lang, place, year in rows:
            number = place // ROWS
            assert lang == ["en", "en", "de", "fr"][number]
            assert year == [2023, 2024, 2024, None][number]
            seen += 1
    assert seen > 3 * ROWS
    with pytest.raises(ColumnNotFoundError, match="absent"):
        pf.Loader(dataset, sequences=pf.Documents(columns=["absent"]), batch_size=1)


def test_documents_of_a_mixture_have_them(corpus, tmp_path):
    path = write_at(
        tmp_path / "x.parquet", 1000, lang=pa.array(["nl"] * ROWS, pa.large_string())
    )
    parts = [open_corpus(corpus), pf.parquet(path, column="input_ids")]
    mixed = pf.mix({"a": (parts[0], 0.5), "b": (parts[1], 0.5)}, max_tokens=600)
    loader = pf.Loader(
        mixed, sequences=pf.Documents(columns=["place", "lang"]), batch_size=4
    )
    seen = set()
    for batch in loader:
        places = pa.array(batch["place"]).to_pylist()
        for place, lang in zip(
            places, pa.array(batch["lang"]).to_pylist(), strict=True
        ):
            known = ["en", "en", "de", "fr"]
            assert lang == ("nl" if place >= 1000 else known[place // ROWS])
            seen.add(lang)
    assert {"nl", "en", "de", "fr"} == seen


def test_a_column_of_the_files_goes_before_that_of_a_folder(tmp_path):
    write_at(tmp_path / "lang=en" / "a.parquet", 0, lang=["xx"] * ROWS)
    dataset = pf.parquet(tmp_path, column="input_ids")
    assert len(dataset.where("lang == 'xx'")) == ROWS
    sequences = pf.Documents(columns=["lang"])
    batch = next(iter(pf.Loader(dataset, sequences=sequences, batch_size=2)))
    assert pa.array(batch["lang"]).to_pylist() == ["xx", "xx"]


def test_a_renamed_folder_is_another_selection(tmp_path):
    path = write_at(tmp_path / "lang=en" / "a.parquet", 0)

    def count(path):
        dataset = pf.parquet(path, column="input_ids", cache_dir=tmp_path / "cache")
        return len(dataset.where("lang == 'en'"))

    assert count(path) == ROWS
    path.parent.rename(tmp_path / "lang=de")
    assert count(tmp_path / "lang=de" / "a.parquet") == 0


def test_errors_list_the_columns_of_folders(corpus):
    with pytest.raises(ColumnNotFoundError, match=r"did you mean 'lang'.*year \(int64"):
        open_corpus(corpus).where("lan == 'en'")
    with pytest.raises(InvalidArgumentError, match="lang is 'en'"):
        pf.Loader(
            open_corpus(corpus).where("lang == 'nl'"),
            sequences=pf.Windows(4),
            batch_size=1,
        )
