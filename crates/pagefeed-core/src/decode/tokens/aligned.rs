//! Numbers of any type that come with tokens, one for each: some rows of a run, as bits.

use std::ops::Range;

use arrow_schema::DataType;
use parquet::basic::{Encoding, Type as PhysicalType};
use parquet::data_type::{DoubleType, FixedLenByteArrayType, FloatType, Int32Type, Int64Type};

use super::integers::{mismatch, missing_dictionary, reserve};
use super::narrow::check_declared;
use super::numbers::{Tokens, with_values};
use super::rows::RowReader;
use super::values::decode_values;
use super::{DataPages, wrong_rows};
use crate::codec::Codec;
use crate::decode::encodings::indices::{Part, for_each_part};
use crate::decode::{PageRun, bounds};
use crate::error::{Error, Result};
use crate::header::PageHeader;
use crate::levels::{Definitions, num_levels};
use crate::page::{DataPage, PageOpener};
use crate::schema::Leaf;

/// A type of numbers. They are kept and copied as bits: in [`Tokens`] of their width,
/// 16-bit ones for those of 8.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NumberType {
    name: &'static str,
    num_bytes: usize,
}

impl NumberType {
    /// The type of a column's values, be they in lists or structs of nothing else; `None` if they are no numbers.
    pub fn of(data_type: &DataType) -> Option<Self> {
        let name = match data_type {
            DataType::List(item) | DataType::LargeList(item) | DataType::FixedSizeList(item, _) => {
                return Self::of(item.data_type());
            }
            // A path leads through structs of what it names alone.
            DataType::Struct(fields) if fields.len() == 1 => {
                return Self::of(fields[0].data_type());
            }
            DataType::Int8 => "int8",
            DataType::Int16 => "int16",
            DataType::Int32 => "int32",
            DataType::Int64 => "int64",
            DataType::UInt8 => "uint8",
            DataType::UInt16 => "uint16",
            DataType::UInt32 => "uint32",
            DataType::UInt64 => "uint64",
            DataType::Float16 => "float16",
            DataType::Float32 => "float32",
            DataType::Float64 => "float64",
            _ => return None,
        };
        let num_bytes = data_type.primitive_width()?;
        Some(Self { name, num_bytes })
    }

    /// Its name in NumPy.
    pub fn name(self) -> &'static str {
        self.name
    }

    /// Bytes of a number.
    pub fn num_bytes(self) -> usize {
        self.num_bytes
    }

    /// None yet, in the memory of others if they are kept alike.
    fn cleared(self, recycle: Tokens) -> Tokens {
        let mut tokens = match (self.num_bytes, recycle) {
            (8, tokens @ Tokens::I64(_)) | (4, tokens @ Tokens::I32(_)) => tokens,
            (1 | 2, tokens @ Tokens::U16(_)) => tokens,
            (8, _) => Tokens::I64(Vec::new()),
            (4, _) => Tokens::I32(Vec::new()),
            _ => Tokens::U16(Vec::new()),
        };
        tokens.clear();
        tokens
    }
}

/// A run of pages, decompressed: where its rows begin, and the values as they are
/// encoded, of which any rows are decoded at their own cost.
#[derive(Debug)]
pub struct OpenedRun {
    /// First value of each row, and the end of the last.
    offsets: Vec<u32>,
    pieces: Vec<Piece>,
}

/// The values of one page of a run.
#[derive(Debug)]
struct Piece {
    header: PageHeader,
    values: Vec<u8>,
    /// Which they are of those of the run.
    place: Range<usize>,
}

impl Piece {
    fn page(&self) -> DataPage<'_> {
        DataPage {
            header: &self.header,
            repetition: &[],
            definition: &[],
            values: &self.values,
            is_takeable: false,
        }
    }
}

impl OpenedRun {
    /// Decompresses the pages of a run and reads their levels.
    pub fn open(opener: &mut PageOpener, run: &PageRun, leaf: &Leaf) -> Result<Self> {
        let mut reader = RowReader::new(leaf, run, Vec::new())?;
        let (mut pages, mut pieces) = (DataPages::new(&run.data), Vec::new());
        while let Some((header, stored)) = pages.next()? {
            if reader.is_done() {
                break;
            }
            let is_tail = pages.is_in_tail(run);
            if is_tail && reader.num_begun() < run.num_rows {
                return Err(wrong_rows(reader.num_begun(), run.num_rows));
            }
            let page = opener.data_page(&header, stored, run.codec, leaf)?;
            let present = Definitions::new(&page, leaf)?.advance(num_levels(&page)?)?;
            bounds::decoded_size(&page, leaf, present.present, None)?;
            let before = reader.num_values;
            let after = before + reader.read(&page)?;
            if reader.is_done() && !is_tail {
                return Err(wrong_rows("more", run.num_rows));
            }
            let mut values = Vec::new();
            reserve(&mut values, page.values.len())?;
            values.extend_from_slice(page.values);
            pieces.push(Piece {
                values,
                place: before..after,
                header,
            });
        }
        reader.finish()?;
        let offsets = reader.offsets;
        Ok(Self { offsets, pieces })
    }

    /// Values of all its rows.
    pub fn num_values(&self) -> u64 {
        let ends = self.offsets.first().zip(self.offsets.last());
        ends.map_or(0, |(&first, &last)| u64::from(last - first))
    }

    /// Memory it takes.
    pub fn num_bytes(&self) -> usize {
        let values = self.pieces.iter().map(|piece| piece.values.capacity());
        values.sum::<usize>() + self.offsets.capacity() * size_of::<u32>()
    }
}

/// Numbers of rows of one or several runs, on their way.
#[derive(Debug)]
pub struct NumberRows {
    /// The numbers of all rows.
    pub values: Tokens,
    /// First value of each row, and the number of values.
    pub offsets: Vec<u32>,
}

impl NumberRows {
    /// No rows yet; `recycle` is memory to use.
    pub fn new(number: NumberType, recycle: Tokens) -> Self {
        Self {
            values: number.cleared(recycle),
            offsets: vec![0],
        }
    }

    /// Appends `rows` of those of a run. `dictionary` is what its pages refer to, by
    /// [`decode_number_dictionary`].
    pub fn append(
        &mut self,
        run: &OpenedRun,
        dictionary: Option<&Tokens>,
        leaf: &Leaf,
        rows: Range<usize>,
    ) -> Result<()> {
        let wanted = run
            .offsets
            .get(rows.start..=rows.end)
            .ok_or_else(|| wrong_rows(run.offsets.len().saturating_sub(1), rows.end as u64))?;
        let (Some(&first), Some(&last)) = (wanted.first(), wanted.last()) else {
            return Ok(());
        };
        for piece in &run.pieces {
            let begin = (first as usize).clamp(piece.place.start, piece.place.end);
            let end = (last as usize).clamp(begin, piece.place.end);
            let values = begin - piece.place.start..end - piece.place.start;
            self.append_values(&piece.page(), leaf, values, dictionary)?;
        }
        let before = self.offsets.last().copied().unwrap_or(0);
        for end in wanted.iter().skip(1) {
            let end = before.checked_add(end - first).ok_or_else(too_many)?;
            self.offsets.push(end);
        }
        Ok(())
    }

    /// Appends some of the values of a page.
    fn append_values(
        &mut self,
        page: &DataPage<'_>,
        leaf: &Leaf,
        values: Range<usize>,
        dictionary: Option<&Tokens>,
    ) -> Result<()> {
        if values.is_empty() {
            return Ok(());
        }
        with_values!(&mut self.values, out => reserve(out, values.len()))?;
        match page.header.encoding() {
            Some(Encoding::PLAIN) => append_plain(page.values, leaf, values, &mut self.values),
            Some(Encoding::RLE_DICTIONARY) => {
                let table = dictionary.ok_or_else(missing_dictionary)?;
                match (table, &mut self.values) {
                    (Tokens::I64(table), Tokens::I64(out)) => look_up(page, values, table, out),
                    (Tokens::I32(table), Tokens::I32(out)) => look_up(page, values, table, out),
                    (Tokens::U16(table), Tokens::U16(out)) => look_up(page, values, table, out),
                    _ => Err(mismatch()),
                }
            }
            _ => append_decoded(page, leaf, &values, &mut self.values),
        }
    }
}

fn too_many() -> Error {
    Error::limit("a page holds more than 2^32 values")
}

/// Decodes the dictionary page of a leaf of numbers.
pub fn decode_number_dictionary(
    opener: &mut PageOpener,
    page: &[u8],
    codec: Codec,
    leaf: &Leaf,
    number: NumberType,
) -> Result<Tokens> {
    let (num_values, bytes) = opener.dictionary_page(page, codec)?;
    bounds::check_dictionary(bytes, num_values, leaf)?;
    let mut table = number.cleared(Tokens::default());
    with_values!(&mut table, table => reserve(table, num_values))?;
    append_plain(bytes, leaf, 0..num_values, &mut table)?;
    Ok(table)
}

fn append_plain(bytes: &[u8], leaf: &Leaf, values: Range<usize>, out: &mut Tokens) -> Result<()> {
    match (leaf.physical, out) {
        (PhysicalType::INT64 | PhysicalType::DOUBLE, Tokens::I64(out)) => {
            out.extend(plain(bytes, values)?.iter().map(|&n| i64::from_le_bytes(n)));
        }
        (PhysicalType::INT32 | PhysicalType::FLOAT, Tokens::I32(out)) => {
            out.extend(plain(bytes, values)?.iter().map(|&n| i32::from_le_bytes(n)));
        }
        (PhysicalType::INT32, Tokens::U16(out)) => {
            let numbers = plain(bytes, values)?.iter();
            let numbers: Vec<i32> = numbers.map(|&n| i32::from_le_bytes(n)).collect();
            narrow(&numbers, leaf, out)?;
        }
        (PhysicalType::FIXED_LEN_BYTE_ARRAY, Tokens::U16(out)) => {
            out.extend(plain(bytes, values)?.iter().map(|&n| u16::from_le_bytes(n)));
        }
        _ => return Err(mismatch()),
    }
    Ok(())
}

/// Some of the numbers of `bytes`.
fn plain<const SIZE: usize>(bytes: &[u8], values: Range<usize>) -> Result<&[[u8; SIZE]]> {
    let (numbers, _) = bytes.as_chunks::<SIZE>();
    let end = values.end;
    numbers
        .get(values)
        .ok_or_else(|| bounds::damaged_plain(end, bytes.len()))
}

/// Appends numbers of 8 or 16 bits, which are stored in 32.
fn narrow(numbers: &[i32], leaf: &Leaf, out: &mut Vec<u16>) -> Result<()> {
    check_declared(leaf, numbers)?;
    out.extend(numbers.iter().map(|&number| number as u16));
    Ok(())
}

fn look_up<T: Copy>(
    page: &DataPage<'_>,
    values: Range<usize>,
    table: &[T],
    out: &mut Vec<T>,
) -> Result<()> {
    for_each_part(page.values, values, table.len(), |part| {
        match part {
            Part::Repeated { index, count } => {
                out.resize(out.len() + count, table[index as usize]);
            }
            Part::Batch(indices) => out.extend(indices.iter().map(|&i| table[i as usize])),
        }
        Ok(())
    })
}

/// Values in any other encoding, by the `parquet` crate's decoders.
fn append_decoded(
    page: &DataPage<'_>,
    leaf: &Leaf,
    values: &Range<usize>,
    out: &mut Tokens,
) -> Result<()> {
    let (end, mut before) = (values.end, 0);
    // The part of some of the values that is wanted.
    let mut wanted = |count: usize| {
        let skipped = values.start.saturating_sub(before).min(count);
        before += count;
        skipped..count
    };
    match (leaf.physical, out) {
        (PhysicalType::INT64, Tokens::I64(out)) => {
            decode_values::<Int64Type>(page, end, leaf, |some| {
                out.extend_from_slice(&some[wanted(some.len())]);
                Ok(())
            })
        }
        (PhysicalType::DOUBLE, Tokens::I64(out)) => {
            decode_values::<DoubleType>(page, end, leaf, |some| {
                let some = some[wanted(some.len())].iter();
                out.extend(some.map(|number| number.to_bits().cast_signed()));
                Ok(())
            })
        }
        (PhysicalType::INT32, Tokens::I32(out)) => {
            decode_values::<Int32Type>(page, end, leaf, |some| {
                out.extend_from_slice(&some[wanted(some.len())]);
                Ok(())
            })
        }
        (PhysicalType::INT32, Tokens::U16(out)) => {
            decode_values::<Int32Type>(page, end, leaf, |some| {
                narrow(&some[wanted(some.len())], leaf, out)
            })
        }
        (PhysicalType::FLOAT, Tokens::I32(out)) => {
            decode_values::<FloatType>(page, end, leaf, |some| {
                let some = some[wanted(some.len())].iter();
                out.extend(some.map(|number| number.to_bits().cast_signed()));
                Ok(())
            })
        }
        (PhysicalType::FIXED_LEN_BYTE_ARRAY, Tokens::U16(out)) => {
            decode_values::<FixedLenByteArrayType>(page, end, leaf, |some| {
                for number in &some[wanted(some.len())] {
                    let bytes = number.data().first_chunk().ok_or_else(mismatch)?;
                    out.push(u16::from_le_bytes(*bytes));
                }
                Ok(())
            })
        }
        _ => Err(mismatch()),
    }
}
