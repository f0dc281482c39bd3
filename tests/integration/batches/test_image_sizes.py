"""Sizes of images decide what fits, what is kept of them, and what is told."""

import json
import warnings
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import pagefeed as pf
from made import images
from pagefeed.errors import CorruptFileError, InvalidArgumentError, PagefeedWarning

LENGTH = 64


def row_of(number: int, sides: list[int], words: int = 0) -> images.Row:
    """A row of square images, with words before them."""
    text = " ".join(["word"] * words + [images.PLACEHOLDER] * len(sides))
    told = [json.dumps([number, of_row]) for of_row in range(len(sides))]
    made = [images.png(side, side, one) for side, one in zip(sides, told, strict=True)]
    return images.Row(text, made, [(side, side) for side in sides])


def loader(data: Any, **options: Any) -> pf.Loader:
    settings: dict[str, Any] = {
        "sequences": pf.Packed(LENGTH, eos=0, split="never"),
        "batch_size": 2,
        "seed": 2,
        "drop_last": False,
        "fields": ("input_ids",),
        "memory": "64MiB",
    }
    return pf.Loader(data, **settings | options)


def test_the_largest_images_decide_what_a_step_needs(tmp_path):
    rows = [row_of(n, [100 if n in (3, 7, 8) else 20]) for n in range(12)]
    images.write(tmp_path, rows)
    data = images.dataset(
        tmp_path,
        decode=bytes,
        decoded_bytes=lambda width, _: (48 << 20) if width == 100 else 1,
    )
    documents = pf.Documents(max_length=LENGTH, pad="max_length")
    with pytest.raises(InvalidArgumentError, match=r"and 96\.0 MiB decoded"):
        loader(data, sequences=documents)


def test_a_row_that_fills_a_sequence_has_no_room_for_its_separator(tmp_path):
    row = row_of(0, [100], words=4)
    images.write(tmp_path, [row], files=1)
    text = len(images.tokenizer().encode(row.text)) - 1
    num_tokens = text + images.tokens(100, 100)
    data = images.dataset(tmp_path)
    for eos, length in ((None, num_tokens), (0, num_tokens + 1)):
        cut = pf.Packed(length, eos=eos, split="never")
        [batch] = loader(data, sequences=cut, batch_size=1)
        assert batch["images"]["num_tokens"].tolist() == [images.tokens(100, 100)]
    cut = pf.Packed(num_tokens, eos=0, split="never")
    with pytest.raises(InvalidArgumentError, match=f"more than {num_tokens - 1} tok"):
        loader(data, sequences=cut, batch_size=1)


def test_more_than_was_said_is_told_once(tmp_path):
    images.write(tmp_path, [row_of(n, [16 * (n + 1)]) for n in range(6)], files=1)
    data = images.dataset(
        tmp_path,
        # The lowest byte of the width. Each image exceeds more than the one before.
        decode=lambda image: bytes(image[19] ** 2),
        decoded_bytes=lambda width, _: width,
    )
    cut = pf.Documents(max_length=LENGTH, pad="max_length")
    one = loader(data, sequences=cut, batch_size=1, shuffle=False)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        assert len([*one]) == 6
    [warning] = [one for one in told if one.category is PagefeedWarning]
    assert "exceeds memory= unless" in str(warning.message)


def test_tokens_of_images_are_kept_by_the_rows_that_have_them(tmp_path):
    """In a cache folder that another dataset with the same images has used."""
    placed = [[[100, 100], []], [[100], [100]], [[], [100, 100]]]
    for number, sides in enumerate(placed):
        folder = tmp_path / str(number)
        folder.mkdir()
        rows = [row_of(n, some, words=1) for n, some in enumerate(sides)]
        images.write(folder, rows, files=1)
        data = images.dataset(folder, cache_dir=tmp_path / "cache")
        documents = pf.Documents(max_length=200, pad="max_length")
        [batch] = loader(data, sequences=documents, shuffle=False)
        counts = (batch["input_ids"] == data.image_id).sum(axis=1)
        assert counts.tolist() == [49 * len(some) for some in sides]


@pytest.mark.parametrize("size", [[0, 16], [16, 0], [0, 0]])
def test_a_size_without_width_or_height_is_none(tmp_path, size):
    table = pa.table(
        {
            "text": [images.PLACEHOLDER] * 2,
            "images": pa.array([images.png(16, 16)] * 2, pa.binary()),
            "sizes": pa.array([[16, 16], size], pa.list_(pa.int32())),
        }
    )
    pq.write_table(table, tmp_path / "0.parquet")
    with pytest.raises(CorruptFileError, match="row 1, image 0"):
        loader(images.dataset(tmp_path, sizes="sizes"))
    with pytest.warns(PagefeedWarning, match="1 of 2 rows"):
        data = images.dataset(tmp_path, sizes="sizes", broken="drop")
    [batch] = loader(data, batch_size=1)
    assert np.array_equal(batch["images"]["size"], [[16, 16]])
