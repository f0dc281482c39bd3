//! Numbers of any type that come with tokens, one for each: some rows of a run, as bits.

use std::ops::Range;

use arrow_schema::DataType;
use parquet::basic::{Encoding, Type as PhysicalType};
use parquet::data_type::{
    DoubleType, FixedLenByteArray, FixedLenByteArrayType, FloatType, Int32Type, Int64Type,
};

use super::elements::Elements;
use super::held::Numbers;
use super::integers::{mismatch, reserve};
use super::narrow::check_declared;
use super::numbers::Tokens;
use super::rows::RowReader;
use super::values::decode_values;
use crate::codec::Codec;
use crate::decode::cursor::{PageCursor, missing_dictionary};
use crate::decode::encodings::unpack::BATCH;
use crate::decode::{PageRun, bounds};
use crate::error::{Error, Result};
use crate::header::PageHeader;
use crate::page::{DataPage, PageOpener};
use crate::schema::Leaf;

/// A type of numbers, which are held and copied as bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NumberType {
    name: &'static str,
    num_bytes: usize,
}

impl NumberType {
    /// The type of a column's values, be they in lists or structs of nothing else; `None` if they are no numbers.
    pub fn of(data_type: &DataType) -> Option<Self> {
        match data_type {
            DataType::List(item) | DataType::LargeList(item) | DataType::FixedSizeList(item, _) => {
                Self::of(item.data_type())
            }
            // A path leads through structs of what it names alone.
            DataType::Struct(fields) if fields.len() == 1 => Self::of(fields[0].data_type()),
            _ => {
                let (name, own) = NUMBERS.iter().find(|(_, own)| own == data_type)?;
                let num_bytes = own.primitive_width()?;
                Some(Self { name, num_bytes })
            }
        }
    }

    /// The type of a name that NumPy has for it.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::of(&data_type(name)?)
    }

    /// The same of Arrow.
    pub fn data_type(self) -> DataType {
        data_type(self.name).unwrap_or(DataType::Null)
    }

    /// Its name in NumPy.
    pub fn name(self) -> &'static str {
        self.name
    }

    /// Bytes of a number.
    pub fn num_bytes(self) -> usize {
        self.num_bytes
    }
}

/// The types of numbers, by the names that NumPy has for them.
const NUMBERS: [(&str, DataType); 11] = [
    ("int8", DataType::Int8),
    ("int16", DataType::Int16),
    ("int32", DataType::Int32),
    ("int64", DataType::Int64),
    ("uint8", DataType::UInt8),
    ("uint16", DataType::UInt16),
    ("uint32", DataType::UInt32),
    ("uint64", DataType::UInt64),
    ("float16", DataType::Float16),
    ("float32", DataType::Float32),
    ("float64", DataType::Float64),
];

/// The type of Arrow that NumPy has a name for.
fn data_type(name: &str) -> Option<DataType> {
    let found = NUMBERS.iter().find(|(own, _)| *own == name);
    found.map(|(_, data_type)| data_type.clone())
}

/// A run of pages, decompressed: where its rows begin, and the values as they are
/// encoded, of which any rows are decoded at their own cost.
#[derive(Debug)]
pub struct OpenedRun {
    /// First value of each row, and the end of the last.
    offsets: Vec<u32>,
    pieces: Vec<Piece>,
    /// Of lists of lists, the inner ones.
    elements: Option<Elements>,
}

/// The values of one page of a run.
#[derive(Debug)]
struct Piece {
    header: PageHeader,
    values: Vec<u8>,
    /// How many of them belong to no row of the run.
    skipped: usize,
    /// Which the others are of those of the run.
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
        let mut cursor = PageCursor::new(leaf, run, 0..run.num_rows);
        let mut rows = RowReader::new(&cursor, Vec::new())?.of_lists();
        let mut pieces = Vec::new();
        while let Some(stored) = cursor.next()? {
            let open = cursor.open(opener, &stored)?;
            bounds::decoded_size(&open.page, leaf, open.num_present, None)?;
            let before = rows.num_values;
            rows.read(&open)?;
            let mut values = Vec::new();
            reserve(&mut values, open.page.values.len())?;
            values.extend_from_slice(open.page.values);
            pieces.push(Piece {
                values,
                skipped: open.values.start,
                place: before..rows.num_values,
                header: stored.header,
            });
        }
        cursor.finish(opener)?;
        rows.finish()?;
        Ok(Self {
            offsets: rows.offsets,
            elements: rows.elements,
            pieces,
        })
    }

    /// Values of all its rows.
    pub fn num_values(&self) -> u64 {
        self.offsets.last().copied().unwrap_or(0).into()
    }

    /// Memory it takes.
    pub fn num_bytes(&self) -> usize {
        let values = self.pieces.iter().map(|piece| piece.values.capacity());
        let elements = self.elements.as_ref().map_or(0, Elements::num_bytes);
        values.sum::<usize>() + self.offsets.capacity() * size_of::<u32>() + elements
    }
}

/// Numbers of rows of one or several runs, on their way.
#[derive(Debug)]
pub struct NumberRows {
    /// The numbers of all rows.
    pub values: Numbers,
    /// First value of each row, and the number of values.
    pub offsets: Vec<u32>,
    /// Of lists of lists, the inner ones: first value of each, and the number of values.
    pub starts: Vec<u32>,
    /// The first of these of each row, and their number.
    pub row_starts: Vec<u32>,
}

impl NumberRows {
    /// No rows yet; `recycle` is memory to use.
    pub fn new(number: NumberType, recycle: Numbers) -> Self {
        Self {
            values: Numbers::new(number.num_bytes, recycle),
            offsets: vec![0],
            starts: vec![0],
            row_starts: vec![0],
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
            .ok_or_else(|| Error::internal("rows that a run of pages does not have"))?;
        let (Some(&first), Some(&last)) = (wanted.first(), wanted.last()) else {
            return Ok(());
        };
        for piece in &run.pieces {
            let begin = (first as usize).clamp(piece.place.start, piece.place.end);
            let end = (last as usize).clamp(begin, piece.place.end);
            let own = |value: usize| piece.skipped + value - piece.place.start;
            self.append_values(&piece.page(), leaf, own(begin)..own(end), dictionary)?;
        }
        let before = self.offsets.last().copied().unwrap_or(0);
        for end in wanted.iter().skip(1) {
            let end = before.checked_add(end - first).ok_or_else(too_many)?;
            self.offsets.push(end);
        }
        match &run.elements {
            Some(elements) => self.append_elements(elements, rows, first..last, before),
            None => Ok(()),
        }
    }

    /// Appends the inner lists of rows, whose `values` come behind `before` others.
    fn append_elements(
        &mut self,
        elements: &Elements,
        rows: Range<usize>,
        values: Range<u32>,
        before: u32,
    ) -> Result<()> {
        let wrong = || Error::internal("the lists of a run are not those of its rows");
        let wanted = elements.rows.get(rows.start..=rows.end).ok_or_else(wrong)?;
        let (Some(&first), Some(&last)) = (wanted.first(), wanted.last()) else {
            return Ok(());
        };
        let starts = elements
            .starts
            .get(first as usize..last as usize)
            .ok_or_else(wrong)?;
        let num_before = self.starts.len() as u32 - 1;
        reserve(&mut self.starts, starts.len())?;
        let ends = starts
            .iter()
            .skip(1)
            .chain((!starts.is_empty()).then_some(&values.end));
        self.starts
            .extend(ends.map(|end| before + (end - values.start)));
        let shift = |number: &u32| number - first + num_before;
        self.row_starts.extend(wanted.iter().skip(1).map(shift));
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
        match page.header.encoding() {
            Some(Encoding::PLAIN) => append_plain(page.values, leaf, values, &mut self.values),
            Some(Encoding::RLE_DICTIONARY) => {
                let table = dictionary.ok_or_else(missing_dictionary)?;
                self.values.look_up(page.values, values, table)
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
    let mut table = Numbers::new(number.num_bytes, Numbers::default());
    append_plain(bytes, leaf, 0..num_values, &mut table)?;
    Ok(table.into_table())
}

/// Appends some of the numbers of `bytes`.
fn append_plain(bytes: &[u8], leaf: &Leaf, values: Range<usize>, out: &mut Numbers) -> Result<()> {
    match leaf.physical {
        PhysicalType::INT64 | PhysicalType::DOUBLE => {
            append_parsed(plain(bytes, values)?, i64::from_le_bytes, |some, more| {
                out.extend(some, more)
            })
        }
        PhysicalType::INT32 | PhysicalType::FLOAT => {
            append_parsed(plain(bytes, values)?, i32::from_le_bytes, |some, more| {
                extend_halves(some, more, leaf, out)
            })
        }
        PhysicalType::FIXED_LEN_BYTE_ARRAY => {
            append_parsed(plain(bytes, values)?, u16::from_le_bytes, |some, more| {
                out.extend(some, more)
            })
        }
        _ => Err(mismatch()),
    }
}

/// Calls `each` with some of the numbers at a time, and how many will follow.
fn append_parsed<T: Copy + Default, const SIZE: usize>(
    numbers: &[[u8; SIZE]],
    parse: impl Fn([u8; SIZE]) -> T,
    mut each: impl FnMut(&[T], usize) -> Result<()>,
) -> Result<()> {
    let mut buffer = [T::default(); BATCH];
    let mut more = numbers.len();
    for some in numbers.chunks(BATCH) {
        more -= some.len();
        for (to, &number) in buffer.iter_mut().zip(some) {
            *to = parse(number);
        }
        each(&buffer[..some.len()], more)?;
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

/// Appends numbers that are stored in 32 bits, also where their type has fewer.
fn extend_halves(numbers: &[i32], more: usize, leaf: &Leaf, out: &mut Numbers) -> Result<()> {
    if out.width() > 2 {
        return out.extend(numbers, more);
    }
    check_declared(leaf, numbers)?;
    let narrow: Vec<u16> = numbers.iter().map(|&number| number as u16).collect();
    out.extend(&narrow, more)
}

/// Values in any other encoding, by the `parquet` crate's decoders.
fn append_decoded(
    page: &DataPage<'_>,
    leaf: &Leaf,
    values: &Range<usize>,
    out: &mut Numbers,
) -> Result<()> {
    let (end, mut before) = (values.end, 0);
    // The part of some of the values that is wanted, and how many of these will follow.
    let mut wanted = |count: usize| {
        let skipped = values.start.saturating_sub(before).min(count);
        before += count;
        (skipped..count, end.saturating_sub(before))
    };
    match leaf.physical {
        PhysicalType::INT64 => decode_values::<Int64Type>(page, end, leaf, |some| {
            let (own, more) = wanted(some.len());
            out.extend(&some[own], more)
        }),
        PhysicalType::INT32 => decode_values::<Int32Type>(page, end, leaf, |some| {
            let (own, more) = wanted(some.len());
            extend_halves(&some[own], more, leaf, out)
        }),
        PhysicalType::DOUBLE => decode_values::<DoubleType>(page, end, leaf, |some| {
            let (own, more) = wanted(some.len());
            let bits = |number: &f64| number.to_bits().cast_signed();
            out.extend(&some[own].iter().map(bits).collect::<Vec<i64>>(), more)
        }),
        PhysicalType::FLOAT => decode_values::<FloatType>(page, end, leaf, |some| {
            let (own, more) = wanted(some.len());
            let bits = |number: &f32| number.to_bits().cast_signed();
            out.extend(&some[own].iter().map(bits).collect::<Vec<i32>>(), more)
        }),
        PhysicalType::FIXED_LEN_BYTE_ARRAY => {
            decode_values::<FixedLenByteArrayType>(page, end, leaf, |some| {
                let (own, more) = wanted(some.len());
                let bits = |number: &FixedLenByteArray| {
                    let bytes = number.data().first_chunk();
                    bytes.copied().map(u16::from_le_bytes)
                };
                let bits: Option<Vec<u16>> = some[own].iter().map(bits).collect();
                out.extend(&bits.ok_or_else(mismatch)?, more)
            })
        }
        _ => Err(mismatch()),
    }
}
