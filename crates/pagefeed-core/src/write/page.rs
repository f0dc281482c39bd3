//! One page: levels, values, checksum and header.

use crc32fast::hash;

use super::runs::Runs;
use crate::codec::Codec;
use crate::codec::compress::Compressor;
use crate::error::{Error, Result};
use crate::thrift::{Wire, put_varint};

/// Rows on their way into a page.
#[derive(Debug, Default)]
pub struct Rows {
    /// Their values, one after the other.
    pub values: Vec<u32>,
    /// Number of values of each.
    pub counts: Vec<u32>,
}

/// What is known of a page.
#[derive(Debug)]
pub struct Page {
    /// Bytes, with its header.
    pub size: usize,
    /// Rows.
    pub num_rows: usize,
    /// Rows without values.
    pub num_empty: usize,
    /// Values.
    pub num_values: usize,
    /// Bytes of header and page before it was compressed.
    pub uncompressed_size: usize,
    /// The least and the largest value; `None` if there is none.
    pub bounds: Option<(u32, u32)>,
}

/// Makes pages of rows; one per thread.
#[derive(Default)]
pub struct PageMaker {
    compressor: Compressor,
    repetitions: Runs,
    definitions: Runs,
    plain: Vec<u8>,
    stored: Vec<u8>,
}

impl PageMaker {
    /// Appends a page to `output`; values are compared as numbers with a sign if
    /// `is_signed`.
    pub fn make(
        &mut self,
        rows: &Rows,
        codec: Codec,
        is_signed: bool,
        output: &mut Vec<u8>,
    ) -> Result<Page> {
        let mut num_empty = 0;
        for &count in &rows.counts {
            let count = count as usize;
            num_empty += usize::from(count == 0);
            self.repetitions.push(0, 1);
            self.repetitions.push(1, count.saturating_sub(1));
            self.definitions.push(u8::from(count > 0), count.max(1));
        }
        self.plain.clear();
        self.repetitions.drain_into(&mut self.plain);
        self.definitions.drain_into(&mut self.plain);
        put_values(&rows.values, &mut self.plain);
        self.stored.clear();
        self.compressor
            .compress(codec, &self.plain, &mut self.stored)?;
        let num_levels = rows.values.len() + num_empty;
        let header = header(&self.plain, &self.stored, num_levels)?;
        output.extend_from_slice(&header);
        output.extend_from_slice(&self.stored);
        Ok(Page {
            size: header.len() + self.stored.len(),
            num_rows: rows.counts.len(),
            num_empty,
            num_values: rows.values.len(),
            uncompressed_size: header.len() + self.plain.len(),
            bounds: bounds(&rows.values, is_signed),
        })
    }
}

/// Appends values plainly: four bytes each, little endian.
fn put_values(values: &[u32], page: &mut Vec<u8>) {
    let begin = page.len();
    page.resize(begin + size_of_val(values), 0);
    let places = page[begin..].as_chunks_mut::<4>().0;
    for (place, value) in places.iter_mut().zip(values) {
        *place = value.to_le_bytes();
    }
}

fn bounds(values: &[u32], is_signed: bool) -> Option<(u32, u32)> {
    // Numbers with a sign are ordered as those without, once it is turned.
    let turned = u32::from(is_signed) << 31;
    let (mut least, mut largest) = (u32::MAX, 0);
    for value in values {
        least = least.min(value ^ turned);
        largest = largest.max(value ^ turned);
    }
    (!values.is_empty()).then_some((least ^ turned, largest ^ turned))
}

/// A `PageHeader` of a data page of version 1, in Thrift's compact protocol.
fn header(plain: &[u8], stored: &[u8], num_levels: usize) -> Result<Vec<u8>> {
    // Encodings, and the kind of page, by their numbers in the format.
    const DATA_PAGE: i64 = 0;
    const PLAIN: i64 = 0;
    const RLE: i64 = 3;
    let size = |size: usize| {
        let too_large = |_| Error::limit(format!("a page of {size} bytes: 2**31 - 1 are the most"));
        i32::try_from(size).map(i64::from).map_err(too_large)
    };
    let checksum = i64::from(hash(stored).cast_signed());
    let mut bytes = Vec::with_capacity(64);
    put_numbers(
        &mut bytes,
        &[DATA_PAGE, size(plain.len())?, size(stored.len())?, checksum],
    );
    bytes.push(1 << 4 | Wire::Struct.code());
    put_numbers(&mut bytes, &[size(num_levels)?, PLAIN, RLE, RLE]);
    bytes.extend_from_slice(&[0, 0]);
    Ok(bytes)
}

/// Appends fields from the first on, each a number of 32 bits.
fn put_numbers(bytes: &mut Vec<u8>, numbers: &[i64]) {
    for &number in numbers {
        bytes.push(1 << 4 | Wire::I32.code());
        put_varint(bytes, (number << 1 ^ number >> 63).cast_unsigned());
    }
}
