"""Images beside texts that lie in a bucket: their tokens lie here."""

import json

import pyarrow.parquet as pq
import pytest

import pagefeed as pf
from made import images

ROWS = images.rows(80, seed=9)


@pytest.mark.parametrize("with_cache", [False, True])
def test_images_of_a_bucket(root, place, tmp_path, with_cache):
    folder = root / "corpus" / "images"
    if not folder.exists():
        folder.mkdir()
        images.write(folder, ROWS)
    base = place.base.replace("/tokens", "/images")
    urls = [f"{base}/{file.name}" for file in sorted(folder.iterdir())]
    cache_dir = tmp_path / "index" if with_cache else None
    texts = pf.parquet(
        urls, column="text", cache_dir=cache_dir, storage_options=place.options
    )
    data = pf.with_images(
        texts.tokenize(images.tokenizer()),
        "images",
        placeholder=images.PLACEHOLDER,
        tokens=images.tokens,
    )
    loader = pf.Loader(
        data,
        sequences=pf.Packed(256, split="never"),
        batch_size=2,
        fields=("input_ids", "labels"),
        drop_last=False,
    )
    found = []
    for batch in loader:
        for file, row, number, image in zip(
            *(batch["images"][name] for name in ("file", "row", "number", "data")),
            strict=True,
        ):
            here = folder / file.rpartition("/")[2]
            assert file.startswith(base)
            stored = pq.read_table(here)["images"][int(row)].as_py()[int(number)]
            assert bytes(image) == stored
            found.append(tuple(json.loads(stored[len(images.png(1, 1)) :])))
    every = [(n, k) for n, row in enumerate(ROWS) for k in range(len(row.images))]
    assert sorted(found) == every
