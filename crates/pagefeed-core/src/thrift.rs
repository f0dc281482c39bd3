//! A bounded reader of Thrift's compact protocol, as far as Parquet needs it.
//!
//! Every length is compared with the bytes that are left before anything is
//! allocated, and nesting is bounded. Running out of bytes is another error than bad
//! bytes, so that a page header can be read from a prefix of unknown length.
//! See the compact protocol specification in Apache Thrift's `doc/specs`.

use crate::error::{Error, Result};
use crate::limits::MAX_THRIFT_DEPTH;

/// Reads the fields of a struct by number and type; skips the others.
macro_rules! read_fields {
    ($reader:ident, { $($field:pat => $what:expr,)* }) => {
        $reader.fields(|id, wire, $reader| {
            match (id, wire) {
                $($field => $what,)*
                _ => $reader.skip(wire)?,
            }
            Ok(())
        })
    };
}
pub(crate) use read_fields;

/// Wire type of a field or list element.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wire {
    /// A boolean field that is true (booleans live in the field header).
    True,
    /// A boolean field that is false.
    False,
    /// One byte.
    Byte,
    /// Zigzag varint of 16 bits.
    I16,
    /// Zigzag varint of 32 bits.
    I32,
    /// Zigzag varint of 64 bits.
    I64,
    /// Eight bytes, little endian.
    Double,
    /// Length and bytes.
    Binary,
    /// Element type, count and elements.
    List,
    /// Encoded like a list.
    Set,
    /// Count, key and value types, entries.
    Map,
    /// Fields up to a stop byte.
    Struct,
    /// Sixteen bytes.
    Uuid,
}

impl Wire {
    /// Number in the format.
    pub fn code(self) -> u8 {
        self as u8 + 1
    }

    fn parse(code: u8) -> Result<Self> {
        use Wire::{
            Binary, Byte, Double, False, I16, I32, I64, List, Map, Set, Struct, True, Uuid,
        };
        const ALL: [Wire; 13] = [
            True, False, Byte, I16, I32, I64, Double, Binary, List, Set, Map, Struct, Uuid,
        ];
        let wire = usize::from(code).checked_sub(1).and_then(|at| ALL.get(at));
        let unknown = || Error::corrupt(format!("unknown thrift wire type {code}"));
        wire.copied().ok_or_else(unknown)
    }
}

/// Reads compact-protocol values from a byte slice.
#[derive(Clone, Debug)]
pub struct Reader<'a> {
    bytes: &'a [u8],
    position: usize,
    /// Set when a value ran past the end: more bytes could make it whole.
    exhausted: bool,
}

impl<'a> Reader<'a> {
    /// Starts at the beginning of `bytes`.
    pub fn new(bytes: &'a [u8]) -> Self {
        Self {
            bytes,
            position: 0,
            exhausted: false,
        }
    }

    /// Bytes consumed so far.
    pub fn position(&self) -> usize {
        self.position
    }

    /// Whether the last error was an early end of the bytes.
    pub fn exhausted(&self) -> bool {
        self.exhausted
    }

    fn remaining(&self) -> usize {
        self.bytes.len() - self.position
    }

    fn take(&mut self, count: usize) -> Result<&'a [u8]> {
        if count > self.remaining() {
            self.exhausted = true;
            return Err(Error::corrupt(format!(
                "metadata ends early: {count} more bytes expected, {} found",
                self.remaining()
            )));
        }
        let taken = &self.bytes[self.position..self.position + count];
        self.position += count;
        Ok(taken)
    }

    fn byte(&mut self) -> Result<u8> {
        Ok(self.take(1)?[0])
    }

    fn varint(&mut self) -> Result<u64> {
        let mut value = 0u64;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            value |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Ok(value);
            }
        }
        Err(Error::corrupt("a thrift integer is longer than 64 bits"))
    }

    /// A zigzag integer of any width.
    pub fn i64(&mut self) -> Result<i64> {
        let raw = self.varint()?;
        Ok((raw >> 1).cast_signed() ^ -((raw & 1).cast_signed()))
    }

    /// A zigzag integer that must fit 32 bits.
    pub fn i32(&mut self) -> Result<i32> {
        let value = self.i64()?;
        i32::try_from(value)
            .map_err(|_| Error::corrupt(format!("{value} does not fit a 32-bit field")))
    }

    /// A 32-bit integer that must not be negative; `what` names it in the error.
    pub fn size(&mut self, what: &str) -> Result<usize> {
        let value = self.i32()?;
        usize::try_from(value).map_err(|_| Error::corrupt(format!("{what} is negative: {value}")))
    }

    /// A 64-bit integer that must not be negative; `what` names it in the error.
    pub fn count(&mut self, what: &str) -> Result<u64> {
        let value = self.i64()?;
        u64::try_from(value).map_err(|_| Error::corrupt(format!("{what} is negative: {value}")))
    }

    /// A list of 64-bit counts.
    pub fn counts(&mut self, what: &str) -> Result<Vec<u64>> {
        let count = self.list_of(Wire::I64)?;
        let mut counts = Vec::new();
        for _ in 0..count {
            counts.push(self.count(what)?);
        }
        Ok(counts)
    }

    /// Length-prefixed bytes.
    pub fn binary(&mut self) -> Result<&'a [u8]> {
        let length = self.varint()?;
        let length = usize::try_from(length).unwrap_or(usize::MAX);
        self.take(length)
    }

    /// Length-prefixed UTF-8.
    pub fn string(&mut self) -> Result<&'a str> {
        std::str::from_utf8(self.binary()?)
            .map_err(|_| Error::corrupt("a name in the metadata is not UTF-8"))
    }

    /// The header of a list: element type and count. The count is at most the
    /// bytes that are left, since every element takes at least one.
    pub fn list(&mut self) -> Result<(Wire, usize)> {
        let head = self.byte()?;
        let count = match head >> 4 {
            15 => self.varint()?,
            short => u64::from(short),
        };
        // Some writers give an empty list the type 0.
        let wire = match (head & 0x0f, count) {
            (0, 0) => Wire::Struct,
            (code, _) => Wire::parse(code)?,
        };
        match usize::try_from(count) {
            Ok(count) if count <= self.remaining() => Ok((wire, count)),
            _ => {
                self.exhausted = true;
                Err(Error::corrupt(format!(
                    "a list claims {count} elements with {} bytes left",
                    self.remaining()
                )))
            }
        }
    }

    /// The header of a list whose elements must be of type `wire`.
    pub fn list_of(&mut self, wire: Wire) -> Result<usize> {
        let (kind, count) = self.list()?;
        // Writers use either code for booleans.
        let boolean = |w| matches!(w, Wire::True | Wire::False);
        if kind == wire || (boolean(kind) && boolean(wire)) || count == 0 {
            return Ok(count);
        }
        Err(Error::corrupt(format!(
            "a list of {wire:?} was expected, found a list of {kind:?}"
        )))
    }

    /// Calls `field(id, wire, reader)` for each field of a struct; `field` must
    /// consume the value, by [`Reader::skip`] if it does not know it. A field given
    /// twice is refused: which of them counts is up to the reader.
    pub fn fields(
        &mut self,
        mut field: impl FnMut(i16, Wire, &mut Self) -> Result<()>,
    ) -> Result<()> {
        let (mut id, mut seen) = (0i16, 0u64);
        loop {
            let head = self.byte()?;
            if head == 0 {
                return Ok(());
            }
            let wire = Wire::parse(head & 0x0f)?;
            id = match head >> 4 {
                0 => i16::try_from(self.i64()?).ok(),
                delta => id.checked_add(i16::from(delta)),
            }
            .ok_or_else(|| Error::corrupt("a thrift field number is out of range"))?;
            // The format's own numbers are all small.
            let bit = u32::try_from(id).ok().and_then(|id| 1u64.checked_shl(id));
            if seen & bit.unwrap_or(0) != 0 {
                return Err(Error::corrupt(format!(
                    "field {id} of a thrift structure is there twice"
                )));
            }
            seen |= bit.unwrap_or(0);
            field(id, wire, self)?;
        }
    }

    /// Skips one value of type `wire`.
    pub fn skip(&mut self, wire: Wire) -> Result<()> {
        self.skip_nested(wire, 0)
    }

    fn skip_nested(&mut self, wire: Wire, depth: usize) -> Result<()> {
        if depth > MAX_THRIFT_DEPTH {
            return Err(Error::limit(format!(
                "metadata is nested deeper than {MAX_THRIFT_DEPTH} levels"
            )));
        }
        match wire {
            Wire::True | Wire::False => {}
            Wire::Byte => drop(self.byte()?),
            Wire::I16 | Wire::I32 | Wire::I64 => drop(self.varint()?),
            Wire::Double => drop(self.take(8)?),
            Wire::Uuid => drop(self.take(16)?),
            Wire::Binary => drop(self.binary()?),
            Wire::List | Wire::Set => {
                let (element, count) = self.list()?;
                for _ in 0..count {
                    self.skip_element(element, depth + 1)?;
                }
            }
            Wire::Map => self.skip_map(depth)?,
            Wire::Struct => self.fields(|_, wire, reader| reader.skip_nested(wire, depth + 1))?,
        }
        Ok(())
    }

    fn skip_map(&mut self, depth: usize) -> Result<()> {
        let count = self.varint()?;
        if count == 0 {
            return Ok(());
        }
        let types = self.byte()?;
        let (key, value) = (Wire::parse(types >> 4)?, Wire::parse(types & 0x0f)?);
        for _ in 0..count {
            self.skip_element(key, depth + 1)?;
            self.skip_element(value, depth + 1)?;
        }
        Ok(())
    }

    /// Unlike boolean fields, boolean elements take a byte.
    pub fn skip_element(&mut self, wire: Wire, depth: usize) -> Result<()> {
        match wire {
            Wire::True | Wire::False => self.byte().map(drop),
            _ => self.skip_nested(wire, depth),
        }
    }
}

/// Appends a number, seven bits a byte.
pub fn put_varint(bytes: &mut Vec<u8>, mut value: u64) {
    while value > 0x7F {
        bytes.push(value as u8 | 0x80);
        value >>= 7;
    }
    bytes.push(value as u8);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zigzag_integers_round_trip_known_bytes() {
        for (bytes, value) in [
            (&[0u8][..], 0),
            (&[1], -1),
            (&[2], 1),
            (&[0xac, 0x02], 150),
            (
                &[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1],
                i64::MIN,
            ),
        ] {
            assert_eq!(Reader::new(bytes).i64().unwrap(), value);
        }
    }

    #[test]
    fn an_empty_list_may_be_of_type_0() {
        let mut reader = Reader::new(&[0x00, 0xf0, 0x00, 0x10, 0]);
        assert_eq!(reader.list_of(Wire::Struct).unwrap(), 0);
        reader.skip(Wire::List).unwrap();
        assert_eq!(reader.position(), 3);
        assert!(reader.list().is_err());
    }

    #[test]
    fn a_list_cannot_claim_more_than_the_bytes_left() {
        let mut reader = Reader::new(&[0xf8, 0xff, 0xff, 0xff, 0xff, 0x0f, 1, 2]);
        assert!(reader.list().is_err());
        assert!(reader.exhausted());
    }

    #[test]
    fn a_field_given_twice_is_refused() {
        let read = |bytes: &[u8]| Reader::new(bytes).skip(Wire::Struct);
        // Field 3 twice, the second time by its full number; then 3 and 2.
        assert!(read(&[0x35, 2, 0x05, 6, 4, 0]).is_err());
        assert!(read(&[0x35, 2, 0x05, 4, 4, 0]).is_ok());
        // Inside a struct, and next to one.
        assert!(read(&[0x1c, 0x35, 2, 0x05, 6, 4, 0, 0]).is_err());
        assert!(read(&[0x1c, 0x35, 2, 0, 0x25, 4, 0]).is_ok());
    }

    #[test]
    fn nesting_is_bounded() {
        for (wire, level) in [
            (Wire::List, &[0x19u8][..]), // a list of one list of one list ...
            (Wire::Struct, &[0x1c]),     // a structure whose field 1 is a structure ...
            (Wire::Map, &[1, 0x3b, 7]),  // a map of 7 to a map ...
            (Wire::Map, &[1, 0xb3]),     // a map of a map to a byte ...
        ] {
            let error = Reader::new(&level.repeat(1000)).skip(wire).unwrap_err();
            assert_eq!(error.kind(), crate::Kind::Limit, "{level:?}");
        }
    }

    #[test]
    fn a_number_of_32_bits_is_no_larger() {
        let read = |value: i64| {
            let mut bytes = Vec::new();
            put_varint(&mut bytes, ((value << 1) ^ (value >> 63)).cast_unsigned());
            Reader::new(&bytes).i32().map_err(|error| error.kind())
        };
        for value in [0, -1, i32::MAX, i32::MIN] {
            assert_eq!(read(value.into()), Ok(value));
        }
        for value in [1 << 31, -(1 << 31) - 1, 1 << 32, (1 << 32) + 5, i64::MAX] {
            assert_eq!(read(value), Err(crate::Kind::Corrupt), "{value}");
        }
    }

    #[test]
    fn a_short_struct_is_told_apart_from_a_bad_one() {
        let mut short = Reader::new(&[0x15]);
        assert!(short.skip(Wire::Struct).is_err());
        assert!(short.exhausted());
        let mut bad = Reader::new(&[0x1e, 0, 0]);
        assert!(bad.skip(Wire::Struct).is_err());
        assert!(!bad.exhausted());
    }
}
