//! One page: levels, values, checksum and header.

use crc32fast::hash;

use super::runs::Runs;
use crate::codec::Codec;
use crate::codec::compress::Compressor;
use crate::error::{Error, Result};
use crate::simd::vectorized;
use crate::thrift::{Wire, put_varint};

/// Storage of the pages of a column.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// Codec that compresses them.
    pub codec: Codec,
    /// Whether values are compared as numbers with a sign.
    pub is_signed: bool,
}

/// Rows on their way into a page.
#[derive(Debug, Default)]
pub struct Rows {
    /// Values of all rows, one row after another.
    pub values: Vec<u32>,
    /// Number of values of each row.
    pub counts: Vec<u32>,
}

/// Facts about a page.
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
    /// Least and greatest value; `None` without values.
    pub bounds: Option<(u32, u32)>,
    /// Whether its values are indexes into the dictionary.
    pub is_indexed: bool,
}

/// A dictionary of all numbers below one, so that an entry's number is its value: pages
/// hold values in two or three bytes, where plain ones have four. Whole bytes compress
/// better, and faster, than the fewest bits.
#[derive(Clone, Copy, Debug)]
pub struct Dictionary {
    /// Number of entries.
    num_values: u32,
    /// Bytes of a value in a page.
    width: usize,
}

impl Dictionary {
    /// Returns a dictionary of `num_values` numbers, if it makes pages smaller.
    pub fn of(num_values: u32) -> Option<Self> {
        let width = match num_values {
            1..=0x1_0000 => 2,
            0x1_0001..=0x100_0000 => 3,
            _ => return None,
        };
        Some(Self { num_values, width })
    }

    /// Values of a row group from which on a dictionary is written. On real text with
    /// zstd it then takes about the bytes that it saves; with other codecs far fewer.
    pub fn pays_from(self) -> usize {
        16 * self.num_values as usize
    }

    /// Whether all these values are in the dictionary.
    fn has(self, bounds: Option<(u32, u32)>) -> bool {
        // Bounds of signed values: as unsigned numbers, the lower bound may be the larger.
        bounds.is_some_and(|(least, largest)| least.max(largest) < self.num_values)
    }

    /// Appends a page's values: their width in bits, and one run of packed numbers,
    /// eight at a time.
    fn put(self, values: &[u32], page: &mut Vec<u8>) {
        page.push(8 * self.width as u8);
        let num_eights = values.len().div_ceil(8);
        put_varint(page, (num_eights as u64) << 1 | 1);
        let begin = page.len();
        page.resize(begin + 8 * self.width * num_eights, 0);
        match self.width {
            2 => put_bytes::<2>(values, &mut page[begin..]),
            _ => put_bytes::<3>(values, &mut page[begin..]),
        }
    }
}

/// Makes pages of rows; one for each thread.
#[derive(Default)]
pub struct PageMaker {
    compressor: Compressor,
    repetitions: Runs,
    definitions: Runs,
    plain: Vec<u8>,
    stored: Vec<u8>,
}

impl PageMaker {
    /// Appends a page to `output`, as the settings of its column say.
    pub fn make(
        &mut self,
        rows: &Rows,
        settings: Settings,
        dictionary: Option<Dictionary>,
        output: &mut Vec<u8>,
    ) -> Result<Page> {
        let bounds = bounds(&rows.values, settings.is_signed);
        let dictionary = dictionary.filter(|dictionary| dictionary.has(bounds));
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
        match dictionary {
            Some(dictionary) => dictionary.put(&rows.values, &mut self.plain),
            None => put_values(&rows.values, &mut self.plain),
        }
        let num_levels = rows.values.len() + num_empty;
        let encoding = if dictionary.is_some() { INDEXED } else { PLAIN };
        let kind = Kind::Data(encoding);
        let (size, uncompressed_size) = self.store(kind, num_levels, settings.codec, output)?;
        Ok(Page {
            size,
            num_rows: rows.counts.len(),
            num_empty,
            num_values: rows.values.len(),
            uncompressed_size,
            bounds,
            is_indexed: dictionary.is_some(),
        })
    }

    /// Appends the page of a dictionary to `output`. Returns its bytes, compressed and
    /// uncompressed.
    pub fn make_dictionary(
        &mut self,
        dictionary: Dictionary,
        codec: Codec,
        output: &mut Vec<u8>,
    ) -> Result<(usize, usize)> {
        let values: Vec<u32> = (0..dictionary.num_values).collect();
        self.plain.clear();
        put_values(&values, &mut self.plain);
        self.store(Kind::Dictionary, values.len(), codec, output)
    }

    /// Appends plain bytes as a page with its header.
    fn store(
        &mut self,
        kind: Kind,
        num_values: usize,
        codec: Codec,
        output: &mut Vec<u8>,
    ) -> Result<(usize, usize)> {
        self.stored.clear();
        self.compressor
            .compress(codec, &self.plain, &mut self.stored)?;
        let header = header(kind, &self.plain, &self.stored, num_values)?;
        output.extend_from_slice(&header);
        output.extend_from_slice(&self.stored);
        let sizes = [self.stored.len(), self.plain.len()].map(|size| header.len() + size);
        Ok((sizes[0], sizes[1]))
    }
}

/// Appends values in PLAIN encoding: four bytes each, little endian.
fn put_values(values: &[u32], page: &mut Vec<u8>) {
    let begin = page.len();
    page.resize(begin + size_of_val(values), 0);
    put_bytes::<4>(values, &mut page[begin..]);
}

/// Writes the lowest `N` bytes of each value.
fn put_bytes<const N: usize>(values: &[u32], output: &mut [u8]) {
    vectorized(values, output, |values, output| {
        for (to, value) in output.as_chunks_mut::<N>().0.iter_mut().zip(values) {
            to.copy_from_slice(&value.to_le_bytes()[..N]);
        }
    });
}

fn bounds(values: &[u32], is_signed: bool) -> Option<(u32, u32)> {
    // Numbers with a sign are ordered as those without, once it is turned.
    let turned = u32::from(is_signed) << 31;
    let (least, largest) = vectorized(values, &mut [(); 0], |values, _| {
        let bounds = |(least, largest): (u32, u32), value: &u32| {
            (least.min(value ^ turned), largest.max(value ^ turned))
        };
        values.iter().fold((u32::MAX, 0), bounds)
    });
    (!values.is_empty()).then_some((least ^ turned, largest ^ turned))
}

// Encodings by their numbers in the format.
const PLAIN: i64 = 0;
const RLE: i64 = 3;
/// Numbers of entries of a dictionary.
const INDEXED: i64 = 8;

/// Kind of a page.
#[derive(Clone, Copy)]
enum Kind {
    /// Rows, with values in this encoding.
    Data(i64),
    Dictionary,
}

/// A `PageHeader` of a data page of version 1, or of a dictionary, in Thrift's compact
/// protocol.
fn header(kind: Kind, plain: &[u8], stored: &[u8], num_values: usize) -> Result<Vec<u8>> {
    let size = |size: usize| {
        let too_large = |_| Error::limit(format!("a page of {size} bytes: 2**31 - 1 are the most"));
        i32::try_from(size).map(i64::from).map_err(too_large)
    };
    // Its number in the format, and the id of the field of its header, counted from
    // the one before.
    let (number, step) = match kind {
        Kind::Data(_) => (0, 1),
        Kind::Dictionary => (2, 3),
    };
    let checksum = i64::from(hash(stored).cast_signed());
    let mut bytes = Vec::with_capacity(64);
    put_numbers(
        &mut bytes,
        &[number, size(plain.len())?, size(stored.len())?, checksum],
    );
    bytes.push(step << 4 | Wire::Struct.code());
    let num_values = size(num_values)?;
    match kind {
        Kind::Data(encoding) => put_numbers(&mut bytes, &[num_values, encoding, RLE, RLE]),
        Kind::Dictionary => put_numbers(&mut bytes, &[num_values, PLAIN]),
    }
    bytes.extend_from_slice(&[0, 0]);
    Ok(bytes)
}

/// Appends fields with rising ids from 1, each a number of 32 bits.
fn put_numbers(bytes: &mut Vec<u8>, numbers: &[i64]) {
    for &number in numbers {
        bytes.push(1 << 4 | Wire::I32.code());
        put_varint(bytes, (number << 1 ^ number >> 63).cast_unsigned());
    }
}
