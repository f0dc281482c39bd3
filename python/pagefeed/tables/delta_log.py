"""Versions in the log of a Delta table, and the time of each commit."""

from __future__ import annotations

import datetime
import json
import re
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

from pagefeed.core._base import lazy
from pagefeed.core.storage import is_url
from pagefeed.errors import CorruptFileError, InvalidArgumentError, MissingFileError
from pagefeed.parsing import parsing
from pagefeed.remote import StorageOptions, storage_of_options
from pagefeed.tables.delta_checkpoint import CHECKPOINT
from pagefeed.tables.snapshot import EPOCH, milliseconds_of

FOLDER = "_delta_log"
ENABLED = "delta.enableInCommitTimestamps"
SINCE = "delta.inCommitTimestampEnablement"
_COMMIT = re.compile(r"(\d{20})\.json")


def newest_commit(table: str, storage_options: StorageOptions | None) -> int:
    """Return the version of the newest commit that a bucket lists; -1 if none is there.

    Raises:
        CorruptFileError: If the store's listing is not complete.
    """
    storage = storage_of_options(storage_options, is_remote=True)
    try:
        files = storage.list_files(f"{table.rstrip('/')}/{FOLDER}/", (".json",))
    except MissingFileError:
        return -1
    commits = map(_COMMIT.fullmatch, (file.rpartition("/")[2] for file in files))
    return max((int(commit[1]) for commit in commits if commit), default=-1)


@dataclass(frozen=True, eq=False)
class DeltaLog:
    """The log of a Delta table; old commits may have been removed.

    Reading a version needs its commits since a checkpoint. Its time is in its own
    commit.
    """

    opened: Any
    """A ``DeltaTable`` at its newest version."""
    table: str
    """Folder or URL of the table, for messages."""

    def at(self, time: datetime.datetime, given: str) -> int:
        """Return the version that the table had at a time.

        Args:
            time: The time.
            given: What the caller wrote, for messages.

        Raises:
            InvalidArgumentError: If the log does not tell the version, or does not hold
                it.
            CorruptFileError: If a commit lacks a time that the protocol requires.
        """
        wanted, newest = milliseconds_of(time), self.opened.version()
        settings = self.opened.metadata().configuration
        time_of: Callable[[int], int] = self._written.__getitem__
        commits = [version for version in self._commits if version <= newest]
        if settings.get(ENABLED) == "true":
            first = int(settings.get(f"{SINCE}Version", 0))
            begun = int(settings.get(f"{SINCE}Timestamp", wanted))
            is_later = wanted >= begun
            commits = [each for each in commits if (each >= first) == is_later]
            time_of = self._told_by if is_later else time_of
        last = bisect_right(commits, wanted, key=time_of) - 1
        if last >= 0:
            self.check(commits[last], given)
            return commits[last]
        since = f", of {_text(time_of(commits[0]))}" if commits else ""
        if commits and commits[0] == 0:
            raise InvalidArgumentError(
                f"{given} is before the first one of {self.table}{since}"
            )
        raise InvalidArgumentError(
            f"{given}: a cleanup removed the commits of that time from the log of "
            f"{self.table}, whose first one left is version "
            f"{min(self._commits, default=newest)}{since}: name a later time"
        )

    def check(self, version: int, given: str) -> None:
        """Refuse a version that the log does not hold.

        Raises:
            InvalidArgumentError: Naming those that it holds.
        """
        held = self._versions
        if version not in held:
            raise InvalidArgumentError(
                f"{given}: a cleanup removed commits of version {version} from the log "
                f"of {self.table}: the versions {held[0]} to {held[-1]} are left"
                if held
                else f"{given}: the log of {self.table} holds no version"
            )

    def check_commits(self) -> None:
        """Refuse an emptied commit, as a crash leaves it in a folder of this machine.

        To deltalake such a commit has no actions: rows that it deleted would come back.

        Raises:
            CorruptFileError: Naming the commit.
        """
        for file in () if is_url(self.table) else self._infos:
            if _COMMIT.fullmatch(file.base_name) and not file.size:
                raise CorruptFileError(
                    f"{self.table}/{FOLDER}/{file.base_name} is empty, and a commit "
                    "has one action or more: copy it again from where it is whole"
                )

    @lazy
    def _files(self) -> Any:
        """The files of the table, as deltalake reads them."""
        from deltalake.fs import DeltaStorageHandler

        return DeltaStorageHandler.from_table(self.opened._table)  # noqa: SLF001

    @lazy
    def _infos(self) -> list[Any]:
        """The files of the log: names, sizes, write times."""
        whole = SimpleNamespace(base_dir=FOLDER, allow_not_found=False, recursive=False)
        infos: list[Any] = self._files.get_file_info_selector(whole)
        return infos

    @lazy
    def _listed(self) -> dict[str, int]:
        """Write time of each file of the log, in milliseconds."""
        return {file.base_name: (file.mtime_ns or 0) // 10**6 for file in self._infos}

    @lazy
    def _commits(self) -> list[int]:
        """Versions whose own commit is left, rising."""
        matches = map(_COMMIT.fullmatch, self._listed)
        return sorted(int(match[1]) for match in matches if match)

    @lazy
    def _versions(self) -> list[int]:
        """Versions that can be read, rising."""
        parts: defaultdict[tuple[int, int], int] = defaultdict(int)
        for match in filter(None, map(CHECKPOINT.fullmatch, self._listed)):
            parts[int(match[1]), int(match["parts"] or 1)] += 1
        held = {version for (version, wanted), n in parts.items() if n >= wanted}
        for version in self._commits:
            if version == 0 or version - 1 in held:
                held.add(version)
        return sorted(held)

    @lazy
    def _written(self) -> dict[int, int]:
        """Time of each commit in milliseconds, rising."""
        times: dict[int, int] = {}
        last = -1
        for version in self._commits:
            last = max(last + 1, self._listed[f"{version:020}.json"])
            times[version] = last
        return times

    def _told_by(self, version: int) -> int:
        """Return the time in the commit itself, in milliseconds.

        None if it has none.
        """
        path = f"{FOLDER}/{version:020}.json"
        with self._files.open_input_file(path) as file:
            line = bytes(file.read()).partition(b"\n")[0]
        what = (
            f"{self.table}: {path} does not begin with its inCommitTimestamp, as "
            f"the table promises by {ENABLED}"
        )
        with parsing(None, what):
            return int(json.loads(line)["commitInfo"]["inCommitTimestamp"])


def _text(milliseconds: int) -> str:
    return (EPOCH + datetime.timedelta(milliseconds=milliseconds)).isoformat()
