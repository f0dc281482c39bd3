//! The rows of a page, infilled: written with their markers.

use super::integers::Tokens;
use super::numbers::Numbers;
use super::page::TokenPage;
use super::per_token::PerToken;
use crate::buffers::renew;
use crate::error::{Error, Result};
use crate::infill::{Arranged, Infilling, Marker, Run};

/// Writes the rows of `from` to `page`, with `rows` (rising) infilled. Numbers of aligned
/// columns follow their tokens, and markers get padding. A token whose numbers belong to
/// the next token gets padding where that token is not next any more. Metadata move along.
pub fn arrange(
    infilling: &Infilling,
    from: &mut TokenPage,
    rows: Vec<Arranged>,
    columns: &[PerToken],
    page: &mut TokenPage,
) -> Result<()> {
    let added = rows.len() * infilling.tokens.len();
    let num_tokens = from.tokens.len() + added;
    if u32::try_from(num_tokens).is_err() {
        return Err(Error::limit("an infilled page of more than 2^32 tokens"));
    }
    page.row_offsets.clear();
    let mut next = 0;
    let mut shift = 0;
    for (row, &offset) in from.row_offsets.iter().enumerate() {
        page.row_offsets.push(offset + shift);
        if rows.get(next).is_some_and(|chosen| chosen.row == row) {
            next += 1;
            shift += infilling.num_added();
        }
    }
    let offsets = &from.row_offsets;
    copy_tokens(
        &infilling.tokens,
        &from.tokens,
        num_tokens,
        &mut page.tokens,
        |write| each_run(offsets, &rows, write),
    );
    page.aligned
        .resize_with(from.aligned.len(), Numbers::default);
    for (number, (own, into)) in from.aligned.iter().zip(&mut page.aligned).enumerate() {
        *into = Numbers::like(own, std::mem::take(into));
        if own.are_absent() {
            continue;
        }
        let column = columns.get(number).copied().unwrap_or_default();
        let (width, all) = (column.width, num_tokens * column.width);
        let filling = Numbers::one(own, column.padding)?;
        let fill =
            |into: &mut Numbers| (0..width).try_for_each(|_| into.append(&filling, 0..1, all));
        let mut result = Ok(());
        each_run(offsets, &rows, |run| {
            if result.is_ok() {
                result = match run {
                    Piece::Marker(_) => fill(into),
                    Piece::Tokens(range, is_parted) => {
                        let is_lost = column.is_of_next && is_parted;
                        let end = range.end - usize::from(is_lost);
                        into.append(own, range.start * width..end * width, all)
                            .and_then(|()| if is_lost { fill(into) } else { Ok(()) })
                    }
                };
            }
        });
        result?;
    }
    page.metadata = std::mem::take(&mut from.metadata);
    (page.skipped, page.continues) = (0, from.continues);
    (page.infilled, page.postponed) = (rows, None);
    Ok(())
}

/// The next piece of a page.
enum Piece {
    Marker(Marker),
    /// Tokens, and whether the token after them is not the next one of their document.
    Tokens(std::ops::Range<usize>, bool),
}

/// Yields the contents of rows in order; rows that are not infilled come many at a
/// time.
fn each_run(offsets: &[u32], rows: &[Arranged], mut write: impl FnMut(Piece)) {
    let mut done = 0;
    for arranged in rows {
        let [begin, end] = [0, 1].map(|more| offsets[arranged.row + more] as usize);
        if done < begin {
            write(Piece::Tokens(done..begin, false));
        }
        let count = (end - begin) as u32;
        let mut runs = arranged.runs(count).peekable();
        while let Some(run) = runs.next() {
            write(match run {
                Run::Marker(marker) => Piece::Marker(marker),
                Run::Own(own) => {
                    let is_parted = match runs.peek() {
                        Some(Run::Own(next)) => next.start != own.end,
                        Some(Run::Marker(_)) => true,
                        None => own.end != count,
                    };
                    let [from, to] = [own.start, own.end].map(|token| begin + token as usize);
                    Piece::Tokens(from..to, is_parted)
                }
            });
        }
        done = end;
    }
    let end = offsets.last().map_or(0, |&end| end as usize);
    if done < end {
        write(Piece::Tokens(done..end, false));
    }
}

/// Copies tokens in a type that holds the markers, too.
fn copy_tokens(
    markers: &[i64],
    from: &Tokens,
    count: usize,
    into: &mut Tokens,
    each: impl FnOnce(&mut dyn FnMut(Piece)),
) {
    let fit = |least: i64, most: i64| markers.iter().all(|each| (least..=most).contains(each));
    let fit_i32 = fit(i32::MIN.into(), i32::MAX.into());
    macro_rules! copied {
        ($from:expr, $kind:ident, $to:ty) => {{
            if !matches!(into, Tokens::$kind(_)) {
                *into = Tokens::$kind(Vec::new());
            }
            if let Tokens::$kind(into) = into {
                into.clear();
                renew(into, count);
                into.reserve_exact(count);
                each(&mut |piece| match piece {
                    Piece::Marker(marker) => into.push(markers[marker as usize] as $to),
                    Piece::Tokens(range, _) => {
                        into.extend($from[range].iter().map(|&token| token as $to));
                    }
                });
            }
        }};
    }
    match from {
        Tokens::U16(from) if fit(0, u16::MAX.into()) => copied!(from, U16, u16),
        Tokens::U16(from) if fit_i32 => copied!(from, I32, i32),
        Tokens::I32(from) if fit_i32 => copied!(from, I32, i32),
        Tokens::U32(from) if fit(0, u32::MAX.into()) => copied!(from, U32, u32),
        Tokens::U16(from) => copied!(from, I64, i64),
        Tokens::I32(from) => copied!(from, I64, i64),
        Tokens::U32(from) => copied!(from, I64, i64),
        Tokens::I64(from) => copied!(from, I64, i64),
    }
}
