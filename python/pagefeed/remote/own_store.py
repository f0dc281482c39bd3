"""A store of the user's own: calls that the data plane makes on its threads."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from inspect import iscoroutinefunction as _is_async
from typing import Any, Protocol

from pagefeed.core._base import near_name
from pagefeed.core.storage import Located, Paths, is_url, plain_paths
from pagefeed.errors import InvalidArgumentError
from pagefeed.remote.options import options_as_texts
from pagefeed.remote.remote_storage import RemoteStorage


class OwnStore(Protocol):
    """The calls of a store, as the package ``obspec`` names them.

    They are called on threads of pagefeed, many at a time, and may block. Stores of
    ``obstore`` have them. ``get_ranges`` of the package is not needed: pagefeed joins
    ranges that are neighbours, and asks for others at the same time.
    """

    def get_range(self, path: str, *, start: int, end: int) -> Any:
        """Return bytes ``[start, end)`` as any buffer."""

    def head(self, path: str) -> Any:
        """Return a dict with ``path`` and ``size`` of a file.

        Its ``e_tag``, ``version`` or ``last_modified`` says when the file changes.
        """

    def list(self, prefix: str | None = None) -> Any:
        """Return lists of such dicts, for the files whose paths begin so."""


_CALLS = ("get_range", "head", "list")
_SETTINGS = ("deadline", "max_in_flight", "storage_cache", "storage_cache_dir")
"""Settings of remote storage that matter without a server."""
_FOREVER = (
    *(TypeError, ValueError, AttributeError, NameError, LookupError, ArithmeticError),
    *(AssertionError, ImportError, NotImplementedError, MemoryError, SyntaxError),
)
"""Errors of code, which the same call would raise again."""
_MISSING = ("NotFoundError", "NoSuchKey", "KeyError")
"""Errors of stores for a missing file; a dictionary in memory raises the last."""
_DENIED = ("PermissionDeniedError", "UnauthenticatedError")
_State = tuple[int, str]
_Reader = Callable[[Any, str], Any]


def located_in(
    store: OwnStore, paths: Paths, options: Mapping[str, object] | None
) -> Located:
    """Find the files of a store that paths, folders and patterns in it refer to.

    Raises:
        MissingFileError: If the store has nothing at a path.
        InvalidArgumentError: If a call is missing, a path is that of another storage,
            or an option has no meaning for a store.
    """
    for name in _CALLS:
        call = getattr(store, name, None)
        if not callable(call) or isinstance(store, type) or _is_async(call):
            raise InvalidArgumentError(
                f"store is {_kind(store)}, without a {name}() that blocks: give an "
                f"object with the calls {', '.join(_CALLS)}, such as obstore's stores"
            )
    texts = options_as_texts(options)
    for name in {*texts} - {*_SETTINGS}:
        raise InvalidArgumentError(
            f"storage_options[{name!r}]{near_name(name, _SETTINGS)} is set where the "
            f"store is made: with store= there are {', '.join(_SETTINGS)}"
        )
    storage, names = OwnStorage(store, texts), map(_name_of, plain_paths(paths))
    return Located(storage, tuple(storage.list_files(names)))


def _name_of(path: str) -> str:
    if is_url(path) and not path.startswith("store://"):
        raise InvalidArgumentError(
            f"{path.partition('://')[0]}://... is a URL, and with store= paths are "
            "names in the store: leave out one of the two"
        )
    name = path.removeprefix("store://").removeprefix("./").lstrip("/")
    return f"store://{'' if name == '.' else name}"


class OwnStorage(RemoteStorage):
    """Files of a store of the user's own, as ``store://`` and their names in it.

    Args:
        store: The store.
        options: Settings of the reads.

    Raises:
        InvalidArgumentError: If there is a cache, and stores of the class look alike.
    """

    def __init__(self, store: OwnStore, options: Mapping[str, str]) -> None:
        self._store = store
        identity = f"{_kind(store)} {store!r}" if "storage_cache" in options else ""
        if " at 0x" in identity:
            raise InvalidArgumentError(
                f"storage_cache must know stores from each other: give {_kind(store)} "
                "a __repr__ that says where it reads, without secrets and addresses"
            )
        super().__init__(options, own=(Calls(store), identity))

    def __eq__(self, other: object) -> bool:
        is_own = isinstance(other, OwnStorage) and other._store is self._store
        return is_own and super().__eq__(other)

    __hash__ = RemoteStorage.__hash__

    def __reduce__(self) -> tuple[type[RemoteStorage], tuple[Any, ...]]:
        """Pickle with the store, which must be one that can be pickled."""
        return type(self), (self._store, self._options)


class Calls:
    """The calls of a store as the data plane makes them, with checked answers.

    The data plane knows errors by builtins: what is overdue is tried again until the
    deadline. No message repeats what the store said, which may be secret.
    """

    def __init__(self, store: OwnStore) -> None:
        self._store = store

    def head(self, key: str) -> _State:
        """Return bytes and version of a file."""
        return self._asked("head", key, of=_state)

    def read(self, key: str, begin: int, end: int) -> tuple[bytes, _State]:
        """Return bytes of a file, and its state after they were read.

        An earlier state would miss a change between the two calls.
        """
        found = self._asked("get_range", key, of=_bytes, start=begin, end=end)
        return found, self.head(key)

    def list(self, folder: str) -> list[tuple[str, _State]]:
        """Return URLs and states of the files below a folder, sorted."""
        prefix = f"{folder}/" if folder else ""
        files = self._asked("list", prefix or None, of=_files)
        # A store may also list other names that begin alike, and markers of folders.
        found = (name for name in files if name.startswith(prefix) and name[-1] != "/")
        return [(f"store://{name}", files[name]) for name in sorted(found)]

    def _asked(self, name: str, path: str | None, *, of: _Reader, **at: int) -> Any:
        """Return an answer of the store, read by ``of``; raise errors as known ones."""
        try:
            return of(getattr(self._store, name)(path, **at), name)
        except BaseException as error:  # noqa: BLE001 - the user's code may raise anything
            raise _known(error, name) from None


def _known(error: BaseException, call: str) -> OSError:
    if isinstance(error, _AnswerError):
        return error
    kind, status = type(error).__name__, _status(error)
    told = f"store.{call} raised {kind}"
    if isinstance(error, FileNotFoundError) or kind in _MISSING or status == 404:
        return FileNotFoundError(f"the store has no such file: {told}")
    if isinstance(error, PermissionError) or kind in _DENIED or status in (401, 403):
        return PermissionError(f"access is denied: {told}; give the store credentials")
    told = f"{told}; its text may be secret: call it yourself with this path to see it"
    is_final = isinstance(error, _FOREVER) or not isinstance(error, Exception)
    return OSError(told) if is_final else TimeoutError(told)


def _status(error: BaseException) -> object:
    """Return the status of a web server in an error, where common clients keep it."""
    response = vars(error).get("response") or error
    if isinstance(response, Mapping):  # botocore
        return response.get("ResponseMetadata", {}).get("HTTPStatusCode")
    found = (
        getattr(response, name, None) for name in ("status", "status_code", "code")
    )
    return next((value for value in found if isinstance(value, int)), None)


def _files(answer: Any, call: str) -> dict[str, _State]:
    """Return the states of files by their names, of all parts of a list."""
    files = dict[str, _State]()
    for number, several in enumerate(answer):
        for one in several:
            state, path = _state(one, call), one.get("path")
            if not isinstance(path, str):
                raise _AnswerError(call, "path as text", path)
            if files.setdefault(path, state) != state:
                raise _AnswerError(call, f"one state of {path}, not two", state)
        if number > len(files) + _MOST_IDLE:
            raise _AnswerError(call, "a list that ends, and no part twice", several)
    return files


_MOST_IDLE = 10_000
"""Parts of a list without a new file before it counts as one without end."""


def _state(found: Any, call: str) -> _State:
    """Return size and version from an answer about a file."""
    if not isinstance(found, Mapping):
        raise _AnswerError(call, "a dict for a file", found)
    size = found.get("size")
    if not isinstance(size, int) or isinstance(size, bool) or not 0 <= size < 1 << 63:
        raise _AnswerError(call, "size as a number of bytes", size)
    version = found.get("e_tag") or found.get("version")
    if version is None and call == "head":  # Lists may have finer times than heads.
        version = found.get("last_modified")
    return size, "" if version is None else str(version)


def _bytes(found: Any, call: str) -> bytes:
    if isinstance(found, str | int | None):
        raise _AnswerError(call, "bytes, or another buffer", found)
    return found if isinstance(found, bytes) else bytes(memoryview(found))


class _AnswerError(OSError):
    """An answer of another form. It shows the kind alone: values may be secret."""

    def __init__(self, call: str, expected: str, found: object) -> None:
        super().__init__(f"store.{call} must give {expected}, found {_kind(found)}")


def _kind(found: object) -> str:
    return found.__name__ if isinstance(found, type) else type(found).__name__
