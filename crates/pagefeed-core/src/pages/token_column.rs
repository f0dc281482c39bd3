//! Pages of a token column of Parquet files.

use std::sync::Arc;

use crate::decode::{TokenPage, decode_dictionary, decode_tokens_into};
use crate::engine::{Page, PageEntry, PageSource};
use crate::error::{Error, Result};
use crate::index::PageRecord;
use crate::page::PageOpener;
use crate::pages::dictionaries::{DictionaryCache, Kept, Key};
use crate::pages::indexed::Indexed;
use crate::pages::numbering::saturated;
use crate::pages::reader;
use crate::pages::token_ids::TokenIds;
use crate::storage::{Fetched, FileRanges, Storage};

/// Pages of a column of lists of tokens.
pub struct TokenColumn {
    column: Indexed,
    dictionaries: Arc<DictionaryCache>,
    /// Numbers that are tokens, if others are to be refused.
    token_ids: Option<TokenIds>,
}

impl TokenColumn {
    /// The pages of an index; decoded dictionaries are kept in `dictionaries`.
    pub fn new(
        column: Indexed,
        dictionaries: &Arc<DictionaryCache>,
        token_ids: Option<TokenIds>,
    ) -> Result<Self> {
        let index = &column.index;
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
        Ok(Self {
            dictionaries: Arc::clone(dictionaries),
            token_ids,
            column,
        })
    }

    /// Reads and decodes a page.
    pub fn read(
        &self,
        opener: &mut PageOpener,
        page: u64,
        fetched: &Fetched,
        recycle: Option<TokenPage>,
    ) -> Result<TokenPage> {
        let record = self.column.index.page(page)?;
        opener.verify_checksums = self.column.verify_checksums;
        let storage = fetched.over(&*self.column.storage);
        self.read_from(opener, page, &record, &storage, recycle)
            .map_err(|error| self.column.locate(error, &record))
    }

    fn key(&self, record: &PageRecord, offset: u64) -> Key {
        (
            Arc::as_ptr(&self.column.index) as usize,
            record.file,
            offset,
        )
    }

    fn dictionary(
        &self,
        opener: &mut PageOpener,
        record: &PageRecord,
        storage: &dyn Storage,
    ) -> Result<Option<Kept>> {
        let Some(range) = &record.dictionary else {
            return Ok(None);
        };
        let index = &self.column.index;
        let key = self.key(record, range.start);
        let load = || {
            let file = &index.files()[record.file as usize];
            let bytes = storage.read(file, range.clone())?;
            let leaf = &index.schema(record.file).leaves[0];
            decode_dictionary(opener, &bytes, record.codec, leaf)
        };
        self.dictionaries
            .get_or_load(key, self.token_ids, load)
            .map(Some)
    }

    fn read_from(
        &self,
        opener: &mut PageOpener,
        page: u64,
        record: &PageRecord,
        storage: &dyn Storage,
        recycle: Option<TokenPage>,
    ) -> Result<TokenPage> {
        let index = &self.column.index;
        let dictionary = self.dictionary(opener, record, storage)?;
        let mut runs = index.read_runs(storage, page, dictionary.is_none())?;
        let run = runs
            .pop()
            .ok_or_else(|| Error::corrupt("the page has no bytes"))?;
        let leaf = &index.schema(record.file).leaves[0];
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

    /// What reading a page takes, but for a dictionary that is kept.
    fn ranges(&self, page: u64) -> Result<FileRanges> {
        let record = self.column.index.page(page)?;
        let is_kept = |offset| self.dictionaries.has(&self.key(&record, offset));
        let dictionary = record.dictionary.as_ref();
        let is_wanted = dictionary.is_none_or(|range| !is_kept(range.start));
        self.column.index.run_ranges(page, is_wanted)
    }
}

impl PageSource for TokenColumn {
    fn num_pages(&self) -> u64 {
        self.column.index.num_pages()
    }

    fn entry(&self, page: u64) -> PageEntry {
        // Four bytes a token is an upper bound for all but 64-bit columns, whose
        // true size the engine learns when the page is there.
        const BYTES_PER_TOKEN: u64 = 4;
        const BYTES_PER_ROW: u64 = 4;
        let Ok(record) = self.column.index.page(page) else {
            return PageEntry::default();
        };
        let bytes = record.num_values * BYTES_PER_TOKEN + record.num_rows * BYTES_PER_ROW;
        PageEntry::new(saturated(record.compressed_size), saturated(bytes))
    }

    fn num_in_flight(&self) -> usize {
        self.column.storage.num_in_flight()
    }

    fn fetch(&self, pages: &[u64]) -> Result<Vec<Fetched>> {
        self.column.fetch(pages, |page| self.ranges(page))
    }

    fn decode(
        &self,
        opener: &mut PageOpener,
        page: u64,
        fetched: &Fetched,
        recycle: Option<TokenPage>,
    ) -> Result<Page> {
        self.read(opener, page, fetched, recycle).map(Page::Tokens)
    }

    fn will_need(&self, page: u64) {
        self.column.will_need(page);
    }

    fn locate(&self, error: Error, page: u64) -> Error {
        self.column.locate_page(error, page)
    }
}
