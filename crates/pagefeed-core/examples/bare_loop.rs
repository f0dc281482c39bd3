//! The yardstick of decoding token pages: a loop that does nothing but
//! decompress the pages of one column chunk, unpack, look up and write int64, and the
//! same work through this crate. Both take a chunk's bytes, so that one
//! Python process can time them and other readers side by side (see
//! `benchmarks/bench_pages.py`).
//!
//! The bare loop trusts its input: it is for files that were just written.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a failure must be loud")]

use std::slice;
use std::sync::Arc;

use bytes::Bytes;
use pagefeed_core::codec::{Codec, Decompressor};
use pagefeed_core::decode::{PageRun, decode_dictionary, decode_tokens_into};
use pagefeed_core::gather::{Ahead, BatchToken};
use pagefeed_core::header::{DataV1, PageHeader, PageKind};
use pagefeed_core::levels::count_levels;
use pagefeed_core::page::PageOpener;
use pagefeed_core::schema::Leaf;
use pagefeed_core::tokens::TokenPage;
use pagefeed_core::{Error, Result};
use parquet::basic::Encoding;
use parquet::schema::parser::parse_message_type;
use parquet::schema::types::SchemaDescriptor;

/// Pages of a chunk: header, offset of the page with its header, stored bytes.
fn pages(chunk: &[u8]) -> Vec<(PageHeader, usize, &[u8])> {
    let (mut pages, mut at) = (Vec::new(), 0);
    while at < chunk.len() {
        let header = PageHeader::parse(&chunk[at..]).unwrap().unwrap();
        let stored = &chunk[at + header.header_size..at + header.stored_size()];
        let next = at + header.stored_size();
        pages.push((header, at, stored));
        at = next;
    }
    pages
}

fn varint(bytes: &mut &[u8]) -> usize {
    let (mut value, mut shift) = (0, 0);
    loop {
        let byte = bytes[0];
        *bytes = &bytes[1..];
        value |= usize::from(byte & 0x7f) << shift;
        shift += 7;
        if byte & 0x80 == 0 {
            return value;
        }
    }
}

/// Unpacks, looks up and writes in one pass. `packed` must be readable 16 bytes
/// beyond its values, which holds for all runs of a page but its last.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn unpack_and_look_up(packed: &[u8], width: usize, table: &[i32], out: &mut [i64]) {
    use std::arch::x86_64::*;
    let shuffle: Vec<u8> = (0..32)
        .map(|i| {
            let (lane, byte) = (i / 4, i % 4);
            let start = if lane < 4 { 0 } else { 4 * width / 8 * 8 };
            ((lane * width - start) / 8 + byte) as u8
        })
        .collect();
    let shift: Vec<u32> = (0..8).map(|lane| (lane * width % 8) as u32).collect();
    let whole = out.len() / 8;
    let loadable = (packed.len() + width).saturating_sub(4 * width / 8 + 16) / width;
    let fast = whole.min(loadable);
    let mask = _mm256_set1_epi32((1 << width) - 1);
    // SAFETY: loads end inside `packed`, stores inside `out`; indices are trusted.
    unsafe {
        let shuffle = _mm256_loadu_si256(shuffle.as_ptr().cast());
        let shift = _mm256_loadu_si256(shift.as_ptr().cast());
        for group in 0..fast {
            let low = packed.as_ptr().add(group * width);
            let halves = _mm256_loadu2_m128i(low.add(4 * width / 8).cast(), low.cast());
            let lanes = _mm256_shuffle_epi8(halves, shuffle);
            let indices = _mm256_and_si256(_mm256_srlv_epi32(lanes, shift), mask);
            let to = out.as_mut_ptr().add(group * 8);
            let mut buffer = [0u32; 8];
            _mm256_storeu_si256(buffer.as_mut_ptr().cast(), indices);
            for (i, index) in buffer.into_iter().enumerate() {
                *to.add(i) = i64::from(*table.get_unchecked(index as usize));
            }
        }
    }
    for (i, to) in out.iter_mut().enumerate().skip(fast * 8) {
        let mut index = 0;
        for bit in 0..width {
            let at = i * width + bit;
            index |= usize::from(packed[at / 8] >> (at % 8) & 1) << bit;
        }
        *to = table[index].into();
    }
}

/// Room for `count` tokens after the last ones, or at the start again: a caller may
/// pass a whole column's room, or a ring of it as batches are in a training run.
fn next<'a>(out: &'a mut [i64], at: &mut usize, count: usize) -> &'a mut [i64] {
    if *at + count > out.len() {
        *at = 0;
    }
    *at += count;
    &mut out[*at - count..*at]
}

/// Decompresses, unpacks, looks up and writes; returns the tokens written.
fn bare(chunk: &[u8], codec: Codec, out: &mut [i64]) -> usize {
    let mut decompressor = Decompressor::default();
    let (mut buffer, mut table) = (Vec::new(), Vec::new());
    let (mut written, mut at) = (0, 0);
    for (header, _, stored) in pages(chunk) {
        buffer.resize(buffer.len().max(header.uncompressed_size), 0u8);
        let page = &mut buffer[..header.uncompressed_size];
        decompressor.decompress(codec, stored, page).unwrap();
        let mut rest = &*page;
        let PageKind::DataV1(DataV1 {
            num_values,
            encoding,
            ..
        }) = header.kind
        else {
            let (numbers, _) = page.as_chunks::<4>();
            table = numbers.iter().map(|n| i32::from_le_bytes(*n)).collect();
            continue;
        };
        for _ in 0..2 {
            let size = u32::from_le_bytes(rest[..4].try_into().unwrap());
            rest = &rest[4 + size as usize..];
        }
        let out = next(out, &mut at, num_values);
        written += num_values;
        if encoding == Encoding::PLAIN {
            let (numbers, _) = rest.as_chunks::<4>();
            for (to, number) in out.iter_mut().zip(numbers) {
                *to = i32::from_le_bytes(*number).into();
            }
            continue;
        }
        let width = usize::from(rest[0]);
        rest = &rest[1..];
        let mut done = 0;
        while done < num_values {
            let header = varint(&mut rest);
            if header & 1 == 1 {
                let count = (header >> 1) * 8;
                let end = (done + count).min(num_values);
                // SAFETY: the benchmark runs on processors with AVX2.
                unsafe { unpack_and_look_up(rest, width, &table, &mut out[done..end]) };
                rest = &rest[(count / 8 * width).min(rest.len())..];
                done = end;
            } else {
                let end = (done + (header >> 1)).min(num_values);
                let mut index = [0; 4];
                let size = width.div_ceil(8);
                index[..size].copy_from_slice(&rest[..size]);
                out[done..end].fill(table[u32::from_le_bytes(index) as usize].into());
                rest = &rest[size..];
                done = end;
            }
        }
    }
    written
}

fn list_leaf() -> Leaf {
    let message = "message schema { optional group tokens (LIST) { repeated group list {
        optional int32 element; } } }";
    let schema = SchemaDescriptor::new(Arc::new(parse_message_type(message).unwrap()));
    Leaf::new(0, &schema)
}

/// One run per data page, as an index would ask for them.
fn runs(chunk: &'static [u8], codec: Codec, leaf: &Leaf) -> (Option<&'static [u8]>, Vec<PageRun>) {
    let (mut runs, mut opener, mut first_row) = (Vec::new(), PageOpener::default(), 0);
    let mut dictionary = None;
    for (header, at, stored) in pages(chunk) {
        let bytes = &chunk[at..at + header.stored_size()];
        if header.num_levels().is_none() {
            dictionary = Some(bytes);
            continue;
        }
        let page = opener.data_page(&header, stored, codec, leaf).unwrap();
        let counts = count_levels(&page, leaf).unwrap();
        runs.push(PageRun {
            data: Bytes::from_static(bytes),
            dictionary: None,
            codec,
            starts_mid_record: counts.starts_mid_record,
            first_row,
            num_rows: counts.num_rows,
            tail_size: 0,
        });
        first_row += counts.num_rows;
    }
    (dictionary, runs)
}

/// The same through this crate: open, decode to tokens, widen to int64 rows.
fn pagefeed(runs: &[PageRun], dictionary: Option<&[u8]>, out: &mut [i64]) -> Result<usize> {
    let (leaf, mut opener) = (list_leaf(), PageOpener::default());
    let (mut page, mut written, mut at) = (TokenPage::default(), 0, 0);
    let dictionary = dictionary
        .map(|bytes| decode_dictionary(&mut opener, bytes, runs[0].codec, &leaf).map(Arc::new))
        .transpose()?;
    for run in runs {
        decode_tokens_into(&mut opener, run, dictionary.as_ref(), &leaf, &mut page)?;
        let out = next(out, &mut at, page.tokens.len());
        i64::copy(&page.tokens, 0, out, Ahead::NONE)
            .map_err(|_| Error::invalid("a number of more than 64 bits"))?;
        written += page.tokens.len();
    }
    Ok(written)
}

/// Decompression alone.
fn decompress(chunk: &[u8], codec: Codec) -> usize {
    let (mut decompressor, mut buffer, mut size) = (Decompressor::default(), Vec::new(), 0);
    for (header, _, stored) in pages(chunk) {
        buffer.resize(buffer.len().max(header.uncompressed_size), 0u8);
        let page = &mut buffer[..header.uncompressed_size];
        decompressor.decompress(codec, stored, page).unwrap();
        size += page.len();
    }
    size
}

/// Processor time of this thread: unlike wall time it does not count the waiting for
/// other processes.
fn thread_seconds() -> f64 {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: `time` is valid for writing.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut time) };
    time.tv_sec as f64 + time.tv_nsec as f64 * 1e-9
}

/// Task of [`run_loop`].
const DECOMPRESS: u32 = 0;
const BARE: u32 = 1;

/// Runs one of the loops over a column chunk and writes its tokens to `out`; returns
/// their number. The time of the loop alone goes to `seconds`.
///
/// # Safety
/// `chunk` and `out` must be valid for `size` bytes and `capacity` numbers, `seconds`
/// for one.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn run_loop(
    which: u32,
    chunk: *const u8,
    size: usize,
    codec: i32,
    out: *mut i64,
    capacity: usize,
    seconds: *mut f64,
) -> usize {
    // SAFETY: promised by the caller, who keeps the chunk for as long as we use it.
    let (chunk, out, seconds): (&'static [u8], _, _) = unsafe {
        (
            slice::from_raw_parts(chunk, size),
            slice::from_raw_parts_mut(out, capacity),
            &mut *seconds,
        )
    };
    let codec = Codec::from_thrift(codec).unwrap();
    let (dictionary, runs) = match which {
        DECOMPRESS | BARE => (None, Vec::new()),
        _ => runs(chunk, codec, &list_leaf()),
    };
    let start = thread_seconds();
    let written = match which {
        DECOMPRESS => decompress(chunk, codec),
        BARE => bare(chunk, codec, out),
        _ => pagefeed(&runs, dictionary, out).unwrap(),
    };
    *seconds = thread_seconds() - start;
    written
}
