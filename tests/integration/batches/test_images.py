"""Images in batches of tokens: where they lie, what they carry, and what is refused."""

import json
import pickle
import re
import time
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tokenizers import AddedToken, models, pre_tokenizers
from tokenizers import Tokenizer as Library

import pagefeed as pf
from made import images
from made.optional import torch
from pagefeed.errors import (
    CorruptFileError,
    DataError,
    InvalidArgumentError,
    PagefeedWarning,
    UnsupportedError,
)

ROWS = images.rows(60, seed=4)
IMAGES = [(n, k) for n, row in enumerate(ROWS) for k in range(len(row.images))]
LENGTH = images.LENGTH
loader, place_of, places_in = images.loader, images.place_of, images.places_in


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("images")
    images.write(place, ROWS)
    return place


@pytest.mark.parametrize("number", [0, 1])
def test_provenance_is_of_the_row(folder, number):
    data = images.dataset(folder)
    for batch in loader(data):
        found = batch["images"]
        for place, image in enumerate(found["data"]):
            row, of_row = place_of(image)
            file, first = divmod(row, 30)
            assert found["file"][place] == data.files[file]
            assert (found["row"][place], found["number"][place]) == (first, of_row)
            assert tuple(found["size"][place]) == ROWS[row].sizes[of_row]
    assert number in {0, 1}


@pytest.mark.parametrize("shifted", [False, True])
def test_tokens_of_images_carry_no_loss(folder, shifted):
    data = images.dataset(folder)
    names = ("input_ids", "labels", "loss_mask", "document_ids")
    fields = pf.Fields(names=names, shifted=shifted)
    plain = pf.Loader(
        pf.parquet(folder, column="text").tokenize(images.tokenizer()),
        sequences=pf.Packed(LENGTH, eos=0, split="never"),
        batch_size=1,
        fields=fields,
    )
    assert any((batch["labels"] == data.image_id).any() for batch in plain)
    for batch in loader(data, fields=fields):
        ids, labels, mask = (batch[name] for name in names[:3])
        meant = ids
        if shifted:
            meant = np.concatenate([ids[:, 1:], np.full((len(ids), 1), -1)], axis=1)
        assert (labels[meant == data.image_id] == -100).all()
        assert (mask == (labels != -100)).all()
        kept = labels != -100
        assert kept.any()
        assert (labels[kept] == meant[kept]).all()


def test_chats_keep_their_labels(folder):
    template = (
        "{% for m in messages %}{{ m['role'] }}: "
        "{% if m['role'] == 'assistant' %}{% generation %}{{ m['content'] }}"
        "{% endgeneration %}{% else %}{{ m['content'] }}{% endif %}\n{% endfor %}"
    )
    chats = pf.parquet(folder, column="chat").tokenize(
        images.tokenizer(), messages="chat", chat_template=template
    )
    data = pf.with_images(
        chats, "images", placeholder=images.PLACEHOLDER, tokens=images.tokens
    )
    plain = {row["chat"].__str__(): row["labels"] for row in chats}
    assert len(plain) == len(ROWS)
    answers = [label for row in chats for label in row["labels"] if label != -100]
    one = loader(data, sequences=pf.Packed(LENGTH, split="never"))
    found = [
        int(label)
        for batch in one
        for label in batch["labels"][batch["labels"] != -100]
    ]
    assert sorted(found) == sorted(answers)
    assert sorted(places_in(one)) == IMAGES


@pytest.mark.parametrize(
    "kind",
    [
        pa.list_(pa.binary()),
        pa.large_list(pa.large_binary()),
        pa.list_(pa.struct([("bytes", pa.binary()), ("path", pa.string())])),
    ],
    ids=str,
)
def test_columns_of_all_kinds(tmp_path, kind):
    some = [row for row in ROWS if row.images]
    if pa.types.is_struct(kind.value_type):
        for number, row in enumerate(some):
            as_dicts: list[Any] = [{"bytes": x, "path": "a"} for x in row.images]
            some[number] = row._replace(images=as_dicts)
    images.write(tmp_path, some, kind=kind)
    found = places_in(loader(images.dataset(tmp_path)))
    assert sorted(found) == IMAGES


def test_one_image_a_row(tmp_path):
    one = images.rows(40, seed=7, most=1)
    table_rows = [row._replace(images=(row.images or [None])[0]) for row in one]
    images.write(tmp_path, table_rows, kind=pa.binary())
    found = places_in(loader(images.dataset(tmp_path)))
    assert sorted(found) == [(n, 0) for n, row in enumerate(one) if row.images]


def test_a_column_of_sizes_saves_reading_images(folder, tmp_path):
    told = images.dataset(folder, sizes="sizes")
    read = images.dataset(folder)
    assert told.numbers.tokens.tolist() == read.numbers.tokens.tolist()
    assert places_in(loader(told)) == places_in(loader(read))
    wrong = [row._replace(sizes=row.sizes[::-1][1:]) for row in ROWS]
    images.write(tmp_path, wrong)
    with pytest.raises(CorruptFileError, match="placeholders"):
        loader(images.dataset(tmp_path, sizes="sizes"))


def test_documents_and_budgets(folder):
    data = images.dataset(folder)
    for pad in ("longest", "max_length", None):
        cut = pf.Documents([], max_length=300, pad=pad)
        assert sorted(places_in(loader(data, sequences=cut))) == IMAGES
        budget = loader(data, sequences=cut, batch_size=None, batch_tokens=1200)
        assert sorted(places_in(budget)) == IMAGES
    balanced = loader(data, balance="attention", batch_size=2)
    assert sorted(places_in(balanced)) == IMAGES


def test_images_of_mixtures(folder, tmp_path):
    texts = [row._replace(text="no image", images=[], sizes=[]) for row in ROWS]
    images.write(tmp_path, texts)
    text = pf.parquet(tmp_path, column="text").tokenize(images.tokenizer())
    data = images.dataset(folder)
    mixture = pf.mix({"images": (data, 0.5), "text": (text, 0.5)}, max_steps=9)
    fields = ("input_ids", "labels", "dataset_ids")
    found = []
    for batch in loader(mixture, fields=fields, batch_size=2):
        rows = batch["images"]["sequence"]
        assert (batch["dataset_ids"][rows] == 0).all()
        found += [place_of(image) for image in batch["images"]["data"]]
    assert len(found) == len({*found})
    assert found


def test_structs_of_the_hub_are_mixed_with_plain_images(tmp_path):
    of_hub = pa.list_(pa.struct([("bytes", pa.binary()), ("path", pa.string())]))
    structs: Any = [[{"bytes": x, "path": "a"} for x in row.images] for row in ROWS]
    named = [row._replace(images=x) for row, x in zip(ROWS, structs, strict=True)]
    parts = {}
    for name, kind in (("plain", pa.list_(pa.binary())), ("hub", of_hub)):
        (tmp_path / name).mkdir()
        images.write(tmp_path / name, named if name == "hub" else ROWS, kind=kind)
        parts[name] = images.dataset(tmp_path / name), 0.5
    found: list[Any] = []
    for batch in loader(pf.mix(parts, max_steps=9), batch_size=2):
        got = batch["images"]
        found += zip(got["file"], map(place_of, got["data"]), strict=True)
    assert len({file for file, _ in found}) > 1
    assert len(found) == len({*found})


@pytest.mark.parametrize(
    "cut", [pf.Documents(max_length=LENGTH), pf.Packed(LENGTH, eos=1, split="never")]
)
def test_a_placeholder_in_a_part_without_images_names_its_document(
    folder, tmp_path, cut
):
    plain = [row._replace(text="no image", images=[], sizes=[]) for row in ROWS]
    plain[9] = plain[9]._replace(text="an <image>")
    images.write(tmp_path, plain)
    text = pf.parquet(tmp_path, column="text").tokenize(images.tokenizer())
    parts = {"images": (images.dataset(folder), 0.5), "text": (text, 0.5)}
    mixture = pf.mix(parts, max_steps=60)
    with pytest.raises(DataError, match=r"row 9 of the file, holds the pl") as caught:
        list(loader(mixture, sequences=cut, batch_size=2))
    assert str(tmp_path) in str(caught.value.file)


def test_mixtures_decode_alike(folder, tmp_path):
    images.write(tmp_path, ROWS[:30])
    both = {
        str(place): (images.dataset(place, decode=place_of), 0.5)
        for place in (folder, tmp_path)
    }
    one = loader(pf.mix(both, max_steps=6), batch_size=2)
    assert all(isinstance(place, tuple) for place in places_decoded(one))
    both[str(folder)] = (images.dataset(folder, decode=len), 0.5)
    with pytest.raises(InvalidArgumentError, match="different placeholder= or decode="):
        next(iter(loader(pf.mix(both, max_steps=6))))


def places_decoded(one: pf.Loader) -> list[Any]:
    return [value for batch in one for value in batch["images"]["data"]]


def test_tensors_pickles_and_parts(folder):
    data = images.dataset(folder)
    [first, *_] = loader(data, format="torch")
    assert isinstance(first["images"]["first_token"], torch.Tensor)
    again = pickle.loads(pickle.dumps(data))
    assert places_in(loader(again)) == places_in(loader(data))
    kept, gone = data.split(seed=1, a=0.5, b=0.5).values()
    parts = places_in(loader(kept)) + places_in(loader(gone))
    assert sorted(parts) == IMAGES
    few = pf.parquet(folder, column="text").where("text > 'row3'")
    few = few.tokenize(images.tokenizer())
    few = pf.with_images(
        few, "images", placeholder=images.PLACEHOLDER, tokens=images.tokens
    )
    chosen = {n for n in range(len(ROWS)) if f"row{n} " > "row3"}
    assert {row for row, _ in places_in(loader(few))} <= chosen


def test_erased_rows_have_no_images(folder):
    data = images.dataset(folder)
    erased = data.erase(rows={data.files[1]: [0, 3]})
    found = places_in(loader(erased))
    assert sorted(found) == [each for each in IMAGES if each[0] not in {30, 33}]


def test_images_are_decoded_ahead_and_named_where_that_fails(folder):
    bad = IMAGES[17]

    def decode(image: memoryview) -> tuple[int, int]:
        if place_of(image) == bad:
            raise OSError("truncated")
        return place_of(image)

    data = images.dataset(folder, decode=decode)
    one = loader(data, batch_size=2)
    batches, found = iter(one), list[Any]()
    with pytest.raises(DataError) as failed:
        found.extend(image for batch in batches for image in batch["images"]["data"])
    file, row = divmod(bad[0], 30)
    told = f"{data.files[file]}, row {row} of the file, column 'images', image {bad[1]}"
    assert f"{told}: decode failed: OSError: truncated" in str(failed.value)
    assert failed.value.file == data.files[file]
    assert len(failed.value.steps) == 1
    with pytest.raises(DataError):
        next(batches)
    one.skip(failed.value.steps)
    for batch in batches:
        found += batch["images"]["data"]
    assert bad not in found
    assert len(IMAGES) > len(found) > len(IMAGES) - 30
    assert len({*found}) == len(found)


def test_processes_decode(folder):
    decode = pf.Decode({"images": len}, workers=2, processes=True)
    one = loader(images.dataset(folder, decode=decode))
    sizes = [size for batch in one for size in batch["images"]["data"]]
    every = [len(image) for row in ROWS for image in row.images]
    assert sorted(sizes) == sorted(every)
    one.close()


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"sequences": pf.Windows(64)}, r"Packed\(64, split='never'\)"),
        ({"sequences": pf.Packed(64)}, r"Packed\(64, split='never'\)"),
        ({"sequences": pf.Packed(90, split="never")}, r"rows have more than 90 tokens"),
        ({"sequences": pf.Documents([], max_length=90)}, r"more than 90 tokens"),
        (
            {"sequences": pf.Documents(["images"]), "fields": ("input_ids",)},
            "with_images",
        ),
        ({"fields": ("labels",)}, "lack input_ids"),
        (
            {
                "context_parallel": pf.ContextParallel(0, 2),
                "fields": pf.Fields(names=("input_ids",)),
            },
            "context_parallel",
        ),
    ],
)
def test_what_would_cut_images_is_refused(folder, options, told):
    with pytest.raises(InvalidArgumentError, match=told):
        loader(images.dataset(folder), **options)


def test_the_longest_documents_decide_whatever_was_asked_before(folder, tmp_path):
    data = images.dataset(folder, tmp_path)
    for length, right in ((300, True), (90, False), (301, True)):
        for size in ({"batch_size": 2}, {"batch_size": None, "batch_tokens": 1200}):
            cut = pf.Documents([], max_length=length)
            if right:
                assert sorted(places_in(loader(data, sequences=cut, **size))) == IMAGES
                continue
            with pytest.raises(InvalidArgumentError, match="more than 90 tokens"):
                loader(data, sequences=cut, **size)


def test_images_that_do_not_fit_are_refused_before_the_first_batch(tmp_path):
    large = [
        row._replace(images=[image + bytes(200_000) for image in row.images])
        for row in ROWS
    ]
    images.write(tmp_path, large, use_dictionary=False, compression="none")
    data = images.dataset(tmp_path)
    with pytest.raises(
        InvalidArgumentError, match=r"[Gg]ive memory='([\d.]+ \w+)'"
    ) as told:
        loader(data, memory="4MiB")
    [memory] = re.findall(r"[Gg]ive memory='([\d.]+ \w+)'", str(told.value))
    one = loader(data, memory=memory)
    assert sorted(places_in(one)) == IMAGES
    assert one.stats()["peak_bytes"] < 1.2 * one.view().settings.memory


def square(count: int, side: int = 100) -> list[images.Row]:
    """Rows of one image each."""
    texts = [f"row{n} {images.PLACEHOLDER}" for n in range(count)]
    return [
        images.Row(text, [images.png(side, side, json.dumps([n, 0]))], [(side, side)])
        for n, text in enumerate(texts)
    ]


def pixels(image: memoryview) -> np.ndarray:
    """Three bytes a pixel of an image of 100 x 100."""
    return np.full((100, 100, 3), image[0], dtype=np.uint8)


def test_what_decode_returns_counts_as_memory(tmp_path):
    images.write(tmp_path, square(300))
    calls = []

    def decode(image: memoryview) -> np.ndarray:
        calls.append(len(image))
        return pixels(image)

    data = images.dataset(tmp_path, decode=decode, decoded_bytes=lambda *_: 4 << 20)
    with pytest.raises(InvalidArgumentError, match="decoded_bytes=") as told:
        loader(data, memory="16MiB")
    # 4 sequences have 4 images each.
    assert "and 64.0 MiB decoded" in str(told.value)
    [memory] = re.findall(r"[Gg]ive memory='([\d.]+ \w+)'", str(told.value))
    for given, is_ahead in ((memory, False), ("1GiB", True)):
        calls.clear()
        one = loader(data, memory=given, num_threads=2)
        batches = iter(one)
        first = next(batches)
        count, end = len(first["images"]["data"]), time.monotonic() + 60
        while is_ahead and len(calls) <= count and time.monotonic() < end:
            time.sleep(0.01)
        assert (len(calls) > count) == is_ahead
        assert 64 << 20 < one.stats()["peak_bytes"] < one.view().settings.memory
    small = loader(images.dataset(tmp_path, decode=pixels), memory="16MiB")
    assert [image.nbytes for x in small for image in x["images"]["data"]] == [
        30_000
    ] * 300


def test_more_than_was_said_is_told(tmp_path):
    images.write(tmp_path, square(300))
    data = images.dataset(tmp_path, decode=pixels, decoded_bytes=lambda *_: 1000)
    with pytest.warns(PagefeedWarning, match=r"decoded_bytes=\) says as much"):
        assert sum(len(batch["images"]["data"]) for batch in loader(data)) == 300


def test_long_rows_are_told_or_left_out(folder):
    lengths = [row["text"] for row in images.dataset(folder)]
    long = sum(len(tokens) > 90 for tokens in lengths)
    assert 0 < long < len(ROWS)
    with pytest.raises(InvalidArgumentError, match=rf"{long} rows have more than 90"):
        images.dataset(folder, max_tokens=90)
    with pytest.warns(PagefeedWarning, match=rf"{long} rows .* left out"):
        data = images.dataset(folder, max_tokens=90, long="drop")
    assert len(data) == len(ROWS) - long
    found = loader(data, sequences=pf.Packed(91, eos=0, split="never"))
    kept = [n for n, tokens in enumerate(lengths) if len(tokens) <= 90]
    assert {row for row, _ in places_in(found)} <= {*kept}


def test_broken_rows_are_told_or_left_out(tmp_path):
    rows = list(ROWS)
    broken = [n for n, row in enumerate(rows) if len(row.images) > 1][:3]
    one, two, three = broken
    rows[one] = rows[one]._replace(images=[b"no image", *rows[one].images[1:]])
    images.write(tmp_path, rows)
    with pytest.raises(CorruptFileError, match=rf"row {one}, image 0: its header"):
        loader(images.dataset(tmp_path))
    rows[one] = ROWS[one]
    rows[two] = rows[two]._replace(images=rows[two].images[1:])
    images.write(tmp_path, rows)
    count = len(ROWS[two].images)
    told = rf"another number of placeholders than {count - 1} images"
    with pytest.raises(CorruptFileError, match=told):
        loader(images.dataset(tmp_path))
    rows[three] = rows[three]._replace(images=[None, *rows[three].images[1:]])
    rows[one] = rows[one]._replace(images=[b"no image", *rows[one].images[1:]])
    images.write(tmp_path, rows)
    with pytest.warns(
        PagefeedWarning, match=r"3 of 60 rows are left out: they have broken"
    ):
        data = images.dataset(tmp_path, broken="drop")
    found = places_in(loader(data))
    assert sorted(found) == [each for each in IMAGES if each[0] not in broken]


def test_arguments_are_checked(folder):
    plain = pf.parquet(folder, column="text")
    tokenized = plain.tokenize(images.tokenizer())
    right: dict[str, Any] = {
        "placeholder": images.PLACEHOLDER,
        "tokens": images.tokens,
    }

    def refused(told: str, data: Any = tokenized, column: Any = "images", **wrong: Any):
        with pytest.raises(InvalidArgumentError, match=told):
            pf.with_images(data, column, **right | wrong)

    refused("tokenize", plain)
    refused("has images already", images.dataset(folder))
    refused("must be one", placeholder="<picture>")
    refused("must be one", placeholder=None)
    refused("column=None", column=None, decode=len)
    refused("must be a function", tokens=576)
    refused("long", long="cut")
    refused("broken", broken="skip")
    refused("max_tokens", max_tokens=0)
    refused("decode names", decode={"other": len})
    refused("has the texts", column="text")
    refused("has the texts", sizes="text")
    refused("infill", tokenized.infill(pf.Infill(prefix=1, middle=2, suffix=3)))
    with pytest.raises(InvalidArgumentError, match="inside an image"):
        images.dataset(folder).infill(pf.Infill(prefix=1, middle=2, suffix=3))
    for tokens in (lambda *_: 0, lambda *_: 1.5):
        with pytest.raises(InvalidArgumentError, match=r"tokens\(\d+, \d+\) returned"):
            loader(images.dataset(folder, tokens=tokens))
    with pytest.raises(InvalidArgumentError, match=r"tokens\(\d+, \d+\) raised TypeE"):
        loader(images.dataset(folder, tokens=lambda width: width))
    with pytest.raises(
        UnsupportedError, match="a column of images holds string: expected binary"
    ):
        len(pf.with_images(tokenized, "chat", **right).index)
    with pytest.raises(UnsupportedError, match="a column of sizes holds"):
        len(images.dataset(folder, sizes="chat").index)


def test_unknown_words_are_no_placeholders_and_structs_no_sizes(tmp_path):
    library = Library(models.WordLevel({"?": 0, "grey": 1}, unk_token="?"))
    library.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    pq.write_table(
        pa.table({"text": ["<img> grey"], "images": [[{"bytes": images.png(9, 9)}]]}),
        tmp_path / "0.parquet",
    )
    plain = pf.parquet(tmp_path, column="text")
    options: dict[str, Any] = {"placeholder": "<img>", "tokens": images.tokens}
    with pytest.raises(InvalidArgumentError, match=r"has the ids \[0\]"):
        pf.with_images(plain.tokenize(pf.Tokenizer(library)), "images", **options)
    library.add_special_tokens([AddedToken("<img>", special=True)])
    right = plain.tokenize(pf.Tokenizer(library))
    assert len(pf.with_images(right, "images", **options)) == 1
    with pytest.raises(UnsupportedError, match="a column of sizes holds"):
        len(pf.with_images(right, "images", sizes="images", **options).index)


def test_warnings_name_the_line_of_the_user(folder):
    with pytest.warns(PagefeedWarning, match="left out") as told:
        images.dataset(folder, max_tokens=90, long="drop")
    assert told[0].filename == images.__file__
