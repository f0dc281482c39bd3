"""The exceptions of pagefeed.

Every failure pagefeed reports is a :class:`PagefeedError`, and at the same time the
builtin that fits, so that existing ``except`` clauses keep working::

    PagefeedError
    +-- InvalidArgumentError        ValueError   an argument cannot be right
    |   +-- EmptySelectionError     no row is selected
    +-- OutOfRangeError             IndexError   there is no row of this number
    +-- MissingDependencyError      ImportError  an extra is not installed
    +-- FileAccessError             OSError      the system refused to read a file
    |   +-- MissingFileError        FileNotFoundError
    |   +-- AccessDeniedError       PermissionError
    |   +-- UnavailableError        TimeoutError  a remote storage does not answer
    +-- DataError                   ValueError   something in the data is wrong
    |   +-- CorruptFileError        bytes are not what the format promises
    |   |   +-- ChecksumError       a stored checksum does not match
    |   +-- LimitExceededError      a size or count is over a safety limit
    |   +-- UnsupportedError        valid Parquet that pagefeed does not read
    |   |   +-- EncryptedError      the file is encrypted
    |   +-- TokenRangeError         a token does not fit the type asked for
    +-- ColumnNotFoundError         KeyError     the file has no such column
    +-- StaleFileError              RuntimeError a file changed since it was indexed
    +-- StateMismatchError          ValueError   a state belongs to another run
    +-- TicketError             ValueError   a ticket of a queue is not in flight
    +-- CancelledError              RuntimeError the engine was closed
    +-- InternalError               RuntimeError a defect of pagefeed

Errors about data say where it happened, as far as it is known, in the attributes
``file``, ``row_group``, ``column``, ``page`` and ``offset``. Errors that a loader
raises also have ``steps``, the steps that need this data: ``loader.skip(error.steps)``
skips them.

Warnings of pagefeed are of the category :class:`PagefeedWarning`.

A message ends with the code of its class, such as ``[PF-031]``. ``pagefeed explain
PF-031`` prints what causes the error and what to do.
"""

from __future__ import annotations

import logging
import re
from pathlib import PurePath
from typing import ClassVar, Self

__all__ = [
    "AccessDeniedError",
    "BalanceWarning",
    "CacheWarning",
    "CancelledError",
    "ChecksumError",
    "ColumnNotFoundError",
    "CorruptFileError",
    "DataError",
    "EmptySelectionError",
    "EncryptedError",
    "FileAccessError",
    "IndexWarning",
    "InternalError",
    "InvalidArgumentError",
    "LabelWarning",
    "LimitExceededError",
    "LossWarning",
    "MissingDependencyError",
    "MissingFileError",
    "OutOfRangeError",
    "PaddingWarning",
    "PagefeedError",
    "PagefeedWarning",
    "PositionWarning",
    "RankWarning",
    "ReloadWarning",
    "StaleFileError",
    "StateMismatchError",
    "TicketError",
    "TokenRangeError",
    "UnavailableError",
    "UnsupportedError",
]

_CODES = re.compile(r" \[PF-\d{3}\]")
_QUERY = re.compile(r"(https?://[^\s?'\"]+)\?\S*?(?=[^\w\s%/=&+~-]*(\s|$))")
"""The query of a URL in a text, without the punctuation that follows it."""
_STEERING = re.compile(
    "[\0-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]"
)
"""Control characters but tab and newline, changes of direction, lone surrogates."""


def shown_path(path: str) -> str:
    """Return a path as it is shown: without the query of a web server, maybe a key.

    Example:
        >>> shown_path("https://host/a.parquet?signature=1"), shown_path("s3://b/a?.txt")
        ('https://host/a.parquet', 's3://b/a?.txt')
    """
    is_web = path.startswith(("https://", "http://"))
    return path.partition("?")[0] if is_web else path


def shown_text(text: str) -> str:
    r"""Return a text as messages and logs show it: without queries, and printable.

    Example:
        >>> print(shown_text("from https://host/a?key=1, \x1b[2J"))
        from https://host/a, \x1b[2J
    """
    return printable(_QUERY.sub(r"\1", text))


def without_keys(record: logging.LogRecord) -> bool:
    """Show the texts in a record of the log as messages are shown."""
    record.args = tuple(
        shown_text(f"{each}") if isinstance(each, str | PurePath | Exception) else each
        for each in record.args or ()
    )
    return True


def printable(text: str) -> str:
    r"""Return a text with terminal control characters escaped.

    Example:
        >>> print(printable("a\x1b[2Jb\n"), end="")
        a\x1b[2Jb
    """
    return _STEERING.sub(lambda sign: ascii(sign[0])[1:-1], text)


def one_line(text: str) -> str:
    r"""Return a printable text as one line: line breaks and tabs are escaped.

    Example:
        >>> print(one_line("a\nb"))
        a\nb
    """
    return printable(text).replace("\n", "\\n").replace("\t", "\\t")


class PagefeedWarning(UserWarning):
    """Base of all warnings. What would change the data is an error, never a warning."""

    def __init__(self, *lines: object) -> None:
        super().__init__(*(shown_text(str(line)) for line in lines))


class BalanceWarning(PagefeedWarning):
    """Sequences of a step are all about as long, unless gradients accumulate."""


class CacheWarning(PagefeedWarning):
    """A cache folder cannot be used; every process makes all files again."""


class IndexWarning(PagefeedWarning):
    """An index takes longer to build than with a different setting."""


class LabelWarning(PagefeedWarning):
    """Labels leave out tokens that a model should learn, such as ends of answers."""


class LossWarning(PagefeedWarning):
    """A loss is missing or not finite; it changes no weights."""


class PaddingWarning(PagefeedWarning):
    """Batches contain padding that no field marks."""


class PositionWarning(PagefeedWarning):
    """The position of a run is not known exactly, or goes back."""


class RankWarning(PagefeedWarning):
    """It is unknown whether all processes train on the right batches."""


class ReloadWarning(PagefeedWarning):
    """Pages are read again and again for lack of memory; nothing else is wrong.

    Either pages are given up before their last use, or ``shuffle="row"`` loads a page
    for nearly every sequence.
    """


class PagefeedError(Exception):
    """Base of all exceptions of pagefeed.

    Args:
        *lines: Lines of the message. URLs lose their queries, and signs that steer a
            terminal are escaped.

    Attributes:
        code: A short, stable name of the class: ``pagefeed explain PF-031`` prints
            causes and remedies. Messages end with it.
        file: Path of the file, if known.
        row_group: Row group in the file, if known.
        column: Column as a dotted path, if known.
        page: Page within its column chunk, if known.
        row: Row of the file, if known.
        offset: Byte offset in the file, if known.
        steps: Steps of a loader that need what cannot be read, for ``Loader.skip``.
    """

    code: ClassVar[str] = "PF-001"
    file: str | None = None
    row_group: int | None = None
    column: str | None = None
    page: int | None = None
    row: int | None = None
    offset: int | None = None
    steps: tuple[int, ...] = ()

    def __init__(self, *lines: object) -> None:
        # Names of files and texts of data stand in messages: they steer no terminal.
        super().__init__(*(one_line(shown_text(str(line))) for line in lines))

    def __setattr__(self, name: str, value: object) -> None:
        if name == "file" and isinstance(value, str):
            value = shown_path(value)
        super().__setattr__(name, value)

    def at(self, **location: str | int | None) -> Self:
        """Return the error with attributes that say where it happened.

        Example:
            >>> CorruptFileError("a.parquet: no footer").at(file="a.parquet").file
            'a.parquet'
        """
        for name, value in location.items():
            setattr(self, name, value)
        return self

    def __str__(self) -> str:
        # KeyError and OSError would print the repr or the errno of their arguments.
        message = "\n".join(map(str, self.args)) or type(self).__name__
        # A message may quote that of another error: one code is enough.
        return f"{_CODES.sub('', message)} [{self.code}]"


class InvalidArgumentError(PagefeedError, ValueError):
    """An argument cannot be right; the message says which values are accepted.

    Cause:
        A name is misspelled, a number is out of range, two arguments exclude each
        other, or an argument does not suit the kind of data.
    Remedy:
        Correct the argument as the message says. docs/reference/options.md lists what
        each kind of source accepts.
    """

    code = "PF-010"


class EmptySelectionError(InvalidArgumentError):
    """No row is selected; the message says what could be selected.

    Cause:
        A predicate, a list of names or a split leaves nothing: often a value is written
        in another case, or the column holds another type than expected.
    Remedy:
        Look at the column with ``dataset.head()`` or ``pagefeed head``, and widen the
        selection.
    """

    code = "PF-011"


class OutOfRangeError(PagefeedError, IndexError):
    """No row or sequence has this number; the message says how many there are.

    Cause:
        An index is as large as the number of rows, or larger.
    Remedy:
        Take ``len()`` of the dataset or view as the limit.
    """

    code = "PF-012"


class MissingDependencyError(PagefeedError, ImportError):
    """An optional dependency is missing; the message names the extra to install.

    Cause:
        pagefeed itself needs only NumPy. This feature needs an extra that is not
        installed, or that cannot be imported.
    Remedy:
        Run ``pip install 'pagefeed[EXTRA]'`` with the extra that the message names.
    """

    code = "PF-013"


class FileAccessError(PagefeedError, OSError):
    """The operating system refused to read or write a file.

    Cause:
        The disk is full, a device failed, too many files are open, or a network file
        system went away.
    Remedy:
        See the system's own words at the end of the message. For "too many open files"
        raise ``ulimit -n``; for a full disk free some space and start again: files that
        were finished stay valid.
    """

    code = "PF-020"


class MissingFileError(FileAccessError, FileNotFoundError):
    """A file does not exist, or a pattern matches none.

    Cause:
        The path is misspelled, relative to another folder, or not mounted on this node;
        or a file was removed since it was indexed.
    Remedy:
        List the path on this node. Absolute paths and URLs mean the same on every node.
    """

    code = "PF-021"


class AccessDeniedError(FileAccessError, PermissionError):
    """A file may not be read: permissions, or credentials of a remote storage.

    Cause:
        The process runs as another user, credentials are missing, expired or of another
        account, or a dataset of the hub is gated.
    Remedy:
        Give credentials by ``storage_options`` or the environment
        (docs/explanation/remote.md). For public buckets pass ``skip_signature``; for
        gated datasets ask for access on their page and set ``HF_TOKEN``.
    """

    code = "PF-022"


class UnavailableError(FileAccessError, TimeoutError):
    """A remote storage did not answer before the deadline; the message says why.

    Cause:
        The storage is overloaded or limits the rate of requests, the network is down,
        or a proxy swallows the answers.
    Remedy:
        Run ``pagefeed doctor`` from this node. Raise the deadline in
        ``storage_options``, or lower the number of requests under way. The state of the
        run is intact: load it and continue.
    """

    code = "PF-023"


class DataError(PagefeedError, ValueError):
    """Something in the data is wrong or cannot be read.

    Attributes:
        batch_row: Row of the batch, if it was found there.

    Cause:
        The data contradicts itself, or what was asked of it. Subclasses say how.
    Remedy:
        The message names file, row group, column, page and row.
        ``loader.skip(error.steps)`` passes over the steps that need them, on every rank
        and after every resume.
    """

    code = "PF-030"
    batch_row: int | None = None


class CorruptFileError(DataError):
    """The bytes are not what the format promises.

    Cause:
        The file was cut off while it was written or copied, its storage lost bytes, or
        a writer does not keep to the format. Or it is not a Parquet file, but JSON
        lines, CSV or tokens of another format.
    Remedy:
        Compare size and checksum with the original and copy it again. ``pagefeed
        inspect`` lists every file that cannot be read. ``loader.skip(error.steps)``
        continues without it. Make Parquet of texts with ``pagefeed tokenize``, and of
        other token files with ``pagefeed convert``.
    """

    code = "PF-031"


class ChecksumError(CorruptFileError):
    """A stored checksum does not match the bytes read.

    Cause:
        Bytes changed on the way or where they are stored: memory, disk or network.
    Remedy:
        Read the file again on another node. If it fails there too, restore the file; if
        not, suspect this node's hardware.
    """

    code = "PF-032"


class LimitExceededError(DataError):
    """A size or count is over a limit that protects memory or time.

    Cause:
        A page or row is larger than ``memory`` allows, or a damaged file claims a size
        that its bytes cannot have.
    Remedy:
        Raise ``memory`` if the message names a size that you believe. Otherwise write
        the file again with smaller pages or row groups.
    """

    code = "PF-033"


class UnsupportedError(DataError):
    """Valid data that pagefeed does not read.

    Cause:
        The format allows an encoding, codec, type or feature of a table for which there
        is no reader here.
    Remedy:
        Write the files again without it; the message names it. README.md lists what is
        read.
    """

    code = "PF-034"


class EncryptedError(UnsupportedError):
    """The file or the column is encrypted.

    Cause:
        The writer used Parquet's modular encryption.
    Remedy:
        Decrypt the files ahead of training with the library that wrote them.
    """

    code = "PF-035"


class TokenRangeError(DataError, OverflowError):
    """A number is not a token id, or does not fit the type asked for.

    Cause:
        The column holds something else than tokens, was made by a tokenizer with a
        larger vocabulary, or ``dtype`` is too small.
    Remedy:
        Look at the row that the message names; give the vocabulary of the tokenizer
        that made the files, or a larger ``dtype``.
    """

    code = "PF-036"


class ColumnNotFoundError(PagefeedError, KeyError):
    """A file has no such column; the message lists its columns.

    Cause:
        The name is misspelled, or some files of a folder were written by another job.
    Remedy:
        Take a name of the list; nested columns are dotted paths. Leave out files of
        another kind by a pattern such as ``web/train-*.parquet``.
    """

    code = "PF-040"


class StaleFileError(PagefeedError, RuntimeError):
    """A file is not in the state it was indexed in.

    Cause:
        Someone wrote, replaced or removed a file while a run used it, or between two
        runs that share an index.
    Remedy:
        Put the former file back to continue with the same order. Or make the dataset
        again: it is indexed again, and states of the former data are refused.
    """

    code = "PF-041"


class StateMismatchError(PagefeedError, ValueError):
    """A saved state belongs to another dataset or plan; both sides are shown.

    Cause:
        The data, the way of cutting or shuffling it, the seed or the release of
        pagefeed differ from those of the run that saved the state.
    Remedy:
        Give the loader the former settings: the message shows both. World size, batch
        size, memory, threads and paths may change. Data that only grew loads with
        ``grown=``.
    """

    code = "PF-043"


class TicketError(PagefeedError, ValueError):
    """A ticket of a PromptQueue is not in flight; nothing was changed.

    Cause:
        It was finished or given back before, a worker that was taken for dead sent its
        answers after all, or a state was loaded since it was taken.
    Remedy:
        Leave out the answers to this ticket: its prompt is answered again, or was
        trained. After a resume take over those whose answers were saved by
        ``queue.claim``.
    """

    code = "PF-045"


class CancelledError(PagefeedError, RuntimeError):
    """The work was cancelled: the engine was closed, or another rank failed.

    Cause:
        While this iterator waited, the loader was closed or moved to another position,
        or a newer iterator replaced it. Or the policy of a mixture failed on another
        rank, for which this one would have waited.
    Remedy:
        Take batches from the newest iterator; make one with ``iter(loader)``. The log
        of the other rank says what its policy raised.
    """

    code = "PF-044"


class InternalError(PagefeedError, RuntimeError):
    """A defect of pagefeed itself; please report it.

    Cause:
        An assumption of the code did not hold.
    Remedy:
        Report the message and what led to it. Load the last state to continue.
    """

    code = "PF-050"
