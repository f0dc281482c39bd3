//! Pages of a token column of Parquet files.

use std::sync::Arc;

use crate::decode::{decode_dictionary, decode_tokens_into};
use crate::engine::{Loading, Page, PageEntry, PageSlice, PageSource, SliceReads};
use crate::error::{Error, Result};
use crate::index::Indexed;
use crate::index::PageRecord;
use crate::page::PageOpener;
use crate::pages::aligned_column::AlignedColumn;
use crate::pages::dictionaries::DictionaryCache;
use crate::pages::dictionary_fetch::DictionaryFetch;
use crate::pages::flat::{self, FlatField};
use crate::pages::sizes::{entry_of, saturated};
use crate::pages::token_ids::TokenIds;
use crate::pages::{flat_slices, reader};
use crate::storage::{Fetched, FileRanges, Waiting};
use crate::tokens::{Numbers, TokenPage};

/// Pages of a column of lists of tokens.
pub struct TokenColumn {
    column: Indexed,
    dictionaries: Arc<DictionaryCache>,
    /// Valid ids, if other numbers are refused.
    token_ids: Option<TokenIds>,
    /// Aligned columns of the same rows.
    aligned: Vec<AlignedColumn>,
    /// For files that are not Parquet: further numbers of the same records.
    fields: Vec<FlatField>,
}

impl TokenColumn {
    /// The pages of an index; decoded dictionaries are kept in `dictionaries`.
    pub fn new(
        column: Indexed,
        dictionaries: &Arc<DictionaryCache>,
        token_ids: Option<TokenIds>,
    ) -> Result<Self> {
        let index = &column.index;
        for file in 0..index.num_files() {
            let schema = index.schema(u32::try_from(file).unwrap_or(u32::MAX));
            if schema.leaves.len() != 1 {
                return Err(Error::invalid(format!(
                    "a token column is one list of integers, but {:?} is {}",
                    index.column(),
                    schema.field.data_type()
                ))
                .in_file(index.path(file)));
            }
        }
        Ok(Self {
            dictionaries: Arc::clone(dictionaries),
            token_ids,
            column,
            aligned: Vec::new(),
            fields: Vec::new(),
        })
    }

    /// Adds columns of the same rows with a number for each token.
    pub fn with(mut self, aligned: Vec<AlignedColumn>) -> Result<Self> {
        let mut columns = aligned.iter().map(AlignedColumn::indexed);
        columns.try_for_each(|column| column.check_rows(&self.column))?;
        self.aligned = aligned;
        Ok(self)
    }

    /// Adds further numbers of the records of flat files.
    pub fn with_fields(mut self, fields: Vec<FlatField>) -> Result<Self> {
        let size = self
            .column
            .index
            .as_flat()
            .map_or(0, |flat| flat.records.size);
        if fields.iter().any(|field| field.end() > size) {
            return Err(Error::invalid(format!(
                "a number that comes with tokens lies outside of their records of {size} bytes"
            )));
        }
        self.fields = fields;
        Ok(self)
    }

    /// Reads and decodes a page.
    pub fn read(&self, opener: &mut PageOpener, page: u64, fetched: &Fetched) -> Result<TokenPage> {
        let record = self.column.index.page(page)?;
        opener.verify_checksums = self.column.verify_checksums;
        self.read_from(opener, page, &record, fetched)
            .map_err(|error| self.column.locate(error, &record))
    }

    fn read_from(
        &self,
        opener: &mut PageOpener,
        page: u64,
        record: &PageRecord,
        fetched: &Fetched,
    ) -> Result<TokenPage> {
        let index = &self.column.index;
        let storage = &fetched.over(&*self.column.storage);
        if let Some(flat) = index.as_flat() {
            let mut loaded = TokenPage::default();
            flat::load(
                index,
                flat,
                &self.fields,
                storage,
                page,
                record,
                &mut loaded,
            )?;
            if let Some(token_ids) = self.token_ids {
                token_ids.check(&loaded, record.first_row_in_group)?;
            }
            return Ok(loaded);
        }
        let leaf = &index.schema(record.file).leaves[0];
        let dictionary = self.column.dictionary(
            &self.dictionaries,
            record,
            self.token_ids,
            storage,
            |bytes| decode_dictionary(opener, bytes, record.codec, leaf),
        )?;
        let mut runs = index.read_runs(storage, page, dictionary.is_none())?;
        let run = runs
            .pop()
            .ok_or_else(|| Error::corrupt("the page has no bytes"))?;
        let number = page;
        let mut page = TokenPage::default();
        let entries = dictionary.as_ref().map(|kept| &kept.dictionary);
        let are_entries = decode_tokens_into(opener, &run, entries, leaf, &mut page)?;
        let are_ids = are_entries && dictionary.is_some_and(|kept| kept.holds_ids_only);
        reader::check_num_values(record, page.tokens.len() as u64)?;
        if let Some(token_ids) = self.token_ids.filter(|_| !are_ids) {
            token_ids.check(&page, record.first_row_in_group)?;
        }
        let rows = index.rows_of_page(number)?;
        let num_columns = self.aligned.iter().map(AlignedColumn::num_columns);
        page.aligned
            .resize_with(num_columns.sum(), Numbers::default);
        let mut columns = &mut page.aligned[..];
        for column in &self.aligned {
            let (own, rest) = columns.split_at_mut(column.num_columns());
            columns = rest;
            column.read(opener, rows.clone(), &page.row_offsets, fetched, own)?;
        }
        Ok(page)
    }

    /// Returns the byte ranges for reading a page, without dictionaries that are kept
    /// or that others fetch.
    fn ranges(
        &self,
        page: u64,
        number: usize,
        dictionaries: &mut DictionaryFetch<'_>,
    ) -> Result<FileRanges> {
        let record = self.column.index.page(page)?;
        let is_wanted = self.column.wants_dictionary(&record, number, dictionaries);
        let own = self.column.index.run_ranges(page, is_wanted)?;
        if self.aligned.is_empty() {
            return Ok(own);
        }
        let rows = self.column.index.rows_of_page(page)?;
        let mut ranges = own.ranges;
        for column in &self.aligned {
            ranges.extend(column.ranges(&rows, number, dictionaries)?);
        }
        Ok(FileRanges::new(own.file, ranges))
    }
}

impl PageSource for TokenColumn {
    fn column(&self) -> Option<&Indexed> {
        Some(&self.column)
    }

    fn entry(&self, page: u64) -> Result<PageEntry> {
        // Four bytes a token is an upper bound for all but 64-bit columns, whose
        // true size the engine learns when the page is there.
        const BYTES_PER_TOKEN: u64 = 4;
        const BYTES_PER_ROW: u64 = 4;
        let record = self.column.index.page(page)?;
        let mut bytes = record.num_values * BYTES_PER_TOKEN + record.num_rows * BYTES_PER_ROW;
        let mut stored = record.compressed_size;
        for column in &self.aligned {
            let rows = self.column.index.rows_of_page(page)?;
            let sizes = column.sizes(rows, record.num_values);
            stored = stored.saturating_add(sizes.0);
            bytes = bytes.saturating_add(sizes.1);
        }
        for field in &self.fields {
            let width = field.number.num_bytes().max(2) as u64;
            bytes = bytes.saturating_add(record.num_values.saturating_mul(width));
        }
        Ok(PageEntry {
            num_values: saturated(record.num_values),
            ..entry_of(&record, stored, bytes)
        })
    }

    fn fetch<'a>(&'a self, pages: &'a [u64]) -> Waiting<'a, Result<Vec<Fetched>>> {
        Box::pin(async move {
            let mut dictionaries = DictionaryFetch::new(&self.dictionaries);
            let mut numbers = 0..;
            let ranges =
                |page| self.ranges(page, numbers.next().unwrap_or_default(), &mut dictionaries);
            let fetched = self.column.fetch(pages, ranges).await?;
            Ok(dictionaries.complete(fetched).await)
        })
    }

    fn decode(&self, page: u64, loading: Loading<'_>) -> Result<Page> {
        self.read(loading.opener, page, loading.fetched)
            .map(Page::Tokens)
    }

    fn slice_tokens(&self, page: u64) -> Option<u64> {
        // A storage that answers late is better asked for pages, ahead of their use.
        let is_flat = self.column.index.as_flat().is_some();
        if !is_flat || self.column.storage.num_in_flight() > 0 {
            return None;
        }
        let record = self.column.index.page(page).ok()?;
        Some(record.num_values)
    }

    fn read_slices(
        &self,
        slices: &mut [&mut PageSlice],
        buffer: &mut Vec<u8>,
    ) -> Result<SliceReads, (u64, Error)> {
        let index = &self.column.index;
        let Some(flat) = index.as_flat() else {
            let page = slices.first().map_or(0, |slice| slice.page);
            return Err((page, Error::internal("the page must be decoded")));
        };
        let storage = &*self.column.storage;
        flat_slices::read(
            index,
            flat,
            &self.fields,
            storage,
            self.token_ids,
            slices,
            buffer,
        )
    }
}

/// Returns the tokens of the rows of pages, one page after another.
pub fn row_lengths(indexed: &Indexed, pages: &[u64]) -> Result<Vec<u32>> {
    let (mut lengths, mut column) = (Vec::new(), None);
    let opener = &mut PageOpener::default();
    let mut add =
        |offsets: &[u32]| lengths.extend(offsets.windows(2).map(|pair| pair[1] - pair[0]));
    for &page in pages {
        if let Some(offsets) = indexed.index.flat_row_offsets(page)? {
            add(&offsets);
            continue;
        }
        if column.is_none() {
            let dictionaries = Arc::new(DictionaryCache::new(0));
            column = Some(TokenColumn::new(indexed.clone(), &dictionaries, None)?);
        }
        if let Some(column) = &column {
            let page = column.read(opener, page, Fetched::NOTHING)?;
            add(&page.row_offsets);
        }
    }
    Ok(lengths)
}
