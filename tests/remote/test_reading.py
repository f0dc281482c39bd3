"""What is read from afar is what lies on the disk."""

import json
import shutil
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import pagefeed as pf
from made.numbered import numbered_loader
from made.shuffles import SHUFFLES
from pagefeed.errors import MissingFileError


def remote(place, **options):
    return pf.parquet(
        place.urls, column="input_ids", storage_options=place.options or None, **options
    )


def local(place):
    return pf.parquet(place.folder, column="input_ids")


def tokens_of(loader):
    return [batch["input_ids"].tolist() for batch in loader]


def test_index_is_that_of_the_files(place):
    far, near = remote(place).index, local(place).index
    assert far.fingerprint == near.fingerprint
    assert far.files == place.urls
    for page in (0, len(near) - 1):
        assert pa.array(far.read_page(page)).equals(pa.array(near.read_page(page)))
        np.testing.assert_array_equal(far.row_offsets(page), near.row_offsets(page))
    assert replace(far.locate(3), file="") == replace(near.locate(3), file="")


THREADS = """
import json, sys
from pathlib import Path
import pagefeed as pf

urls, options = json.loads(sys.argv[1])
data = pf.parquet(urls, column="input_ids", storage_options=options or None)
loader = pf.Loader(
    data, sequences=pf.Windows(64), batch_size=2, num_threads=3, rank=0, world_size=1
)
batches = iter(loader)
next(batches)
names = [each.read_text().strip() for each in Path("/proc/self/task").glob("*/comm")]
print(json.dumps([name for name in names if name.startswith("pagefeed")]))
"""


def test_fetches_take_no_threads(place, run_python):
    program = (
        f"import sys; sys.argv[1:] = [{json.dumps([place.urls, place.options])!r}]"
    )
    names = Counter(json.loads(run_python(program + THREADS)))
    # Two of the runtime, and one that looked for credentials.
    assert names.pop("pagefeed-remote") in (2, 3)
    assert names == {f"pagefeed-{number}": 1 for number in range(3)}


@pytest.mark.parametrize("shuffle", SHUFFLES)
def test_batches_are_those_of_the_files(place, shuffle):
    far = numbered_loader(remote(place), shuffle=shuffle)
    near = numbered_loader(local(place), shuffle=shuffle)
    assert tokens_of(far) == tokens_of(near)


def test_documents_and_packed(place):
    documents = pf.Documents(columns=["text", "input_ids"])
    pairs = []
    for data in (remote(place), local(place)):
        batches = numbered_loader(data, sequences=documents, padding=0)
        rows = [pa.table(batch).to_pylist() for batch in batches]
        packed = tokens_of(numbered_loader(data, sequences=pf.Packed(64)))
        pairs.append((rows, packed))
    assert pairs[0] == pairs[1]


def test_resume_is_exact(place):
    whole = tokens_of(numbered_loader(remote(place)))
    loader = numbered_loader(remote(place))
    batches = iter(loader)
    for _ in range(7):
        next(batches)
    other = numbered_loader(local(place))  # The contents are the same dataset.
    other.load_state_dict(loader.state_dict())
    assert tokens_of(other) == whole[7:]


def test_rows_by_predicate_tier_and_length(place):
    far, near = remote(place), local(place)
    predicate = "quality >= 0.5 and text != '0.7 words'"
    assert len(far.where(predicate)) == len(near.where(predicate)) > 0
    tiers = far.tiers("quality", edges=[0.3])
    assert {name: len(part) for name, part in tiers.items()} == {
        name: len(part) for name, part in near.tiers("quality", edges=[0.3]).items()
    }
    assert tokens_of(numbered_loader(far.where(predicate))) == tokens_of(
        numbered_loader(near.where(predicate))
    )
    assert far.columns == near.columns
    assert far.head(2) == near.head(2)


def test_texts_are_tokenized(place):
    tokenizer = pf.Tokenizer(
        lambda text: [*text.encode()], vocab_size=256, name="bytes"
    )
    pairs = []
    for data in (remote(place), local(place)):
        tokens = replace(data, column="text").tokenize(tokenizer)
        page = pa.array(tokens.index.read_page(1)).to_pylist()
        pairs.append((page, tokens_of(numbered_loader(tokens))))
    assert pairs[0] == pairs[1]


def test_index_is_kept(place, tmp_path):
    first = remote(place, cache_dir=tmp_path)
    assert len(first) == 600
    again = remote(place, cache_dir=tmp_path)
    assert tokens_of(numbered_loader(again)) == tokens_of(numbered_loader(local(place)))
    assert len(list(tmp_path.glob("*.pagefeed-index"))) == 1


def test_folders_and_patterns(s3):
    def files(url):
        index = pf.PageIndex.build(url, "input_ids", storage_options=s3.options)
        return index.files

    assert files(s3.base) == files(f"{s3.base}/") == s3.urls
    assert files(f"{s3.base}/part-*.parquet") == s3.urls
    assert files(f"{s3.base}/part-[!0].parquet") == s3.urls[1:]
    assert files("s3://corpus/**/*-1.parquet") == s3.urls[1:]
    assert files([s3.urls[1], str(s3.folder / "part-0.parquet")]) == [
        s3.urls[1],
        str(s3.folder / "part-0.parquet"),
    ]


def test_names_with_wildcards_mean_the_files_that_they_mean_on_a_disk(s3):
    """A name that is there is taken as it is; a name that is not is a pattern."""
    folder = s3.folder.parents[1] / "names"
    stored = ["a[1].parquet", "a1.parquet", "b?.parquet", "bx.parquet", "c1.parquet"]
    for name in (*stored, "d[1]/x.parquet", "d1/x.parquet", "e*/x.parquet"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(s3.folder / "part-0.parquet", folder / name)

    def names(base, name, **options):
        index = pf.PageIndex.build(f"{base}/{name}", "input_ids", **options)
        return [file.removeprefix(f"{base}/") for file in index.files]

    for name in (*stored, "c[1].parquet", "?1.parquet", "d[1]", "d?", "e*/", "d*/*"):
        try:
            expected = names(str(folder), name)
        except MissingFileError:
            with pytest.raises(MissingFileError):
                names("s3://names", name, storage_options=s3.options)
        else:
            found = names("s3://names", name, storage_options=s3.options)
            assert found == expected, name


def test_mixture_of_near_and_far(s3):
    mixture = pf.mix({"far": (remote(s3), 1), "near": (local(s3), 1)}, max_steps=10)
    mixed = pf.mix({"far": (local(s3), 1), "near": (local(s3), 1)}, max_steps=10)
    pairs = [numbered_loader(each) for each in (mixture, mixed)]
    far, near = map(tokens_of, pairs)
    assert far == near


def test_forecast_and_proof(place):
    loader = numbered_loader(remote(place))
    assert pf.verify(loader).ok
    assert pf.forecast(loader) is not None


def test_texts_are_tokenized_from_afar(place, tmp_path):
    letters = pf.Tokenizer(lambda text: list(text.encode()), vocab_size=256, name="b")
    done = [
        pf.tokenize(
            paths,
            tmp_path / name,
            tokenizer=letters,
            keep=["quality"],
            storage_options=options,
        )
        for name, paths, options in (
            ("far", place.urls, place.options or None),
            ("near", place.folder, None),
        )
    ]
    far, near = ([Path(f).read_bytes() for f in one.files] for one in done)
    assert far == near
    assert done[0].num_documents == len(local(place))
