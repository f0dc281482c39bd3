"""The manifest of a shared index: which files of which packs are a dataset."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, cast
from urllib.parse import quote

from pagefeed.core.storage import Paths
from pagefeed.errors import CorruptFileError, InvalidArgumentError
from pagefeed.remote.paths import matches, roots_of

_FORMAT = "pagefeed shared index"
_VERSION = 2
_KINDS = {"True": "pages", "False": "headers", "row_group": "row_groups"}

_PACK = re.compile(r"packs/[0-9a-f]{32}\.arrow")


@dataclass(frozen=True, kw_only=True, slots=True)
class Pack:
    """The index of some files, as an object."""

    name: str
    """Name of the file in the folder."""
    bytes: int
    files: int
    """Files in it, of which a manifest may have some."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Manifest:
    """List of the files of a dataset, and of the packs that have their indexes."""

    paths: tuple[str, ...]
    """Paths of the dataset, as the user named them."""
    column: str
    page_index: str
    written: str
    """When, in UTC."""
    num_files: int
    num_rows: int
    num_values: int
    fingerprint: str
    """Fingerprint of the index of all files."""
    packs: tuple[Pack, ...]
    pieces: tuple[tuple[int, int, int], ...]
    """Pack, first file in it and one past the last, in the order of the files."""

    def to_json(self) -> bytes:
        """Return it as an object holds it."""
        content = {"format": _FORMAT, "version": _VERSION} | asdict(self)
        return (json.dumps(content) + "\n").encode()

    @property
    def shown(self) -> str:
        """Paths of the dataset, for messages."""
        return ", ".join(self.paths) or "named one by one"

    def check_roots(
        self, paths: Paths, files: Sequence[str], path_of_index: str
    ) -> None:
        """Check that the index covers all paths.

        Raises:
            InvalidArgumentError: If a path lies outside of what was indexed.
        """
        indexed = {*files}
        for path in roots_of(paths):
            is_within = any(
                f"{path}/".startswith(f"{root}/") or matches(path, root)
                for root in self.paths
            )
            if not is_within and path not in indexed:
                raise InvalidArgumentError(
                    f"index={path_of_index} has {self.num_files} files ({self.shown}), "
                    f"and {path.partition('?')[0]} is not within these: name them, or "
                    "write the index of all that you name"
                )

    @classmethod
    def of(cls, data: bytes, path: str) -> Manifest:
        """Read a manifest.

        Raises:
            CorruptFileError: If it is not a manifest, or has another version.
        """
        try:
            content: dict[str, Any] = json.loads(data)
            header = (content.pop("format"), content.pop("version"))
            _expect(
                header == (_FORMAT, _VERSION), f"{header}, not {(_FORMAT, _VERSION)}"
            )
            for name in ("paths", "packs", "pieces"):
                content[name] = _listed(content[name])
            content["packs"] = tuple(Pack(**pack) for pack in content["packs"])
            content["pieces"] = tuple(tuple(piece) for piece in content["pieces"])
            manifest = cls(**content)
            manifest._check()
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as why:
            raise CorruptFileError(
                f"{path} is no index of this release: {why}; write it again with "
                "`pagefeed index --output ... --force`"
            ).at(file=path) from why
        return manifest

    def _check(self) -> None:
        """Raise a ValueError if something is not what the fields promise."""
        texts = [self.column, self.page_index, self.written, self.fingerprint]
        texts += [*self.paths, *(pack.name for pack in self.packs)]
        for text in texts:
            _expect(isinstance(text, str), f"{text!r:.40} is no text")
        for pack in self.packs:
            _expect(_PACK.fullmatch(pack.name), f"{pack.name!r:.40} is no pack")
        numbers = [self.num_files, self.num_rows, self.num_values]
        numbers += [n for pack in self.packs for n in (pack.bytes, pack.files)]
        numbers += [n for piece in self.pieces for n in piece]
        for count in numbers:
            is_whole = isinstance(count, int) and not isinstance(count, bool)
            _expect(is_whole and 0 <= count < 1 << 63, f"{count!r:.40} is no count")
        num_files = 0
        for pack_number, first, stop in self.pieces:
            _expect(pack_number < len(self.packs), f"there is no pack {pack_number}")
            is_inside = first < stop <= self.packs[pack_number].files
            _expect(is_inside, f"a pack has no files {first} to {stop}")
            num_files += stop - first
        _expect(num_files == self.num_files, f"{num_files} files in the pieces")


def _listed(value: object) -> tuple[Any, ...]:
    _expect(isinstance(value, list), f"{value!r:.40} is no list")
    return tuple(cast("list[Any]", value))


def _expect(is_so: object, problem: str) -> None:
    if not is_so:
        raise ValueError(problem)


def manifest_name(column: str, page_index: object, digest: str = "") -> str:
    """Return the name of a manifest in its folder; with a digest, of its copy.

    Example:
        >>> manifest_name("input_ids", True), manifest_name("a/b", "row_group", "0f")
        ('input_ids.pages.json', 'a%2Fb.row_groups.0f.json')
    """
    kind = _KINDS[str(page_index)] + (f".{digest}" if digest else "")
    return f"{quote(column, safe='')}.{kind}.json"


def digest_of(data: bytes) -> str:
    """Return the digest of a manifest: 16 hexadecimal digits."""
    return hashlib.blake2b(data, digest_size=8).hexdigest()
