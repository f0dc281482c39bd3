//! Appends rows of several pages to one page, with their columns and infilled parts.

use std::ops::Range;
use std::sync::Arc;

use crate::buffers::renew;
use crate::engine::Aligned;
use crate::error::{Error, Result};
use crate::infill::{Arranged, Pending, Postponed};
use crate::tokens::{Numbers, TokenPage, Tokens};

/// Consecutive rows of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::engine) struct PageRows {
    pub page: u64,
    pub first_row: u32,
    pub num_rows: u32,
}

/// Appends rows of `page`; all rows together have about `count` tokens.
pub(super) fn append(
    joined: &mut TokenPage,
    page: &TokenPage,
    slice: &PageRows,
    count: usize,
    aligned: &[Aligned],
) -> Result<()> {
    let (first, num_rows) = (slice.first_row as usize, slice.num_rows as usize);
    let Some(rows) = page.row_offsets.get(first..=first + num_rows) else {
        return Err(Error::corrupt(format!(
            "page {} of the index holds {} rows, the plan needs {num_rows} from row {first} on; the \
             file does not hold what the index promises",
            slice.page,
            page.row_offsets.len().saturating_sub(1)
        )));
    };
    let (Some(&begin), Some(&end)) = (rows.first(), rows.last()) else {
        return Ok(());
    };
    let before = joined.tokens.len();
    if before + (end - begin) as usize > u32::MAX as usize {
        return Err(Error::invalid(
            "a bundle holds too many tokens: use shorter sequences",
        ));
    }
    let range = begin as usize..end as usize;
    append_tokens(&mut joined.tokens, &page.tokens, range.clone(), count);
    joined
        .aligned
        .resize_with(page.aligned.len(), Numbers::default);
    // After the columns of batches come further ones, with a number a token.
    let widths = aligned.iter().map(|column| column.per_token.width);
    let columns = joined.aligned.iter_mut().zip(&page.aligned);
    for ((joined, numbers), width) in columns.zip(widths.chain(std::iter::repeat(1))) {
        joined.append(
            numbers,
            range.start * width..range.end * width,
            count * width,
        )?;
    }
    let num_before = joined.row_offsets.len() - 1;
    let number =
        |row: usize| (row >= first && row < first + num_rows).then(|| row - first + num_before);
    for arranged in &page.infilled {
        let row = number(arranged.row);
        joined.infilled.extend(row.map(|row| Arranged {
            row,
            ..arranged.clone()
        }));
    }
    if let Some(postponed) = &page.postponed {
        let rows = postponed.rows.iter();
        let rows = rows.filter_map(|&pending| {
            Some(Pending {
                row: number(pending.row)?,
                ..pending
            })
        });
        let all = joined.postponed.get_or_insert_with(|| Postponed {
            infilling: Arc::clone(&postponed.infilling),
            rows: Vec::new(),
        });
        all.rows.extend(rows);
    }
    let shift = |offset: &u32| offset - begin + before as u32;
    joined.row_offsets.extend(rows[1..].iter().map(shift));
    Ok(())
}

/// Appends in the type that holds both: one page of a chunk may have a dictionary of
/// 16-bit values and the next none.
fn append_tokens(joined: &mut Tokens, tokens: &Tokens, range: Range<usize>, count: usize) {
    if joined.is_empty() {
        joined.retype(tokens.empty());
    }
    match (&mut *joined, tokens) {
        (Tokens::U16(into), Tokens::U16(from)) => extend(into, &from[range], count),
        (Tokens::I32(into), Tokens::I32(from)) => extend(into, &from[range], count),
        (Tokens::U32(into), Tokens::U32(from)) => extend(into, &from[range], count),
        (Tokens::I64(into), Tokens::I64(from)) => extend(into, &from[range], count),
        (Tokens::I32(into), Tokens::U16(from)) => {
            into.extend(from[range].iter().map(|&value| i32::from(value)));
        }
        (Tokens::U32(into), Tokens::U16(from)) => {
            into.extend(from[range].iter().map(|&value| u32::from(value)));
        }
        (Tokens::U16(into), Tokens::I32(_)) => {
            let wide = into.iter().map(|&value| i32::from(value)).collect();
            *joined = Tokens::I32(wide);
            append_tokens(joined, tokens, range, count);
        }
        (Tokens::U16(into), Tokens::U32(_)) => {
            let wide = into.iter().map(|&value| u32::from(value)).collect();
            *joined = Tokens::U32(wide);
            append_tokens(joined, tokens, range, count);
        }
        (Tokens::I64(into), _) => into.extend(tokens.wide(range)),
        (_, Tokens::I64(_))
        | (Tokens::I32(_), Tokens::U32(_))
        | (Tokens::U32(_), Tokens::I32(_)) => {
            *joined = Tokens::I64(joined.wide(0..joined.len()));
            append_tokens(joined, tokens, range, count);
        }
    }
}

/// Reserves exactly, for all rows at once: a vector that grows by itself would double.
fn extend<T: Copy>(into: &mut Vec<T>, from: &[T], count: usize) {
    if into.is_empty() {
        let count = count.max(from.len());
        renew(into, count);
        into.reserve_exact(count);
    }
    into.extend_from_slice(from);
}
