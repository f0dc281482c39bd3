"""What takes time says how far it is, and why it is done, to whoever asks."""

import io
import logging
import subprocess
import sys

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import pagefeed as pf
from made.numbered import numbered_loader, write_numbered
from pagefeed.caches import document_lengths
from pagefeed.core._base import Work, in_order
from pagefeed.core._base import progress as progress_module
from pagefeed.errors import InvalidArgumentError, MissingDependencyError


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    root = tmp_path_factory.mktemp("progress")
    write_numbered(root)
    return root


@pytest.fixture
def reports(monkeypatch):
    """All reports, however fast they follow one another."""
    monkeypatch.setattr(progress_module, "SECONDS_BETWEEN", 0.0)
    found: list[pf.Progress] = []
    with pf.show_progress(found.append):
        yield found


def dataset_of(folder, **options):
    return pf.parquet(folder, column="input_ids", **options)


def check_reports(found, what, total, unit):
    """That this work began, rose and ended at its total."""
    mine = [each for each in found if each.what == what]
    assert [each.finished for each in mine] == [False] * (len(mine) - 1) + [True]
    assert {(each.total, each.unit) for each in mine} == {(total, unit)}
    done = [each.done for each in mine]
    assert done == sorted(done)
    assert (done[0], done[-1]) == (0, total)
    return mine


def test_index(folder, reports):
    dataset_of(folder).index  # noqa: B018 - it is built when it is asked for
    check_reports(reports, "index of 'input_ids'", 2, "files")


def test_index_tells_steps(folder, tmp_path, reports):
    """So many files take longer than the interval at which the work is looked at."""
    [file, _] = sorted(folder.glob("*.parquet"))
    for number in range(4000):
        (tmp_path / f"{number}.parquet").hardlink_to(file)
    pf.PageIndex.build(tmp_path, "input_ids", num_threads=1)
    mine = check_reports(reports, "index of 'input_ids'", 4000, "files")
    assert any(0 < each.done < 4000 for each in mine)


def test_files_that_cannot_be_indexed_are_not_done(tmp_path, reports):
    (tmp_path / "a.parquet").write_bytes(b"not Parquet at all")
    with pytest.raises(pf.errors.CorruptFileError, match=r"a\.parquet"):
        pf.PageIndex.build(tmp_path, "input_ids")
    assert [(each.done, each.finished) for each in reports] == [(0, False), (0, True)]


def test_opened_index_is_not_built(folder, tmp_path, reports):
    assert len(dataset_of(folder, cache_dir=tmp_path).index) > 0
    reports.clear()
    assert len(dataset_of(folder, cache_dir=tmp_path).index) > 0
    assert reports == []


def test_lengths(folder, reports):
    spans = dataset_of(folder).spans
    document_lengths(spans)
    pieces = -(-len(spans) // 256)
    assert check_reports(reports, "costs of sequences", pieces, "pieces")


def test_selections_and_their_tokens(folder, reports):
    parts = dataset_of(folder).by_length([30])
    short = parts["tokens < 30"]
    assert len(short) > 0
    check_reports(reports, "lengths of rows", 600, "rows")
    halves = short.split(a=0.5, b=0.5)
    assert halves["a"].spans.num_values > 0
    check_reports(reports, "hashes of rows", len(short), "rows")
    [last] = [each for each in reports if each.what.startswith("tokens")][-1:]
    assert last.finished
    assert last.done == last.total == len(halves["a"].spans)


def test_scans(tmp_path, reports):
    table = pa.table({"input_ids": [[1]] * 50, "quality": range(50)})
    pq.write_table(table, tmp_path / "a.parquet", row_group_size=10)
    data = dataset_of(tmp_path)
    assert len(data.where("quality > 9")) == 40
    check_reports(reports, "quality > 9", 50, "rows")
    data.tiers("quality", quantiles=2)
    check_reports(reports, "quantiles of quality", 50, "rows")


def test_packed_counts(folder, reports):
    packed = pf.Packed(64, split="never").index(dataset_of(folder).spans)
    assert packed.num_sequences > 0
    [last] = [each for each in reports if each.finished][-1:]
    check_reports(reports, "packed sequences", last.total, "blocks")


def test_verify(folder, reports):
    loader = numbered_loader(folder)
    assert pf.verify(loader).ok
    [first] = [each for each in reports if each.what == "verify"][:1]
    assert (first.done, first.unit) == (0, "sequences")
    assert first.total == loader.num_sequences


def test_reports_are_rare():
    found: list[pf.Progress] = []
    with pf.show_progress(found.append), Work("count", total=9999, unit="n") as work:
        for _ in range(9999):
            work.advance()
    assert found[0] == pf.Progress("count", 0, 9999, "n")
    assert found[-1] == pf.Progress("count", 9999, 9999, "n", finished=True)
    assert len(found) < 1000


def test_callbacks_end_the_work(folder):
    def refuse(progress):
        raise KeyError(progress.what)

    with pf.show_progress(refuse), pytest.raises(KeyError, match="index of"):
        dataset_of(folder).index  # noqa: B018 - it is built when it is asked for
    assert len(dataset_of(folder)) == 600


def test_work_that_fails_is_finished(reports):
    def work_on(item):
        return 1 / item

    with pytest.raises(ZeroDivisionError), Work("w", total=3, unit="n") as work:
        for _ in in_order(work_on, [1, 2, 0], taken=lambda _: work.advance()):
            pass
    assert [each.done for each in reports] == [0, 1, 2, 2]
    assert reports[-1].finished


def test_showing_nests_and_ends():
    outer: list[pf.Progress] = []
    inner: list[pf.Progress] = []
    with pf.show_progress(outer.append):
        with pf.show_progress(inner.append), Work("a", total=0, unit="n"):
            pass
        with pf.show_progress(False), Work("b", total=0, unit="n"):
            pass
        with Work("c", total=0, unit="n"):
            pass
    with Work("d", total=0, unit="n"):
        pass
    assert {each.what for each in inner} == {"a"}
    assert {each.what for each in outer} == {"c"}


@pytest.mark.parametrize("show", [None, 1, "yes"])
def test_what_cannot_show_is_refused(show):
    with pytest.raises(InvalidArgumentError, match="True, False or a function"):
        pf.show_progress(show)


def test_bars(monkeypatch):
    monkeypatch.setattr(progress_module, "SECONDS_BETWEEN", 0.0)
    monkeypatch.setattr("pagefeed.progress.DELAY_SECONDS", 0.0)
    monkeypatch.setattr(sys, "stderr", shown := io.StringIO())
    with pf.show_progress(), Work("counting", total=4, unit="rows") as work:
        work.advance(2)
        work.advance(2)
    assert "counting:  50%" in shown.getvalue().replace(": 50%", ":  50%")
    assert "rows" in shown.getvalue()


def test_bars_need_tqdm(monkeypatch):
    monkeypatch.setitem(sys.modules, "tqdm", None)
    with pytest.raises(MissingDependencyError, match=r"pagefeed\[demo\]"):
        pf.show_progress()


def test_fast_work_has_no_bar(monkeypatch):
    monkeypatch.setattr(sys, "stderr", shown := io.StringIO())
    with pf.show_progress(), Work("counting", total=4, unit="rows") as work:
        work.advance(4)
    assert "counting" not in shown.getvalue()


def test_command_line_shows_nothing_in_a_pipe(folder):
    command = [sys.executable, "-m", "pagefeed", "index", folder, "--column"]
    done = subprocess.run(
        [*command, "input_ids"], capture_output=True, text=True, check=True
    )
    assert done.stderr == ""


def test_log_says_what_is_built_and_why(folder, tmp_path, caplog):
    caplog.set_level(logging.DEBUG, logger="pagefeed")

    def said(**options):
        caplog.clear()
        pf.PageIndex.build(folder, "input_ids", **options)
        return caplog.text

    assert "of 2 files is built: no cache folder is given" in said()
    built = said(cache_dir=tmp_path)
    assert "is built: none is cached" in built
    assert "600 rows" in built
    assert "saved: " in built
    assert "opened: " in said(cache_dir=tmp_path)
    assert "a new one is asked for" in said(cache_dir=tmp_path, refresh=True)
    [kept] = tmp_path.glob("*.pagefeed-index")
    kept.write_bytes(b"nonsense" * 100)
    assert "is built: the cached one cannot be used: " in said(cache_dir=tmp_path)


def test_log_tells_what_is_made_from_what_is_found(folder, tmp_path, caplog):
    caplog.set_level(logging.DEBUG, logger="pagefeed")
    for word in ("made, and kept: ", "found, and used: "):
        caplog.clear()
        parts = dataset_of(folder, cache_dir=tmp_path).split(a=0.5, b=0.5)
        assert len(parts["a"]) > 0
        assert word in caplog.text


def test_log_is_silent_by_itself(run_python, folder):
    program = f"""
import pagefeed as pf
data = pf.parquet({str(folder)!r}, column="input_ids").split(a=0.5, b=0.5)
assert len(data["a"])
"""
    assert run_python(program) == ""
