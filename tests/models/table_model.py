"""Tables whose columns change between files, as a plain model of their rows.

A column has an id for ever, and a name, a type and fields of now. A file keeps what it
was written with. What a row has of a column follows from the two.
"""

import datetime
import random
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from operator import itemgetter
from typing import Any, NamedTuple

import pyarrow as pa

UTC = datetime.UTC


class Kind(NamedTuple):
    """A type of values, the wider one that it may become, and some values."""

    type: pa.DataType
    wide: pa.DataType | None
    values: list[Any]
    literal: str | None = None
    value: Any = None
    """What the literal means."""


KINDS = {
    "int": Kind(pa.int32(), pa.int64(), [-3, 0, 7], "0", 0),
    "real": Kind(pa.float32(), pa.float64(), [-1.5, 9.5, 10.0], "9.5", 9.5),
    "decimal": Kind(
        *(pa.decimal128(9, 2), pa.decimal128(18, 2)),
        [Decimal("-0.25"), Decimal("9.50"), Decimal("10.00")],
        *("9.75", Decimal("9.75")),
    ),
    "text": Kind(pa.string(), None, ["a:b", "en/US", "100%", "\u65e5"], "'b'", "b"),
    "flag": Kind(pa.bool_(), None, [True, False]),
    "date": Kind(
        *(pa.date32(), None),
        [datetime.date(1969, 12, 30), datetime.date(2026, 1, 2)],
        *("'2026-01-02'", datetime.date(2026, 1, 2)),
    ),
    "time": Kind(
        *(pa.timestamp("us", "UTC"), None),
        [
            datetime.datetime(1969, 1, 1, 2, 3, 4, 5, UTC),
            datetime.datetime(2026, 1, 2, 3, 4, 5, 60, UTC),
            datetime.datetime(2026, 1, 2, 3, 4, 5, 70, UTC),
        ],
        "'2026-01-02T03:04:05.000070Z'",
        datetime.datetime(2026, 1, 2, 3, 4, 5, 70, UTC),
    ),
    "local": Kind(
        *(pa.timestamp("us"), None),
        [
            datetime.datetime(1500, 1, 1, 2, 3, 4, 5),
            datetime.datetime(3026, 1, 2, 3, 4, 5, 60),
        ],
        *("'2026-01-02T03:04:05'", datetime.datetime(2026, 1, 2, 3, 4, 5)),
    ),
    "bytes": Kind(pa.binary(), None, [b"a", b"\x01\xff"]),
}
NAMES = ["a", "b", "c", "d", "e"]


@dataclass
class Column:
    """A column, or a field in one."""

    id: int
    name: str
    kind: str
    """One of :data:`KINDS`, ``"struct"``, ``"list"`` (of structs) or ``"tokens"``."""
    label: str
    """What files call it that are read by names; unique beside its neighbours."""
    fields: list["Column"] = field(default_factory=list)
    wide: bool = False
    default: Any = None
    inner_id: int = 0
    """The id of a list's items."""

    @property
    def type(self) -> pa.DataType:
        """The Arrow type of values."""
        kind = KINDS[self.kind]
        return kind.wide if self.wide and kind.wide else kind.type


@dataclass
class File:
    """Rows as they were written."""

    rows: list[dict[int, Any]]
    columns: list[Column]
    """Those that it holds, as they were."""
    partition: dict[int, Any]
    """The value of all its rows, by the ids of columns."""
    spec: tuple[int, ...]


class TableModel:
    """The columns of a table and the rows of its files, changed at random.

    Args:
        chance: Chooses.
        has_defaults: Whether added columns, and fields in them, may have a default.
    """

    def __init__(self, chance: random.Random, *, has_defaults: bool) -> None:
        self.chance, self.has_defaults = chance, has_defaults
        self.next_id = 1
        self.files: list[File] = []
        self.history: list[list[Column]] = []
        self.labels: dict[int, set[str]] = {}
        self.columns = [
            self.column("tokens", kind="tokens"),
            self.column("key", kind="int"),
        ]
        self.tokens, self.key = self.columns
        for name in chance.sample(NAMES, chance.randint(1, 3)):
            self.columns.append(self.column(name))

    def column(self, name: str, kind: str | None = None, inside: int = 0) -> Column:
        """Return a new column, perhaps with fields."""
        chance = self.chance
        kinds = [*KINDS, "struct", "list"] if not inside else [*KINDS]
        kind = kind or chance.choice(kinds)
        number = self.next_id
        self.next_id += 2
        used = self.labels.setdefault(inside, set())
        label = next(
            each
            for each in [*chance.sample(NAMES, len(NAMES)), f"c{number}"]
            if each not in used
        )
        used.add(label)
        found = Column(number, name, kind, label, inner_id=number + 1)
        if kind in ("struct", "list"):
            names = chance.sample(NAMES, chance.randint(1, 2))
            found.fields = [self.column(each, inside=number) for each in names]
        return found

    def change(self, keeps: Collection[int] = (), *, only_adds: bool = False) -> None:
        """Rename, drop, add or widen columns.

        Args:
            keeps: Ids of columns that are not dropped, or made wider.
            only_adds: Whether nothing else is done than adding.
        """
        chance, level, inside = self.chance, self.columns, 0
        nested = [each for each in self.columns if each.fields]
        if nested and chance.random() < 0.5:
            chosen = chance.choice(nested)
            level, inside = chosen.fields, chosen.id
        names = [each.name for each in level]
        free = [each for each in NAMES if each not in names]
        ways = ["rename", "rename", "drop", "add", "widen"]
        match "add" if only_adds else chance.choice(ways):
            case "rename":
                names += chance.sample(free, min(len(free), 2))
                new = chance.sample(names, len(level))
                for each, name in zip(level, new, strict=True):
                    each.name = name
            case "drop" if len(level) > 1:
                kept = {self.tokens.id, self.key.id, *keeps}
                gone = chance.choice(level)
                if gone.id not in kept:
                    level.remove(gone)
            case "add" if free:
                level.append(self.added(chance.choice(free), inside))
            case "widen":
                for each in level:
                    if each.kind in KINDS and each.id not in keeps:
                        each.wide = each.wide or chance.random() < 0.7

    def added(self, name: str, inside: int) -> Column:
        """Return a new column, perhaps with a default."""
        found = self.column(name, inside=inside)
        if self.has_defaults and found.kind in KINDS:
            found.default = self.chance.choice([None, *KINDS[found.kind].values])
        return found

    def value(self, column: Column) -> Any:
        """A value that a row may have of a column."""
        chance = self.chance
        if chance.random() < 0.25:
            return None
        if column.kind == "struct":
            return {each.id: self.value(each) for each in column.fields}
        if column.kind == "list":
            return [
                {each.id: self.value(each) for each in column.fields}
                for _ in range(chance.randint(0, 2))
            ]
        return chance.choice(KINDS[column.kind].values)

    def append(self, spec: Sequence[Column], *, holds_partition: bool) -> File:
        """Add a file.

        Args:
            spec: Columns that have one value in all its rows.
            holds_partition: Whether the file holds these.
        """
        partition = {each.id: self.value(each) for each in spec}
        rows: list[dict[int, Any]] = []
        for _ in range(self.chance.randint(1, 4)):
            number = sum(len(each.rows) for each in self.files) + len(rows)
            row = {
                each.id: self.value(each)
                for each in self.columns
                if each.kind != "tokens"
            }
            row |= {self.tokens.id: [number] * 3, self.key.id: number, **partition}
            rows.append(row)
        held = [
            copied(each)
            for each in self.columns
            if holds_partition or each.id not in partition
        ]
        self.chance.shuffle(held)
        file = File(rows, held, partition, tuple(partition))
        self.files.append(file)
        self.history.append([copied(each) for each in self.columns])
        return file

    def rows(self) -> list[dict[str, Any]]:
        """All rows by the names of now, in the order of their keys."""
        return [
            {each.name: told(each, row, file) for each in self.columns}
            for file in self.files
            for row in file.rows
        ]

    def leaves(self) -> Iterator[tuple[str, Kind, Callable[[dict[str, Any]], Any]]]:
        """Dotted name, kind and value in a row of all columns with one value."""
        for column in self.columns:
            if column.kind in KINDS:
                yield column.name, KINDS[column.kind], itemgetter(column.name)
            if column.kind == "struct":
                for each in column.fields:
                    path = f"{column.name}.{each.name}"
                    yield path, KINDS[each.kind], field_getter(column.name, each.name)


def field_getter(column: str, name: str) -> Callable[[dict[str, Any]], Any]:
    return lambda row: row[column] and row[column][name]


def copied(column: Column) -> Column:
    return replace(column, fields=[copied(each) for each in column.fields])


def told(column: Column, row: dict[int, Any], file: File) -> Any:
    """What a row has of a column, by the names of now."""
    held = {each.id for each in file.columns}
    if column.id not in held:
        return file.partition.get(column.id, column.default)
    return inner(column, row[column.id])


def inner(column: Column, value: Any) -> Any:
    """A value by the names of now: fields that a file lacks are null."""
    if value is None or column.kind in KINDS or column.kind == "tokens":
        return value
    if column.kind == "list":
        return [inner(replace(column, kind="struct"), each) for each in value]
    return {
        each.name: inner(each, value.get(each.id, each.default))
        for each in column.fields
    }
