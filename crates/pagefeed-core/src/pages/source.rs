//! Pages of one or several indexes, as the engine loads them.

use std::ops::Range;
use std::sync::Arc;

use crate::decode::{TokenPage, decode_dictionary, decode_tokens_into};
use crate::engine::{PageEntry, PageSource};
use crate::error::{Error, Result};
use crate::index::{Index, PageRecord};
use crate::page::PageOpener;
use crate::pages::dictionaries::DictionaryCache;
use crate::pages::numbering::{Indexed, NumberedPages, Part, saturated};
use crate::pages::reader::{self, read_array};
use crate::pages::text::{TextColumn, is_text};
use crate::pages::token_ids::TokenIds;

/// Pages of several indexes, numbered through in the order of the indexes.
pub struct IndexSource {
    pages: NumberedPages,
    dictionaries: DictionaryCache,
    /// Numbers that are tokens, if others are to be refused.
    token_ids: Option<TokenIds>,
}

impl IndexSource {
    /// Numbers the pages of `indexes`; of `memory` bytes at most a quarter is for
    /// decoded dictionaries.
    pub fn new(indexes: Vec<Indexed>, memory: usize) -> Result<Self> {
        for Indexed { index, text, .. } in &indexes {
            if text.is_some() {
                refuse_no_text(index)?;
                continue;
            }
            for file in 0..index.files().len() {
                let schema = index.schema(u32::try_from(file).unwrap_or(u32::MAX));
                if schema.leaves.len() != 1 {
                    return Err(Error::invalid(format!(
                        "a token column is one list of integers, but {:?} is {}",
                        index.column(),
                        schema.field.data_type()
                    ))
                    .in_file(&index.files()[file].path));
                }
            }
        }
        Ok(Self {
            pages: NumberedPages::new(indexes),
            dictionaries: DictionaryCache::new(memory / 4),
            token_ids: None,
        })
    }

    /// Refuses pages with other numbers.
    pub fn only(mut self, token_ids: TokenIds) -> Self {
        self.token_ids = Some(token_ids);
        self
    }

    fn load_from(
        &self,
        opener: &mut PageOpener,
        part: &Part,
        page: u64,
        record: &PageRecord,
        recycle: Option<TokenPage>,
    ) -> Result<TokenPage> {
        let leaf = &part.index.schema(record.file).leaves[0];
        let file = &part.index.files()[record.file as usize];
        let dictionary = match &record.dictionary {
            None => None,
            Some(range) => {
                let key = (Arc::as_ptr(&part.index) as usize, record.file, range.start);
                Some(self.dictionaries.get_or_load(key, self.token_ids, || {
                    let bytes = part.store.read(file, range.clone())?;
                    decode_dictionary(opener, &bytes, record.codec, leaf)
                })?)
            }
        };
        let mut runs = part
            .index
            .read_runs(&part.store, page, dictionary.is_none())?;
        let run = runs
            .pop()
            .ok_or_else(|| Error::corrupt("the page has no bytes"))?;
        let mut page = recycle.unwrap_or_default();
        let entries = dictionary.as_ref().map(|kept| &kept.dictionary);
        let are_entries = decode_tokens_into(opener, &run, entries, leaf, &mut page)?;
        let are_ids = are_entries && dictionary.is_some_and(|kept| kept.holds_ids_only);
        reader::check_num_values(record, page.tokens.len() as u64)?;
        if let Some(token_ids) = self.token_ids.filter(|_| !are_ids) {
            token_ids.check(&page, record.first_row_in_group)?;
        }
        Ok(page)
    }
}

impl PageSource for IndexSource {
    fn load(
        &self,
        opener: &mut PageOpener,
        page: u64,
        recycle: Option<TokenPage>,
    ) -> Result<TokenPage> {
        let (part, local) = self.pages.find(page)?;
        opener.verify_checksums = part.verify_checksums;
        if let Some(text) = &part.text {
            return encode(opener, part, text, local, recycle);
        }
        let record = part.index.page(local)?;
        self.load_from(opener, part, local, &record, recycle)
            .map_err(|error| self.locate(error, page))
    }

    fn held_bytes(&self) -> usize {
        self.dictionaries.num_bytes()
    }

    fn locate(&self, error: Error, page: u64) -> Error {
        self.pages.locate(error, page)
    }

    fn entry(&self, page: u64) -> PageEntry {
        // Four bytes a token is an upper bound for all but 64-bit columns, whose
        // true size the engine learns when the page is there.
        const BYTES_PER_TOKEN: u64 = 4;
        const BYTES_PER_ROW: u64 = 4;
        let found = self.pages.find(page);
        let found = found.and_then(|(part, local)| Ok((part, local, part.index.page(local)?)));
        let Ok((part, local, record)) = found else {
            return PageEntry::default();
        };
        if let Some(text) = &part.text {
            return text.entry(rows_of(&part.index, local, &record), &record);
        }
        let bytes = record.num_values * BYTES_PER_TOKEN + record.num_rows * BYTES_PER_ROW;
        PageEntry::new(saturated(record.compressed_size), saturated(bytes))
    }

    fn will_need(&self, page: u64) {
        self.pages.will_need(page);
    }
}

/// Loads a page of texts, and encodes them.
pub(super) fn encode(
    opener: &mut PageOpener,
    part: &Part,
    text: &TextColumn,
    page: u64,
    recycle: Option<TokenPage>,
) -> Result<TokenPage> {
    let record = part.index.page(page)?;
    let data_type = part.index.field().data_type();
    let texts = read_array(&part.index, &part.store, opener, page, data_type)?;
    let rows = rows_of(&part.index, page, &record);
    text.encode(&texts, rows.start, recycle)
        .map_err(|error| reader::locate(&part.index, &record, error))
}

/// The rows of a page, numbered through the column.
fn rows_of(index: &Index, page: u64, record: &PageRecord) -> Range<u64> {
    let mut first = [0];
    let found = index.first_rows(&[page.cast_signed()], &mut first);
    let first = if found.is_ok() { first[0].cast_unsigned() } else { 0 };
    first..first + record.num_rows
}

fn refuse_no_text(index: &Index) -> Result<()> {
    let data_type = index.field().data_type();
    if is_text(data_type) {
        return Ok(());
    }
    Err(Error::unsupported(format!(
        "a column to tokenize holds texts, one a row, but {:?} is {data_type}",
        index.column()
    ))
    .in_column(index.column()))
}
