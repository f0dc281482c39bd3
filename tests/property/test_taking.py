"""Subsets that are taken hold whole rows, enough of them, and lie in one another."""

import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pagefeed as pf
from pagefeed.errors import InvalidArgumentError
from pagefeed.selection import taking
from scaled import scaled

LENGTHS = st.lists(st.integers(0, 40), min_size=1, max_size=60).filter(any)


def written(folder: Path, lengths: list[int], cuts: list[int]) -> list[str]:
    """Write rows that hold their own number, cut into files."""
    rows = [np.full(size, number) for number, size in enumerate(lengths)]
    paths = []
    for number, (first, stop) in enumerate(
        zip([0, *cuts], [*cuts, len(rows)], strict=True)
    ):
        path = folder / f"{number:03}.parquet"
        column = pa.array(
            [row.tolist() for row in rows[first:stop]], pa.list_(pa.int32())
        )
        pq.write_table(
            pa.table({"input_ids": column}), path, data_page_size=64, write_batch_size=4
        )
        paths.append(str(path))
    return paths


def kept(dataset) -> list[int]:
    """Numbers of the rows that hold tokens."""
    return [row["input_ids"][0] for row in dataset if row["input_ids"]]


@settings(deadline=None, max_examples=scaled(40))
@given(LENGTHS, st.data())
def test_subsets_hold_enough_and_are_nested(lengths, data):
    total = sum(lengths)
    small, large = sorted(
        data.draw(st.integers(1, total), label=name) for name in ("one", "other")
    )
    seed = data.draw(st.integers(-3, 3), label="seed")
    cuts = st.lists(st.integers(0, len(lengths)), max_size=2).map(sorted)
    with tempfile.TemporaryDirectory() as one, tempfile.TemporaryDirectory() as other:
        web = pf.parquet(
            written(Path(one), lengths, data.draw(cuts)), column="input_ids"
        )
        again = written(Path(other), lengths, data.draw(cuts))
        few, many = (web.take(tokens=count, seed=seed) for count in (small, large))
        assert set(kept(few)) <= set(kept(many))
        for dataset, count in ((few, small), (many, large)):
            sizes = [lengths[row] for row in kept(dataset)]
            assert dataset.spans.num_values == sum(sizes) >= count
            # Without the row of the largest hash they are not enough.
            assert sum(sizes) - count < max(sizes)
            assert kept(dataset) == sorted(kept(dataset))
            recut = pf.parquet(again, column="input_ids").take(tokens=count, seed=seed)
            assert kept(recut) == kept(dataset)


@pytest.fixture(scope="module")
def web(tmp_path_factory):
    lengths = np.random.default_rng(0).integers(1, 200, 4000).tolist()
    paths = written(tmp_path_factory.mktemp("web"), lengths, [1000])
    return pf.parquet(paths, column="input_ids")


def test_shares_and_counts_agree(web):
    total = web.spans.num_values
    assert kept(web.take(share=0.25)) == kept(web.take(tokens=round(total / 4)))
    assert kept(web.take(tokens="100K")) == kept(web.take(tokens=100_000))
    assert kept(web.take(share=1)) == kept(web)
    assert kept(web.take(share=0.1)) != kept(web.take(share=0.1, seed=1))


def test_rows_are_taken_alike_from_all_parts(web):
    rows = np.array(kept(web.take(share=0.25)))
    per_part = np.bincount(rows // 500, minlength=8)
    # 125 expected of 500 each; the standard deviation is 10.
    assert np.abs(per_part - 125).max() < 50


def test_subsets_of_a_selection_are_parts_of_it(web):
    part = web.split(train=0.5, seed=3)["train"]
    few, many = (part.take(share=share) for share in (0.1, 0.4))
    assert set(kept(few)) < set(kept(many)) < set(kept(part))


def test_selections_of_one_index_that_take_as_much_are_kept_apart(tmp_path):
    """The hash of the last row that one takes is kept for that one alone."""
    paths = written(tmp_path, [50] * 4000, [1000])
    web = pf.parquet(paths, column="input_ids", cache_dir=tmp_path / "cache")
    half, few = web.split(half=0.5)["half"], web.split(few=0.2)["few"]
    for rows in (web, half, few):
        taken = rows.take(tokens=20_000).spans.num_values
        assert taken == 20_000, f"of {rows.spans.num_values}"


def test_seeds_that_take_as_much_are_kept_apart(tmp_path):
    paths = written(tmp_path, [50] * 400, [100])
    web = pf.parquet(paths, column="input_ids", cache_dir=tmp_path / "cache")
    taken = [kept(web.take(tokens=2000, seed=seed)) for seed in (0, 1, 0)]
    assert taken[0] == taken[2] != taken[1]
    assert [len(rows) for rows in taken] == [40] * 3


def test_a_share_below_one_token_takes_a_row(web):
    assert len(kept(web.take(share=1e-9))) == 1


def test_rows_left_out_count_nothing_where_many_hashes_begin_alike(web, monkeypatch):
    part = web.split(train=0.5, seed=3)["train"]
    expected = kept(part.take(share=0.3))
    monkeypatch.setattr(taking, "BUCKET_BITS", 1)
    assert kept(part.take(share=0.3)) == expected


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ({}, "either"),
        ({"tokens": 5, "share": 0.5}, "either"),
        ({"tokens": "10 beans"}, "10 beans"),
        ({"tokens": "0"}, "tokens='0'"),
        ({"tokens": 0}, "tokens=0"),
        ({"tokens": "10B"}, "there are"),
        ({"share": 0}, "share=0"),
        ({"share": 1.5}, "share=1.5"),
        ({"share": "half"}, "share='half'"),
        ({"share": 0.5, "seed": "a"}, "seed='a'"),
    ],
)
def test_wrong_sizes_are_refused(web, given, named):
    with pytest.raises(InvalidArgumentError, match=named):
        web.take(**given)


@pytest.mark.parametrize("length", [16, 64, 256])
def test_a_rehearsal_repeats_as_the_long_run_does(web, length):
    parts = web.split(a=0.3, b=0.7, seed=1)
    weighted = {"a": (parts["a"], 0.5), "b": (parts["b"], 0.5)}

    def planned(steps, **options):
        loader = pf.Loader(
            pf.mix(weighted, max_steps=steps, **options),
            sequences=pf.Windows(length),
            batch_size=4,
            seed=1,
            rank=0,
            world_size=1,
        )
        return pf.forecast(loader).datasets

    whole, short = planned(1600), planned(100, rehearse=1 / 16)
    longest = 199
    for name, one in whole.items():
        # Whole rows: less than one too many. A last window may be partly filled.
        assert 0 <= short[name].tokens - one.tokens / 16 + 0.5 < longest + 0.5
        more = short[name].sequences - one.sequences / 16
        assert -1 / 16 - 0.5 / length < more < 1 + longest / length
        expected = short[name].delivered_sequences / short[name].sequences
        assert short[name].epochs == pytest.approx(expected)
        assert short[name].epochs == pytest.approx(one.epochs, rel=0.08)
