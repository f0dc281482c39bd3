//! Bundles: rows of several pages that are loaded, packed and let go as one.

mod append;

use std::collections::HashMap;
use std::ops::Range;
use std::sync::{Arc, OnceLock};

use super::page_key::PageHasher;

use arrow_array::{Array, ArrayRef};
use arrow_select::concat::concat;

use self::append::{PageRows, append};
use super::{EngineConfig, Loading, Page, PageEntry, PageSource};
use crate::error::{Error, Result};
use crate::infill::Postponed;
use crate::packing::{Packing, pack};
use crate::page::PageOpener;
use crate::storage::Fetched;
use crate::tokens::{PerToken, TokenPage, arrange};

/// Bundles that the segments of a plan refer to: rows of several pages, joined.
#[derive(Clone, Debug, Default)]
pub struct Bundles {
    /// Stands for the bundle in `Plan::page`: not the number of a page, and equal in
    /// every plan.
    pub key: Vec<u64>,
    /// Sequences its rows pack into.
    pub num_sequences: Vec<u32>,
    /// Slices of bundle `b`: `slice_offsets[b]..slice_offsets[b + 1]`.
    pub slice_offsets: Vec<u32>,
    /// Page of each slice of a bundle.
    pub slice_page: Vec<u64>,
    /// First row of the page.
    pub slice_row: Vec<u32>,
    /// Number of its rows.
    pub slice_rows: Vec<u32>,
    /// Runs of erased rows of bundle `b`: `erased_offsets[b]..erased_offsets[b + 1]`.
    /// Erased rows are packed like others, and their positions are left empty.
    pub erased_offsets: Vec<u32>,
    /// First row of each run, counted within the bundle.
    pub erased_first: Vec<u32>,
    /// One past its last.
    pub erased_end: Vec<u32>,
}

impl Bundles {
    pub(super) fn by_key(&self) -> Result<HashMap<u64, Arc<Bundle>, PageHasher>> {
        let (num_bundles, num_slices) = (self.key.len(), self.slice_page.len());
        let (offsets, erased) = (&self.slice_offsets, &self.erased_offsets);
        let is_whole = self.num_sequences.len() == num_bundles
            && self.slice_row.len() == num_slices
            && self.slice_rows.len() == num_slices
            && are_offsets(offsets, num_bundles, num_slices)
            && self.erased_first.len() == self.erased_end.len()
            && (are_offsets(erased, num_bundles, self.erased_end.len()) || erased.is_empty());
        if !is_whole {
            return Err(Error::invalid(format!(
                "the arrays of a plan's bundles do not fit together: {num_bundles} keys, {} \
                 numbers of sequences, {} slice_offsets, and for {num_slices} slices {} first rows \
                 and {} numbers of rows",
                self.num_sequences.len(),
                offsets.len(),
                self.slice_row.len(),
                self.slice_rows.len()
            )));
        }
        let bundle = |number: usize| {
            let slices = offsets[number] as usize..offsets[number + 1] as usize;
            let slices = slices.map(|slice| PageRows {
                page: self.slice_page[slice],
                first_row: self.slice_row[slice],
                num_rows: self.slice_rows[slice],
            });
            let mut bundle = Bundle::new(slices.collect(), self.num_sequences[number]);
            if let [first, end] = erased.get(number..number + 2).unwrap_or_default() {
                let runs = *first as usize..*end as usize;
                bundle.erased = runs
                    .map(|run| self.erased_first[run]..self.erased_end[run])
                    .collect();
            }
            (self.key[number], Arc::new(bundle))
        };
        Ok((0..num_bundles).map(bundle).collect())
    }
}

/// Whether offsets rise from 0 to `last`, for `count` things.
fn are_offsets(offsets: &[u32], count: usize, last: usize) -> bool {
    offsets.len() == count + usize::from(count > 0)
        && offsets.is_sorted()
        && offsets.first().is_none_or(|&first| first == 0)
        && offsets.last().map_or(0, |&end| end as usize) == last
}

/// Joined rows of several pages. A bundle is loaded like a page, by its key.
#[derive(Debug)]
pub struct Bundle {
    /// Slices; those of one page are consecutive.
    slices: Vec<PageRows>,
    /// Rising runs of rows whose positions are left empty.
    erased: Vec<Range<u32>>,
    /// Sequences its rows are promised to pack into.
    num_sequences: u32,
    packing: OnceLock<Packing>,
}

impl Bundle {
    pub(super) fn new(slices: Vec<PageRows>, num_sequences: u32) -> Self {
        Self {
            slices,
            erased: Vec::new(),
            num_sequences,
            packing: OnceLock::new(),
        }
    }

    /// Memory it takes, the packing left out.
    pub(super) fn num_bytes(&self) -> usize {
        size_of::<Self>()
            + self.slices.capacity() * size_of::<PageRows>()
            + self.erased.capacity() * size_of::<Range<u32>>()
    }

    /// Memory of the packing, if its rows have been loaded.
    pub(super) fn packing_bytes(&self) -> usize {
        self.packing.get().map_or(0, Packing::num_bytes)
    }

    /// The packing of its rows, after they were loaded.
    pub(super) fn packing(&self) -> Option<&Packing> {
        self.packing.get()
    }

    /// Whether the positions of a row are left empty; rows are counted over all slices.
    pub(super) fn is_erased(&self, row: u32) -> bool {
        let next = self.erased.partition_point(|run| run.end <= row);
        self.erased.get(next).is_some_and(|run| run.contains(&row))
    }

    /// Yields its pages without repeats, with the slices of each.
    fn by_page(&self) -> impl Iterator<Item = (u64, &[PageRows])> {
        let slices = self.slices.chunk_by(|one, next| one.page == next.page);
        slices.map(|slices| (slices[0].page, slices))
    }

    /// Its pages, without repeats.
    pub(super) fn pages(&self) -> Vec<u64> {
        self.by_page().map(|(page, _)| page).collect()
    }

    /// Sums of the source's facts about its pages. While it is loaded, it needs in
    /// addition one decoded page, and one or all pages as stored.
    pub(super) fn entry(&self, source: &dyn PageSource) -> PageEntry {
        let mut sum = PageEntry::default();
        for (page, _) in self.by_page() {
            let page = source.entry(page).unwrap_or_default();
            sum.file = page.file;
            let decoded = source.decoded_size(&page);
            sum.num_values = sum.num_values.saturating_add(page.num_values);
            sum.stored_size = sum.stored_size.saturating_add(page.stored_size);
            sum.decoded_size = sum.decoded_size.saturating_add(decoded);
            let loading = decoded.saturating_add(page.loading_size);
            sum.loading_size = sum.loading_size.max(loading);
        }
        if source.num_in_flight() > 0 {
            sum.loading_size = sum.loading_size.saturating_add(sum.stored_size);
        }
        sum
    }

    /// The page it begins with.
    pub(super) fn first_page(&self) -> Option<u64> {
        self.slices.first().map(|slice| slice.page)
    }

    /// Decodes its pages from what was fetched, joins their rows, and packs these.
    pub(super) fn decode(
        &self,
        source: &dyn PageSource,
        config: &EngineConfig,
        epoch: u32,
        fetched: &[Fetched],
        opener: &mut PageOpener,
    ) -> Result<TokenPage> {
        let mut joined = TokenPage {
            row_offsets: vec![0],
            ..TokenPage::default()
        };
        let count = self.entry(source).num_values;
        let mut rows: Vec<Vec<ArrayRef>> = Vec::new();
        if fetched.is_empty() {
            self.by_page().for_each(|(page, _)| source.will_need(page));
        }
        for (number, (page, slices)) in self.by_page().enumerate() {
            let loading = Loading {
                opener,
                fetched: fetched.get(number).unwrap_or(Fetched::NOTHING),
                epoch,
            };
            let mut decoded = source
                .decode(page, loading)
                .and_then(Page::into_tokens)
                .map_err(|error| source.locate(error, page))?;
            let own = std::mem::take(&mut decoded.metadata);
            for slice in slices {
                append(&mut joined, &decoded, slice, count, &config.layout.aligned)
                    .map_err(|error| source.locate(error, page))?;
                let (first, count) = (slice.first_row as usize, slice.num_rows as usize);
                rows.push(own.iter().map(|array| array.slice(first, count)).collect());
            }
        }
        joined.metadata = concat_columns(&rows)?;
        if let Some(rule) = config.layout.packing {
            self.pack(&joined, config, rule)
                .map_err(|error| match self.slices.first() {
                    Some(slice) => source.locate(error, slice.page),
                    None => error,
                })?;
        }
        match joined.postponed.take() {
            Some(postponed) => self.infilled(joined, &postponed, config),
            None => Ok(joined),
        }
    }

    /// Infills rows by the tokens that each sequence has of them.
    fn infilled(
        &self,
        mut plain: TokenPage,
        postponed: &Postponed,
        config: &EngineConfig,
    ) -> Result<TokenPage> {
        let separators = config.separators();
        let own_token = |token: u32| token - separators.bos_before(token);
        let infilling = &postponed.infilling;
        let packing = self.packing();
        let packing =
            packing.ok_or_else(|| Error::internal("the rows of a bundle were not packed"))?;
        let parts = packing.by_row();
        let rows = postponed.rows.iter().map(|pending| {
            let row = pending.row as u32;
            let first = parts.partition_point(|part| part.row < row);
            let own = parts[first..].iter().take_while(|part| part.row == row);
            let count = plain.row_offsets[pending.row + 1] - plain.row_offsets[pending.row];
            let end = count + infilling.num_added();
            let parts = own.map(|part| {
                let behind = own_token(part.first_token + part.num_tokens).min(end);
                own_token(part.first_token).min(behind)..behind
            });
            infilling.arranged_in(pending, count, parts)
        });
        let rows = rows.collect();
        let columns = config.layout.aligned.iter().map(|column| column.per_token);
        let columns: Vec<PerToken> = columns.collect();
        let mut page = TokenPage::default();
        arrange(infilling, &mut plain, rows, &columns, &mut page)?;
        Ok(page)
    }

    fn pack(
        &self,
        page: &TokenPage,
        config: &EngineConfig,
        rule: crate::packing::Rule,
    ) -> Result<()> {
        if self.packing.get().is_some() {
            return Ok(()); // Loaded again: the rows are the same.
        }
        let per_row = config.separators().per_row();
        let lengths: Vec<u32> = page
            .row_offsets
            .windows(2)
            .enumerate()
            .map(|(row, pair)| {
                let added = page.postponed.as_ref().map_or(0, |rows| rows.added(row));
                (pair[1] - pair[0]).saturating_add(per_row + added)
            })
            .collect();
        let length = u32::try_from(config.row_length).unwrap_or(u32::MAX);
        let packing = pack(&lengths, length, rule)?;
        if packing.num_sequences() != self.num_sequences as usize {
            return Err(Error::corrupt(format!(
                "{} rows pack into {} sequences, the plan counts on {}; the file does not hold \
                 what the index promises",
                lengths.len(),
                packing.num_sequences(),
                self.num_sequences
            )));
        }
        // Another load of the same bundle may have been faster.
        let _ = self.packing.set(packing);
        Ok(())
    }
}

/// Returns the metadata columns of all slices, concatenated.
fn concat_columns(slices: &[Vec<ArrayRef>]) -> Result<Vec<ArrayRef>> {
    let column = |column: usize| {
        let arrays = slices.iter().filter_map(|arrays| arrays.get(column));
        let arrays: Vec<&dyn Array> = arrays.map(AsRef::as_ref).collect();
        Ok(concat(&arrays)?)
    };
    let count = slices.first().map_or(0, Vec::len);
    (0..count).map(column).collect()
}
