//! Slices of pages of flat files, read without the rest: one read for each, or for
//! several that lie side by side.

use std::ops::Range;

use crate::engine::{PageSlice, SliceReads};
use crate::error::{Error, Result};
use crate::index::{Flat, FlatRows, Index, PageRecord};
use crate::pages::flat::{self, FlatField};
use crate::pages::token_ids::TokenIds;
use crate::storage::{GAP, Storage, coalesce};
use crate::tokens::{Continues, TokenPage, Tokens};

/// Place of a slice of a page in its file.
struct Extent<'a> {
    /// Number of the slice.
    number: usize,
    page: u64,
    record: PageRecord,
    rows: FlatRows<'a>,
    /// Rows of the page that the slice touches.
    touched: Range<usize>,
    /// Tokens of the page to read.
    tokens: Range<u32>,
    /// Byte range in their file.
    bytes: Range<u64>,
    /// Position in the buffer, unless they are read directly into a page.
    at: Option<usize>,
}

/// Bytes of a file that are read at once.
struct Run {
    file: u32,
    bytes: Range<u64>,
    /// The slices in the run.
    extents: Range<usize>,
}

impl Run {
    fn size(&self) -> usize {
        (self.bytes.end - self.bytes.start) as usize
    }
}

/// Reads slices of pages; an error names one of the pages.
pub fn read(
    index: &Index,
    flat: &Flat,
    fields: &[FlatField],
    storage: &dyn Storage,
    token_ids: Option<TokenIds>,
    slices: &mut [&mut PageSlice],
    buffer: &mut Vec<u8>,
) -> Result<SliceReads, (u64, Error)> {
    let mut extents = Vec::with_capacity(slices.len());
    for (number, slice) in slices.iter_mut().enumerate() {
        let page = slice.page;
        let extent = extent_of(index, flat, slice, number).map_err(|error| (page, error))?;
        extents.push(extent);
    }
    extents.sort_unstable_by_key(|extent| (extent.record.file, extent.bytes.start));
    let runs = coalesced(&extents);
    // The tokens of a run of one slice are read in place.
    let are_as_held = fields.is_empty() && flat::are_as_held(flat.records);
    let mut size = 0;
    for run in &runs {
        let extents = &mut extents[run.extents.clone()];
        if are_as_held && extents.len() == 1 && extents[0].rows.bytes.is_empty() {
            continue;
        }
        for extent in extents {
            extent.at = Some(size + (extent.bytes.start - run.bytes.start) as usize);
        }
        size += run.size();
    }
    if buffer.len() < size {
        buffer.resize(size, 0);
    }
    let mut rest = buffer.as_mut_slice();
    let tokens = slices
        .iter_mut()
        .map(|slice| Some(&mut slice.loaded.tokens));
    let mut tokens: Vec<Option<&mut Tokens>> = tokens.collect();
    for same_file in runs.chunk_by(|one, next| one.file == next.file) {
        let mut wanted = Vec::with_capacity(same_file.len());
        for run in same_file {
            let first = &extents[run.extents.start];
            let into = match tokens[first.number].take().filter(|_| first.at.is_none()) {
                Some(tokens) => flat::room(flat.records, first.tokens.len(), tokens)
                    .map_err(|error| (first.page, error))?,
                None => {
                    let (own, behind) = rest.split_at_mut(run.size());
                    rest = behind;
                    own
                }
            };
            wanted.push((run.bytes.start, into));
        }
        let (file, first) = (same_file[0].file, &extents[same_file[0].extents.start]);
        storage
            .read_many_into(&index.file(file as usize), &mut wanted)
            .map_err(|error| (first.page, error))?;
    }
    for extent in &extents {
        let page = &mut slices[extent.number].loaded;
        take(flat, fields, extent, buffer, page)
            .and_then(|()| check(extent, token_ids, page))
            .map_err(|error| (extent.page, error))?;
    }
    Ok(SliceReads {
        reads: runs.len() as u64,
        bytes: runs.iter().map(|run| run.size() as u64).sum(),
    })
}

/// Finds the bytes of a slice.
fn extent_of<'a>(
    index: &Index,
    flat: &'a Flat,
    slice: &mut PageSlice,
    number: usize,
) -> Result<Extent<'a>> {
    let record = index.page(slice.page)?;
    let rows = flat.rows(index, slice.page)?;
    let count = u32::try_from(record.num_values)
        .map_err(|_| Error::limit("a page of more than 2^32 tokens"))?;
    let num_rows = record.num_rows as usize;
    let value = |row: usize| match row < num_rows {
        true => rows.values.get(row).copied().unwrap_or(0),
        false => count,
    };
    let per_row = u64::from(slice.per_row);
    let begin_of = |row: usize| u64::from(value(row)) + per_row * row as u64;
    let outside = || {
        Error::corrupt(format!(
            "the page holds {num_rows} rows of {count} tokens, the plan needs {} from token {} of \
             row {} on; the file does not hold what the index promises",
            slice.num_tokens, slice.first_token, slice.row
        ))
    };
    if slice.row as usize >= num_rows {
        return Err(outside());
    }
    let position = begin_of(slice.row as usize) + u64::from(slice.first_token);
    let end = position + u64::from(slice.num_tokens);
    if end > begin_of(num_rows) {
        return Err(outside());
    }
    let (first, last) = (
        last_row_before(slice.row as usize, num_rows, |row| {
            begin_of(row) <= position
        }),
        last_row_before(slice.row as usize, num_rows, |row| begin_of(row) < end),
    );
    let last = last.max(first);
    // Positions count separators, which are not stored: one or two tokens more are read.
    let inside = |row: usize, position: u64| {
        let tokens = u64::from(value(row)) + position.saturating_sub(begin_of(row));
        u32::try_from(tokens)
            .unwrap_or(u32::MAX)
            .min(value(row + 1))
    };
    let tokens = inside(first, position.saturating_sub(per_row))..inside(last, end);
    let size = flat.records.size as u64;
    let byte = |row: usize, token: u32| match rows.bytes.get(row) {
        Some(&byte) => u64::from(byte) + u64::from(token - value(row)) * size,
        None => u64::from(token) * size,
    };
    let bytes = byte(first, tokens.start)..byte(last, tokens.end);
    if bytes.start > bytes.end || bytes.end > record.compressed_size {
        return Err(Error::corrupt(
            "rows of the page do not follow each other, or lie outside of it",
        ));
    }
    slice.loaded.skipped = tokens.start - value(first);
    slice.loaded.continues = continues(index, &record, first, tokens.end == count);
    slice.loaded.row_offsets.clear();
    let offsets = (first..=last + 1).map(|row| value(row) - value(first));
    slice.loaded.row_offsets.extend(offsets);
    slice.first = u32::try_from(position - begin_of(first)).unwrap_or(u32::MAX);
    Ok(Extent {
        bytes: record.offset + bytes.start..record.offset + bytes.end,
        number,
        page: slice.page,
        record,
        rows,
        touched: first..last + 1,
        tokens,
        at: None,
    })
}

/// Returns the last row from `row` on for which a monotone condition holds.
fn last_row_before(row: usize, num_rows: usize, holds: impl Fn(usize) -> bool) -> usize {
    let (mut row, mut above) = (row, num_rows);
    // Most slices end soon.
    let mut step = 1;
    while row + step < above {
        if !holds(row + step) {
            above = row + step;
            break;
        }
        row += step;
        step *= 2;
    }
    while above - row > 1 {
        let middle = row.midpoint(above);
        if holds(middle) {
            row = middle;
        } else {
            above = middle;
        }
    }
    row
}

fn continues(index: &Index, record: &PageRecord, first_row: usize, is_end: bool) -> Continues {
    let Continues { before, after } = index.continues(record);
    Continues {
        before: before && first_row == 0,
        after: after && is_end,
    }
}

/// Coalesces slices that are neighbours in a file.
fn coalesced(extents: &[Extent<'_>]) -> Vec<Run> {
    let (mut runs, mut first) = (Vec::with_capacity(extents.len()), 0);
    for own in extents.chunk_by(|one, next| one.record.file == next.record.file) {
        let runs_of_file = coalesce(own.iter().map(|extent| extent.bytes.clone()), GAP, u64::MAX);
        runs.extend(runs_of_file.map(|(bytes, numbers)| Run {
            file: own[0].record.file,
            bytes,
            extents: first + numbers.start..first + numbers.end,
        }));
        first += own.len();
    }
    runs
}

/// Takes the tokens of a slice out of what was read.
fn take(
    flat: &Flat,
    fields: &[FlatField],
    extent: &Extent<'_>,
    buffer: &[u8],
    page: &mut TokenPage,
) -> Result<()> {
    let Some(at) = extent.at else {
        flat::to_native(&mut page.tokens);
        page.aligned.clear();
        return Ok(());
    };
    let tokens = &extent.tokens;
    flat::begin(flat.records, fields, tokens.len(), page)?;
    let size = (extent.bytes.end - extent.bytes.start) as usize;
    let read = buffer.get(at..at + size).unwrap_or_default();
    if extent.rows.bytes.is_empty() {
        return flat::append(flat.records, fields, read, page);
    }
    let first_byte = extent.bytes.start - extent.record.offset;
    for row in extent.touched.clone() {
        let begin = extent.rows.values.get(row).copied().unwrap_or(0);
        let end = extent.rows.values.get(row + 1).copied();
        let end = end.map_or(tokens.end, |end| end.min(tokens.end));
        let skipped = tokens.start.saturating_sub(begin);
        let count = end.saturating_sub(begin + skipped) as usize;
        let start = u64::from(extent.rows.bytes[row])
            + u64::from(skipped) * flat.records.size as u64
            - first_byte;
        let own = read.get(start as usize..start as usize + count * flat.records.size);
        flat::append(flat.records, fields, own.unwrap_or_default(), page)?;
    }
    Ok(())
}

/// Refuses a slice with other tokens than expected.
fn check(extent: &Extent<'_>, token_ids: Option<TokenIds>, page: &TokenPage) -> Result<()> {
    if page.tokens.len() != extent.tokens.len() {
        return Err(Error::corrupt(
            "rows of the page do not follow each other, or lie outside of it",
        ));
    }
    match token_ids {
        Some(token_ids) => {
            let first_row = extent.record.first_row_in_group + extent.touched.start as u64;
            token_ids.check(page, first_row)
        }
        None => Ok(()),
    }
}
