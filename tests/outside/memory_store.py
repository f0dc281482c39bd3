"""A store of files in memory, with the four calls of obspec."""

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any


class MemoryStore:
    """Files by their names."""

    def __init__(self, files: Mapping[str, bytes]) -> None:
        self.files = dict(files)

    def head(self, path: str) -> dict[str, Any]:
        data = self.files[path]
        tag = hashlib.md5(data).hexdigest()
        return {"path": path, "size": len(data), "e_tag": tag}

    def list(self, prefix: str | None = None) -> Iterator[Sequence[dict[str, Any]]]:
        names = [name for name in self.files if name.startswith(prefix or "")]
        for at in range(0, len(names), 2):
            yield [self.head(name) for name in names[at : at + 2]]

    def get_range(self, path: str, *, start: int, end: int) -> bytes:
        return self.files[path][start:end]

    def get_ranges(
        self, path: str, *, starts: Sequence[int], ends: Sequence[int]
    ) -> Sequence[memoryview]:
        data = memoryview(self.files[path])
        return [data[a:b] for a, b in zip(starts, ends, strict=True)]
