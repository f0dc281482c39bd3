"""Tables as of a time: the version of that time, or a refusal that says why."""

import datetime
import json
import os
import shutil
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from deltalake import DeltaTable, write_deltalake
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import pagefeed as pf
from made.tables import catalog_in, rows_table
from pagefeed.errors import CorruptFileError, InvalidArgumentError, PagefeedError
from scaled import scaled

EPOCH = datetime.datetime(2026, 3, 1, tzinfo=datetime.UTC)
SECOND = datetime.timedelta(seconds=1)
MILLISECOND = datetime.timedelta(milliseconds=1)
VERSIONS = 7
ENABLEMENT = "inCommitTimestampEnablement"


def milliseconds(since: int) -> int:
    return int(EPOCH.timestamp()) * 1000 + since


def commit(folder: Path, version: int) -> Path:
    return folder / "_delta_log" / f"{version:020}.json"


def written_at(folder: Path, version: int, time: datetime.datetime) -> None:
    """Set when a commit was written."""
    since = time - datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
    nanoseconds = since // datetime.timedelta(microseconds=1) * 1000
    os.utime(commit(folder, version), ns=(nanoseconds, nanoseconds))


def edited(folder: Path, version: int, **told: Any) -> None:
    """Change what a commit says of itself, first of all."""
    path = commit(folder, version)
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    info = [line for line in lines if "commitInfo" in line]
    others = [line for line in lines if "commitInfo" not in line]
    about = {**info[0]["commitInfo"], **told} if info else told
    lines = [{"commitInfo": about}, *others]
    path.write_text("\n".join(map(json.dumps, lines)))


def configured(folder: Path, version: int, **properties: str) -> None:
    """Give the table properties in a commit, beside what it adds."""
    first = [json.loads(line) for line in commit(folder, 0).read_text().splitlines()]
    [about] = [line["metaData"] for line in first if "metaData" in line]
    about["configuration"] = {f"delta.{k}": v for k, v in properties.items()}
    path = commit(folder, version)
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    kept = [line for line in lines if "metaData" not in line and "protocol" not in line]
    features = ["inCommitTimestamp"]
    protocol = {"minReaderVersion": 1, "minWriterVersion": 7}
    added = [{"metaData": about}, {"protocol": protocol | {"writerFeatures": features}}]
    path.write_text("\n".join(map(json.dumps, [*kept, *added])))


@pytest.fixture(scope="module")
def plain(tmp_path_factory):
    """A table of which version v has v + 1 rows."""
    folder = tmp_path_factory.mktemp("plain") / "table"
    for number in range(VERSIONS):
        write_deltalake(folder, rows_table(number, number + 1), mode="append")
    return folder


@pytest.fixture
def table(plain, tmp_path):
    shutil.copytree(plain, tmp_path / "table")
    return tmp_path / "table"


def rows_at(folder: Path, time: datetime.datetime | str) -> int:
    return len(pf.delta(folder, time, column="tokens"))


class Log(NamedTuple):
    """What is left of a log, and when its versions were committed, in milliseconds."""

    first: int
    """The first commit."""
    least: int
    """The first version that can be read."""
    times: list[int]
    own: tuple[int, int]
    """From which version and time on commits tell their own time."""

    def at(self, time: int) -> int | None:
        version, begun = self.own
        found = None
        for each in range(self.first, VERSIONS):
            is_of = (each >= version) == (time >= begun)
            if is_of and self.times[each] <= time:
                found = each
        return found if found is not None and found >= self.least else None


@st.composite
def logs(draw: Any, folder: Path) -> Log:
    """A log in part cleaned up, in part with its own times."""
    steps = draw(st.lists(st.integers(-2, 4), min_size=VERSIONS, max_size=VERSIONS))
    written = np.cumsum(steps).tolist()
    own, begun = draw(st.integers(0, VERSIONS)), 10**9
    times = [each * 1000 for each in written]
    if own < VERSIONS:
        begun = max(times[:own], default=0) + VERSIONS if own else -(10**9)
        told = {"enableInCommitTimestamps": "true"}
        if own:
            told[f"{ENABLEMENT}Version"] = str(own)
            told[f"{ENABLEMENT}Timestamp"] = str(milliseconds(begun))
        for version in range(own, VERSIONS):
            times[version] = max(begun, 0) + (version - own) * 1500
            edited(folder, version, inCommitTimestamp=milliseconds(times[version]))
        configured(folder, own, **told)
    first = least = 0
    if draw(st.booleans()):
        least = draw(st.integers(0, VERSIONS - 1))
        DeltaTable(folder, version=least).create_checkpoint()
        first = draw(st.integers(0, least))
        least = least if first else 0
    for version in range(VERSIONS):
        written_at(folder, version, EPOCH + written[version] * SECOND)
        if version < first:
            commit(folder, version).unlink()
    last = -(10**9)
    for version in range(first, own):  # Each is after the one before it.
        last = times[version] = max(times[version], last + 1)
    return Log(first, least, times, (own, begun))


@settings(
    max_examples=scaled(25),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(data=st.data())
def test_any_time_of_any_log_is_answered_exactly_or_refused(plain, tmp_path, data):
    folder = tmp_path / "t"
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(plain, folder)
    log = data.draw(logs(folder))
    asked = st.integers(-20, 60).map(lambda n: n * 500)
    for time in data.draw(st.lists(asked, min_size=4, max_size=4)):
        expected = log.at(time)
        if expected is not None:
            assert rows_at(folder, EPOCH + time * MILLISECOND) == expected + 1
            continue
        with pytest.raises(InvalidArgumentError, match=r"cleanup|before the first"):
            rows_at(folder, EPOCH + time * MILLISECOND)


def test_a_copy_has_the_times_that_its_commits_tell(table):
    """Files of a copy are all of the same age."""
    configured(table, 0, enableInCommitTimestamps="true")
    for version in range(VERSIONS):
        time = EPOCH + version * SECOND
        edited(table, version, inCommitTimestamp=int(time.timestamp() * 1000))
        written_at(table, version, EPOCH + 900 * SECOND)
    for version in range(VERSIONS):
        assert rows_at(table, EPOCH + version * SECOND) == version + 1
        late = EPOCH + version * SECOND + 999 * MILLISECOND
        assert rows_at(table, late.isoformat()) == version + 1
    with pytest.raises(InvalidArgumentError, match=r"before the first.*2026-03-01T00"):
        rows_at(table, EPOCH - MILLISECOND)
    edited(table, 5, inCommitTimestamp=None)
    with pytest.raises(CorruptFileError, match="does not begin with its inCommitT"):
        rows_at(table, EPOCH + 5 * SECOND)


def test_versions_that_a_cleanup_removed_are_refused_by_name(table):
    DeltaTable(table, version=4).create_checkpoint()
    for version in range(3):
        commit(table, version).unlink()
    for version in range(3, VERSIONS):
        written_at(table, version, EPOCH + version * SECOND)
    for version in range(4):
        with pytest.raises(InvalidArgumentError, match="the versions 4 to 6 are left"):
            pf.delta(table, version, column="tokens")
    with pytest.raises(InvalidArgumentError, match=r"first one left is version 3, of"):
        rows_at(table, EPOCH + 2 * SECOND)
    with pytest.raises(InvalidArgumentError, match="commits of version 3 from the log"):
        rows_at(table, EPOCH + 3 * SECOND)
    assert rows_at(table, EPOCH + 4 * SECOND) == 5
    assert len(pf.delta(table, 4, column="tokens")) == 5


def test_times_of_iceberg_snapshots(tmp_path):
    """A time is of the snapshot that was current; to the millisecond."""
    catalog, _ = catalog_in(tmp_path)
    table = catalog.create_table("corpus.web", schema=rows_table(0, 1).schema)
    for _ in range(4):
        table.append(rows_table(0, 1))
    path = Path(table.metadata_location.removeprefix("file://"))
    catalog.close()
    told = json.loads(path.read_text())
    # Milliseconds that a float rounds down.
    begin = int(EPOCH.timestamp()) * 1000
    times = [begin + number for number in (1, 9, 1001, 2043)]
    for snapshot, time in zip(told["snapshots"], times, strict=True):
        snapshot["timestamp-ms"] = time
    for entry, time in zip(told["snapshot-log"], times, strict=True):
        entry["timestamp-ms"] = time
    told["last-updated-ms"] = times[-1]

    def rows(milliseconds: int, **changes: Any) -> int:
        changed = tmp_path / "changed.metadata.json"
        changed.write_text(json.dumps(told | changes))
        time = EPOCH + (milliseconds - begin) * MILLISECOND
        return len(pf.iceberg(changed, time, column="tokens"))

    for number, time in enumerate(times):
        assert rows(time) == number + 1
        if number:
            assert rows(time - 1) == number
    with pytest.raises(InvalidArgumentError, match=r"log begins at 2026-03-01T00:00"):
        rows(times[0] - 1)
    log = told["snapshot-log"]
    with pytest.raises(InvalidArgumentError, match=r"log begins at .*01\.001"):
        rows(times[1], **{"snapshot-log": log[2:]})
    with pytest.raises(InvalidArgumentError, match="snapshot-log is empty"):
        rows(times[1], **{"snapshot-log": []})
    kept = {"snapshots": told["snapshots"][2:]}
    with pytest.raises(PagefeedError, match="expired"):
        rows(times[1], **kept)
