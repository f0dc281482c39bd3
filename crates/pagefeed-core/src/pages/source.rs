//! Pages of one or several indexes, as the engine loads them.

use std::sync::Arc;

use crate::decode::{TokenPage, decode_dictionary, decode_tokens_into};
use crate::engine::{PageEntry, PageSource};
use crate::error::{Error, Result};
use crate::index::PageRecord;
use crate::page::PageOpener;
use crate::pages::dictionaries::DictionaryCache;
use crate::pages::numbering::{Indexed, NumberedPages, Part, saturated};
use crate::pages::reader;
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
        for Indexed { index, .. } in &indexes {
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
        let record = part.index.page(local)?;
        opener.verify_checksums = part.verify_checksums;
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
        let Ok(record) = self.pages.record(page) else {
            return PageEntry::default();
        };
        let bytes = record.num_values * BYTES_PER_TOKEN + record.num_rows * BYTES_PER_ROW;
        PageEntry::new(saturated(record.compressed_size), saturated(bytes))
    }

    fn will_need(&self, page: u64) {
        self.pages.will_need(page);
    }
}
