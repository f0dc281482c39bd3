"""A small reader and writer of Thrift's compact protocol, for building broken files.

A struct is a dict of field number to `Field(kind, value)`; a list's value is a pair of
the elements' kind and the Python list. Nothing is interpreted, so what is read and
written back is the same bytes, and a test can change any single field of a footer or a
page header.
"""

import struct as packing
from typing import Any, NamedTuple

TRUE, FALSE, BYTE, I16, I32, I64, DOUBLE, BINARY, LIST, SET, MAP, STRUCT = range(1, 13)


class Field(NamedTuple):
    """One field of a struct: a kind of the compact protocol and its value."""

    kind: int
    value: Any


Struct = dict[int, Field]


def i32(value: int) -> Field:
    return Field(I32, value)


def i64(value: int) -> Field:
    return Field(I64, value)


def boolean(value: bool) -> Field:
    return Field(TRUE if value else FALSE, value)


def binary(value: bytes | str) -> Field:
    return Field(BINARY, value.encode() if isinstance(value, str) else value)


def struct(value: Struct) -> Field:
    return Field(STRUCT, value)


def listed(kind: int, values: list[Any]) -> Field:
    return Field(LIST, (kind, values))


def varint(value: int) -> bytes:
    """An unsigned LEB128 integer."""
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def zigzag(value: int) -> bytes:
    """A signed integer of up to 64 bits."""
    return varint(value * 2 if value >= 0 else -value * 2 - 1)


def encode(fields: Struct) -> bytes:
    """The bytes of a struct, its stop byte included."""
    out, last = bytearray(), 0
    for number, (kind, value) in sorted(fields.items()):
        step = number - last
        out += (
            bytes([step << 4 | kind])
            if 0 < step < 16
            else bytes([kind]) + zigzag(number)
        )
        if kind not in (TRUE, FALSE):
            out += _encode_value(kind, value)
        last = number
    return bytes(out) + b"\0"


def _encode_value(kind: int, value: Any) -> bytes:
    match kind:
        case 1 | 2:
            return bytes([TRUE if value else FALSE])
        case 3:
            return packing.pack("b", value)
        case 4 | 5 | 6:
            return zigzag(value)
        case 7:
            return packing.pack("<d", value)
        case 8:
            return varint(len(value)) + bytes(value)
        case 9 | 10:
            element, values = value
            return list_header(element, len(values)) + b"".join(
                _encode_value(element, one) for one in values
            )
        case 12:
            return encode(value)
    raise ValueError(f"kind {kind} is not used by Parquet")


def list_header(element: int, count: int) -> bytes:
    """The header alone, so that a count can be a lie."""
    if count < 15:
        return bytes([count << 4 | element])
    return bytes([0xF0 | element]) + varint(count)


def decode(data: bytes, at: int = 0) -> tuple[Struct, int]:
    """The struct that starts at a position, and the position behind it."""
    fields: Struct = {}
    last = 0
    while True:
        head, at = data[at], at + 1
        if head == 0:
            return fields, at
        kind, step = head & 15, head >> 4
        if step:
            last += step
        else:
            last, at = _signed(data, at)
        if kind in (TRUE, FALSE):
            fields[last] = boolean(kind == TRUE)
        else:
            value, at = _decode_value(kind, data, at)
            fields[last] = Field(kind, value)


def _unsigned(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte, at = data[at], at + 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7


def _signed(data: bytes, at: int) -> tuple[int, int]:
    value, at = _unsigned(data, at)
    return value >> 1 ^ -(value & 1), at


def _decode_value(kind: int, data: bytes, at: int) -> tuple[Any, int]:
    match kind:
        case 1 | 2:
            return data[at] == TRUE, at + 1
        case 3:
            return packing.unpack_from("b", data, at)[0], at + 1
        case 4 | 5 | 6:
            return _signed(data, at)
        case 7:
            return packing.unpack_from("<d", data, at)[0], at + 8
        case 8:
            size, at = _unsigned(data, at)
            return data[at : at + size], at + size
        case 9 | 10:
            head, at = data[at], at + 1
            element, count = head & 15, head >> 4
            if count == 15:
                count, at = _unsigned(data, at)
            values = []
            for _ in range(count):
                value, at = _decode_value(element, data, at)
                values.append(value)
            return (element, values), at
        case 12:
            return decode(data, at)
    raise ValueError(f"kind {kind} is not used by Parquet")
