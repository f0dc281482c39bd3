//! Pages of integer columns, decoded into rows of tokens.

pub(crate) mod aligned;
mod elements;
pub(crate) mod held;
pub(crate) mod integers;
pub(crate) mod narrow;
pub(crate) mod numbers;
pub(crate) mod rows;
mod values;

use std::sync::Arc;

use parquet::basic::Encoding;

use super::{PageRun, bounds};
use crate::error::{Error, Result};
use crate::header::PageHeader;
use crate::levels::{Definitions, num_levels};
use crate::page::PageOpener;
use crate::schema::Leaf;
use integers::{IntegerReader, Storage, missing_dictionary, read_dictionary};
use numbers::{Joins, TokenPage, Tokens};
use rows::RowReader;

/// Decodes a run of an integer column, at most one list deep, into its rows.
///
/// `dictionary` is the decoded dictionary page if the caller has it; otherwise
/// `run.dictionary` is decoded when a page needs it. Null tokens inside a row are an
/// error (a null row is an empty row).
pub fn decode_tokens(
    opener: &mut PageOpener,
    run: &PageRun,
    dictionary: Option<&Arc<Tokens>>,
    leaf: &Leaf,
) -> Result<TokenPage> {
    let mut page = TokenPage::default();
    decode_tokens_into(opener, run, dictionary, leaf, &mut page)?;
    Ok(page)
}

/// As [`decode_tokens`], into the memory of an earlier page: nothing is allocated
/// where that suffices. After an error `page` is without meaning. Returns whether all
/// tokens are entries of the dictionary.
pub fn decode_tokens_into(
    opener: &mut PageOpener,
    run: &PageRun,
    dictionary: Option<&Arc<Tokens>>,
    leaf: &Leaf,
    page: &mut TokenPage,
) -> Result<bool> {
    let offsets = std::mem::take(&mut page.row_offsets);
    let mut rows = RowReader::new(leaf, run, offsets)?;
    let dictionary = dictionary.cloned();
    let reader = IntegerReader {
        leaf,
        storage: Storage::of(leaf)?,
        narrow: true,
    };
    let are_entries = decode_rows(
        opener,
        run,
        dictionary,
        &mut rows,
        &reader,
        &mut page.tokens,
    )?;
    page.row_offsets = rows.offsets;
    page.joins = Joins::default();
    page.skipped = 0;
    Ok(are_entries)
}

/// Reads the rows of `run` to their end; tokens that belong to no row are left out.
/// Returns whether all are entries of the dictionary.
pub(crate) fn decode_rows(
    opener: &mut PageOpener,
    run: &PageRun,
    mut dictionary: Option<Arc<Tokens>>,
    rows: &mut RowReader<'_>,
    reader: &IntegerReader<'_>,
    tokens: &mut Tokens,
) -> Result<bool> {
    let (mut is_first, mut are_entries) = (true, true);
    let mut pages = DataPages::new(&run.data);
    while let Some((header, stored)) = pages.next()? {
        if rows.is_done() {
            break;
        }
        let is_tail = pages.is_in_tail(run);
        if is_tail && rows.num_begun() < run.num_rows {
            return Err(wrong_rows(rows.num_begun(), run.num_rows));
        }
        let is_indices = header.encoding() == Some(Encoding::RLE_DICTIONARY);
        are_entries &= is_indices;
        if is_indices && dictionary.is_none() {
            let page = run.dictionary.as_ref().ok_or_else(missing_dictionary)?;
            let decoded = read_dictionary(opener, page, run.codec, reader.leaf, reader.storage)?;
            dictionary = Some(Arc::new(decoded));
        }
        if std::mem::take(&mut is_first) {
            reader.prepare(tokens, dictionary.as_deref().filter(|_| is_indices));
        }
        let page = opener.data_page(&header, stored, run.codec, reader.leaf)?;
        let present = Definitions::new(&page, reader.leaf)?.advance(num_levels(&page)?)?;
        bounds::decoded_size(&page, reader.leaf, present.present, None)?;
        let num_values = rows.read(&page)?;
        if rows.is_done() && !is_tail {
            return Err(wrong_rows("more", run.num_rows));
        }
        reader.append(&page, num_values, dictionary.as_deref(), tokens)?;
    }
    if is_first {
        reader.prepare(tokens, None);
    }
    rows.finish()?;
    keep_rows(rows, tokens);
    Ok(are_entries)
}

/// The pages hold other rows than the index says: those behind them would be others,
/// too.
pub(crate) fn wrong_rows(found: impl std::fmt::Display, expected: u64) -> Error {
    Error::corrupt(format!(
        "{expected} rows were expected, the pages hold {found}: the file's page index \
         cannot be right; index the file with page_index=False"
    ))
}

/// Drops the tokens before the first row and behind the last.
fn keep_rows(rows: &mut RowReader<'_>, tokens: &mut Tokens) {
    let (Some(&first), Some(&last)) = (rows.offsets.first(), rows.offsets.last()) else {
        return;
    };
    tokens.keep(first as usize..last as usize);
    if first > 0 {
        rows.offsets.iter_mut().for_each(|offset| *offset -= first);
    }
}

/// Splits the stored bytes of a run into its data pages; leaves out empty ones and
/// pages of other kinds.
pub(crate) struct DataPages<'a> {
    bytes: &'a [u8],
}

impl<'a> DataPages<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self { bytes }
    }

    /// Whether no bytes are left.
    pub(crate) fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Whether the page returned last lies in the tail of `run`.
    pub(crate) fn is_in_tail(&self, run: &PageRun) -> bool {
        self.bytes.len() < run.tail_size
    }

    /// The next page's header and stored bytes.
    pub(crate) fn next(&mut self) -> Result<Option<(PageHeader, &'a [u8])>> {
        while !self.bytes.is_empty() {
            let header = PageHeader::parse(self.bytes)?
                .ok_or_else(|| Error::corrupt("the page ends inside its header"))?;
            let (page, rest) = self
                .bytes
                .split_at_checked(header.stored_size())
                .ok_or_else(|| {
                    Error::corrupt(format!(
                        "the page takes {} bytes, {} are there",
                        header.stored_size(),
                        self.bytes.len()
                    ))
                })?;
            self.bytes = rest;
            if header.num_levels().is_some_and(|num_levels| num_levels > 0) {
                let stored = &page[header.header_size..];
                return Ok(Some((header, stored)));
            }
        }
        Ok(None)
    }
}

#[cfg(test)]
mod tests;
