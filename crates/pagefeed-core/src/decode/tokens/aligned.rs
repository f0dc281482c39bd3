//! Numbers of any type that come with tokens, one for each: some rows of a run, as bits.

use std::ops::Range;

use parquet::basic::{Encoding, Type as PhysicalType};
use parquet::data_type::{
    DataType, DoubleType, FixedLenByteArrayType, FloatType, Int32Type, Int64Type,
};

use super::integers::plain;
use super::narrow::check_declared;
use super::rows::{Elements, RowReader};
use super::values::decode_values;
use crate::buffers::reserve;
use crate::codec::Codec;
use crate::decode::cursor::{PageCursor, missing_dictionary};
use crate::decode::{PageRun, bounds};
use crate::error::{Error, Result};
use crate::header::PageHeader;
use crate::page::{DataPage, PageOpener};
use crate::schema::Leaf;
use crate::tokens::{NumberType, Numbers, Tokens, mismatch};

/// A decompressed run of pages: where its rows begin, and encoded values, of which any
/// rows can be decoded alone.
#[derive(Debug)]
pub struct OpenedRun {
    /// First value of each row, and the end of the last row.
    offsets: Vec<u32>,
    pages: Vec<PageValues>,
    /// The inner lists of lists of lists.
    elements: Option<Elements>,
}

/// The values of one page of a run.
#[derive(Debug)]
struct PageValues {
    header: PageHeader,
    values: Vec<u8>,
    /// Number of leading values that belong to no row of the run.
    skipped: usize,
    /// The other values, as numbered in the run.
    range: Range<usize>,
}

impl PageValues {
    fn as_page(&self) -> DataPage<'_> {
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
        let mut pages = Vec::new();
        while let Some(stored) = cursor.next()? {
            let open = cursor.open(opener, &stored)?;
            bounds::decoded_size(&open.page, leaf, open.num_present, None)?;
            let before = rows.num_values;
            rows.read(&open)?;
            let mut values = Vec::new();
            reserve(&mut values, open.page.values.len())?;
            values.extend_from_slice(open.page.values);
            pages.push(PageValues {
                values,
                skipped: open.values.start,
                range: before..rows.num_values,
                header: stored.header,
            });
        }
        cursor.finish(opener)?;
        rows.finish()?;
        Ok(Self {
            offsets: rows.offsets,
            elements: rows.elements,
            pages,
        })
    }

    /// Values of all its rows.
    pub fn num_values(&self) -> u64 {
        self.offsets.last().copied().unwrap_or(0).into()
    }

    /// Memory it takes.
    pub fn num_bytes(&self) -> usize {
        let values = self.pages.iter().map(|page| page.values.capacity());
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
    /// For lists of lists: first value of each inner list, and the number of values.
    pub starts: Vec<u32>,
    /// First inner list of each row, and the number of inner lists.
    pub row_starts: Vec<u32>,
}

impl NumberRows {
    /// No rows yet.
    pub fn new(number: NumberType) -> Self {
        Self {
            values: Numbers::new(number.num_bytes(), Numbers::default()),
            offsets: vec![0],
            starts: vec![0],
            row_starts: vec![0],
        }
    }

    /// Appends `rows` of a run. `dictionary` is the dictionary of its pages, by
    /// [`decode_number_dictionary`].
    pub fn append(
        &mut self,
        run: &OpenedRun,
        dictionary: Option<&Tokens>,
        leaf: &Leaf,
        rows: Range<usize>,
    ) -> Result<()> {
        let wanted = run.offsets.get(rows.start..=rows.end).ok_or_else(|| {
            Error::internal("rows were asked for that the run of pages does not have")
        })?;
        let (Some(&first), Some(&last)) = (wanted.first(), wanted.last()) else {
            return Ok(());
        };
        for page in &run.pages {
            let begin = (first as usize).clamp(page.range.start, page.range.end);
            let end = (last as usize).clamp(begin, page.range.end);
            let own = |value: usize| page.skipped + value - page.range.start;
            self.append_values(&page.as_page(), leaf, own(begin)..own(end), dictionary)?;
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

    /// Appends the inner lists of rows, whose `values` follow `before` earlier ones.
    fn append_elements(
        &mut self,
        elements: &Elements,
        rows: Range<usize>,
        values: Range<u32>,
        before: u32,
    ) -> Result<()> {
        let wrong = || Error::internal("the lists of a run of pages do not fit its rows");
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
            _ => self.append_encoded(page, leaf, &values),
        }
    }

    /// Appends values in an encoding that only the `parquet` crate decodes.
    fn append_encoded(
        &mut self,
        page: &DataPage<'_>,
        leaf: &Leaf,
        values: &Range<usize>,
    ) -> Result<()> {
        let out = &mut self.values;
        match leaf.physical {
            PhysicalType::INT64 => {
                append_decoded::<Int64Type>(page, leaf, values, out, |number| *number)
            }
            PhysicalType::INT32 => {
                append_decoded::<Int32Type>(page, leaf, values, out, |&number| number.into())
            }
            PhysicalType::DOUBLE => {
                append_decoded::<DoubleType>(page, leaf, values, out, |number| {
                    number.to_bits().cast_signed()
                })
            }
            PhysicalType::FLOAT => append_decoded::<FloatType>(page, leaf, values, out, |number| {
                number.to_bits().cast_signed().into()
            }),
            PhysicalType::FIXED_LEN_BYTE_ARRAY => {
                append_decoded::<FixedLenByteArrayType>(page, leaf, values, out, |number| {
                    let own = number.data().first_chunk();
                    own.map_or(0, |&own| u16::from_le_bytes(own).into())
                })
            }
            _ => Err(mismatch()),
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
    let mut table = Numbers::new(number.num_bytes(), Numbers::default());
    append_plain(bytes, leaf, 0..num_values, &mut table)?;
    Ok(table.into_table())
}

/// Appends some of the numbers of `bytes`.
fn append_plain(bytes: &[u8], leaf: &Leaf, values: Range<usize>, out: &mut Numbers) -> Result<()> {
    match leaf.physical {
        PhysicalType::INT64 | PhysicalType::DOUBLE => {
            out.extend(plain(bytes, values, i64::from_le_bytes)?, 0)
        }
        PhysicalType::INT32 | PhysicalType::FLOAT => {
            let numbers = plain(bytes, values, |own| i64::from(i32::from_le_bytes(own)))?;
            check_declared(leaf, numbers.clone())?;
            out.extend(numbers, 0)
        }
        PhysicalType::FIXED_LEN_BYTE_ARRAY => out.extend(
            plain(bytes, values, |own| i64::from(u16::from_le_bytes(own)))?,
            0,
        ),
        _ => Err(mismatch()),
    }
}

/// Appends values in any other encoding, with the decoders of the `parquet` crate and
/// the `bits` of each value.
fn append_decoded<D: DataType>(
    page: &DataPage<'_>,
    leaf: &Leaf,
    values: &Range<usize>,
    out: &mut Numbers,
    bits: impl Fn(&D::T) -> i64 + Clone,
) -> Result<()> {
    let (end, mut before) = (values.end, 0);
    decode_values::<D>(page, end, leaf, |some| {
        let skipped = values.start.saturating_sub(before).min(some.len());
        before += some.len();
        let numbers = some[skipped..].iter().map(bits.clone());
        check_declared(leaf, numbers.clone())?;
        out.extend(numbers, end.saturating_sub(before))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Kind;
    use crate::decode::tests::{StoredPage, leaf};
    use crate::limits::limit_pages;

    #[test]
    fn a_run_is_opened_if_all_its_values_are_there_and_not_too_many() {
        let leaf = leaf("required int64 x;", 0);
        let kind = |dictionary, num_values: usize, values: &[u8]| {
            let page = StoredPage {
                version_2: false,
                snappy: false,
                dictionary,
            };
            let run = PageRun {
                data: page.claim(&leaf, num_values, values).into(),
                dictionary: None,
                codec: Codec::Uncompressed,
                starts_mid_record: false,
                first_row: 0,
                num_rows: num_values as u64,
                tail_size: 0,
            };
            let opened = OpenedRun::open(&mut PageOpener::default(), &run, &leaf);
            opened
                .map(|run| run.num_values())
                .map_err(|error| error.kind())
        };
        assert_eq!(kind(false, 5, &[0; 40]), Ok(5));
        assert_eq!(kind(false, 6, &[0; 40]), Err(Kind::Corrupt));
        // A thousand times entry 1, in five bytes.
        let indices = [1, 0xd0, 0x0f, 1];
        assert_eq!(kind(true, 1000, &indices), Ok(1000));
        assert_eq!(kind(true, 1001, &indices), Err(Kind::Corrupt));
        limit_pages(7999);
        assert_eq!(kind(true, 1000, &indices), Err(Kind::Limit));
        limit_pages(8000);
        assert_eq!(kind(true, 1000, &indices), Ok(1000));
        limit_pages(usize::MAX);
    }
}
