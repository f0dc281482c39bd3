//! Pages of integer columns, decoded into rows of tokens.

pub(crate) mod aligned;
pub(crate) mod integers;
pub(crate) mod narrow;
pub(crate) mod rows;
mod values;

use std::sync::Arc;

use super::cursor::PageCursor;
use super::{PageRun, bounds};
use crate::error::Result;
use crate::page::PageOpener;
use crate::schema::Leaf;
use crate::tokens::{Continues, Dictionary, TokenPage, Tokens};
use integers::{IntegerReader, Storage, read_dictionary};
use rows::RowReader;

/// Decodes a run of an integer column, at most one list deep, into its rows.
///
/// `dictionary` is the decoded dictionary page if the caller has it; otherwise
/// `run.dictionary` is decoded when a page needs it. Null tokens inside a row are an
/// error (a null row is an empty row).
pub fn decode_tokens(
    opener: &mut PageOpener,
    run: &PageRun,
    dictionary: Option<&Arc<Dictionary>>,
    leaf: &Leaf,
) -> Result<TokenPage> {
    let mut page = TokenPage::default();
    decode_tokens_into(opener, run, dictionary, leaf, &mut page)?;
    Ok(page)
}

/// Decodes like [`decode_tokens`], into the memory of an earlier page; allocates only
/// if that is too small. After an error, `page` must not be used. Returns whether all
/// tokens are entries of the dictionary.
pub fn decode_tokens_into(
    opener: &mut PageOpener,
    run: &PageRun,
    dictionary: Option<&Arc<Dictionary>>,
    leaf: &Leaf,
    page: &mut TokenPage,
) -> Result<bool> {
    let cursor = PageCursor::new(leaf, run, 0..run.num_rows);
    let mut rows = RowReader::new(&cursor, std::mem::take(&mut page.row_offsets))?;
    let reader = IntegerReader {
        leaf,
        storage: Storage::of(leaf)?,
        narrow: true,
    };
    let tokens = &mut page.tokens;
    let are_entries = decode_rows(
        opener,
        cursor,
        dictionary.cloned(),
        &mut rows,
        &reader,
        tokens,
    )?;
    page.row_offsets = rows.offsets;
    page.continues = Continues::default();
    page.skipped = 0;
    Ok(are_entries)
}

/// Reads the rows that a cursor looks for. Returns whether all tokens are entries of the
/// dictionary.
pub(crate) fn decode_rows(
    opener: &mut PageOpener,
    mut cursor: PageCursor<'_>,
    mut dictionary: Option<Arc<Dictionary>>,
    rows: &mut RowReader<'_>,
    reader: &IntegerReader<'_>,
    tokens: &mut Tokens,
) -> Result<bool> {
    let (mut is_first, mut are_entries) = (true, true);
    while let Some(stored) = cursor.next()? {
        let has_indices = stored.has_indices();
        are_entries &= has_indices;
        if has_indices && dictionary.is_none() {
            let (page, codec) = (cursor.dictionary()?, cursor.run.codec);
            let decoded = read_dictionary(opener, page, codec, reader.leaf, reader.storage)?;
            dictionary = Some(Arc::new(decoded));
        }
        if std::mem::take(&mut is_first) {
            reader.prepare(tokens, dictionary.as_deref().filter(|_| has_indices));
        }
        let open = cursor.open(opener, &stored)?;
        bounds::decoded_size(&open.page, reader.leaf, open.num_present, None)?;
        rows.read(&open)?;
        let (before, values) = (tokens.len(), open.values);
        reader.append(&open.page, values.end, dictionary.as_deref(), tokens)?;
        tokens.drop(before..before + values.start);
    }
    if is_first {
        reader.prepare(tokens, None);
    }
    cursor.finish(opener)?;
    rows.finish()?;
    Ok(are_entries)
}

#[cfg(test)]
mod tests;
