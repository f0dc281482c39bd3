"""Images whose sizes, costs or bytes are odd: refused by name, or left out if asked."""

from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import pagefeed as pf
from made import images
from made.images import loader, place_of, places_in
from pagefeed.errors import (
    CorruptFileError,
    DataError,
    InvalidArgumentError,
    UnsupportedError,
)

ROWS = images.rows(60, seed=4)
IMAGES = [(n, k) for n, row in enumerate(ROWS) for k in range(len(row.images))]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("images")
    images.write(place, ROWS)
    return place


def test_rows_that_are_not_selected_are_not_checked(tmp_path):
    some = images.rows(30, seed=3, most=2)
    bad = next(n for n, row in enumerate(some) if row.images)
    some[bad] = some[bad]._replace(images=[b"no image"] * len(some[bad].images))
    images.write(tmp_path, some, files=1)
    data = images.dataset(tmp_path)
    with pytest.raises(CorruptFileError, match=f"row {bad}, image 0"):
        loader(data)
    with pytest.warns(UserWarning, match="rows are left out"):
        dropped = places_in(loader(images.dataset(tmp_path, broken="drop")))
    assert {row for row, _ in dropped} == {
        n for n, row in enumerate(some) if row.images and n != bad
    }
    text = some[bad].text
    for kept in (
        data.where(f"text != {text!r}"),
        data.erase(where=f"text == {text!r}"),
    ):
        assert sorted(places_in(loader(kept))) == sorted(dropped)

    def tokens(*_: int) -> int:
        raise ValueError("unknown size")

    unknown = images.dataset(tmp_path, tokens=tokens)
    alone = next(row.text for row in some if not row.images)
    assert places_in(loader(unknown.where(f"text == {alone!r}"), batch_size=1)) == []
    with pytest.raises(InvalidArgumentError, match="unknown size"):
        loader(unknown)


@pytest.mark.parametrize("kind", [pa.int64(), pa.uint64()], ids=str)
def test_impossible_sizes_are_broken_images(tmp_path, kind):
    some = [row for row in images.rows(40, seed=3, most=1) if row.images]
    images.write(tmp_path, some, files=1)
    impossible: list[Any] = [(2**31, 5), (5, 2**32 + 7), (0, 5), (None, 5), (-5, 7)]
    for odd in impossible:
        if kind == pa.uint64() and odd[0] == -5:
            continue
        shape = pa.struct([("width", kind), ("height", kind)])
        sizes = [{"width": 9, "height": 9}] * len(some)
        sizes[2] = dict(zip(("width", "height"), odd, strict=True))
        table = pq.read_table(tmp_path / "0.parquet").drop_columns("sizes")
        table = table.append_column("sizes", pa.array(sizes, shape))
        pq.write_table(table, tmp_path / "0.parquet")
        with pytest.raises(CorruptFileError, match="row 2, image 0"):
            loader(images.dataset(tmp_path, sizes="sizes"))
    fractions = pa.array([[9.0, 8.5]] * len(some), pa.list_(pa.float64()))
    table = table.drop_columns("sizes").append_column("sizes", fractions)
    pq.write_table(table, tmp_path / "0.parquet")
    with pytest.raises(UnsupportedError, match="whole numbers"):
        loader(images.dataset(tmp_path, sizes="sizes"))


def test_a_cost_is_any_finite_number(folder):
    def at(cost):
        data = images.dataset(folder, cost=lambda width, height: cost * width * height)
        return places_in(loader(data, balance=pf.Balance(images=1)))

    assert at(1.0) == at(2.0**40)
    with pytest.raises(InvalidArgumentError, match="cost"):
        at(float("inf"))


def test_a_failed_decode_names_its_row_and_step_alone(folder):
    bad = IMAGES[5][0]

    def decode(image: list[memoryview]) -> int:
        if image and place_of(image[0])[0] == bad:
            raise ValueError("no pixels")
        return len(image)

    some = pf.parquet(folder, column="text").where("text != ''")
    cut = pf.Documents(columns=["images"])
    one = pf.Loader(some, sequences=cut, decode={"images": decode}, batch_size=2)
    with pytest.raises(DataError, match=rf"row {bad} of the file") as caught:
        list(one)
    assert caught.value.steps == (one.step,)
