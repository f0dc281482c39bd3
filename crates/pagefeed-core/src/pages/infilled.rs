//! Pages whose documents are infilled: decoded as they are stored, then written with
//! their parts in another order. Their numbers say for which epoch.

use std::sync::Arc;

use arrow_schema::DataType;

use crate::decode::conform;
use crate::engine::{ExtraReads, Loading, Page, PageEntry, PageSource};
use crate::error::{Error, Result};
use crate::index::Indexed;
use crate::infill::{Infilling, Postponed, arrange_lists};
use crate::storage::{Fetched, Waiting};
use crate::tokens::{PerToken, TokenPage, arrange};

/// Bytes of a token, at most mostly.
const TOKEN_BYTES: usize = 4;

/// Pages of tokens, or of lists, with their documents infilled.
pub struct InfilledPages {
    pages: Arc<dyn PageSource>,
    /// Index that numbers the rows of these pages.
    rows: Indexed,
    infilling: Arc<Infilling>,
    /// For each aligned column of token pages, the bits of the number at special
    /// tokens.
    fillings: Vec<PerToken>,
    /// Type of the lists, and the bits at special tokens unless the lists hold tokens.
    lists: Option<(DataType, Option<u64>)>,
}

impl InfilledPages {
    /// Returns the `pages` of tokens infilled; they belong to the index `rows`.
    pub fn new(
        pages: Arc<dyn PageSource>,
        rows: Indexed,
        infilling: Arc<Infilling>,
        fillings: Vec<PerToken>,
    ) -> Self {
        Self {
            pages,
            rows,
            infilling,
            fillings,
            lists: None,
        }
    }

    /// Returns pages of lists infilled; special tokens are written, or have the bits
    /// `filling`.
    pub fn as_lists(self, data_type: &DataType, filling: Option<u64>) -> Self {
        let lists = Some((data_type.clone(), filling));
        Self { lists, ..self }
    }

    fn arranged(&self, mut plain: TokenPage, first: u64, epoch: u32) -> Result<TokenPage> {
        let num_rows = plain.row_offsets.len().saturating_sub(1);
        let pending = self.infilling.pending(first, num_rows, epoch);
        if self.infilling.within_sequence {
            plain.postponed = Some(Postponed {
                infilling: Arc::clone(&self.infilling),
                rows: pending,
            });
            return Ok(plain);
        }
        let mut page = TokenPage::default();
        let offsets = &plain.row_offsets;
        let rows = pending.iter().map(|pending| {
            let count = offsets[pending.row + 1] - offsets[pending.row];
            self.infilling.arranged(pending, 0..count)
        });
        let rows = rows.collect();
        arrange(&self.infilling, &mut plain, rows, &self.fillings, &mut page)?;
        Ok(page)
    }
}

impl PageSource for InfilledPages {
    fn column(&self) -> Option<&Indexed> {
        self.pages.column()
    }

    fn entry(&self, page: u64) -> Result<PageEntry> {
        let mut entry = self.pages.entry(page)?;
        let rows = self.rows.index.rows_of_page(page)?;
        let share = self.infilling.rate as f64 / (1u64 << 32) as f64;
        let chosen = ((rows.end - rows.start) as f64 * share).ceil() as usize;
        let added = chosen * self.infilling.tokens.len();
        entry.num_values += added;
        // The page as it is stored is there too, while it is loaded.
        entry.loading_size = entry.loading_size.saturating_add(entry.decoded_size);
        entry.decoded_size = entry.decoded_size.saturating_add(added * TOKEN_BYTES);
        Ok(entry)
    }

    fn decoded_size(&self, entry: &PageEntry) -> usize {
        self.pages.decoded_size(entry)
    }

    fn fetch<'a>(&'a self, pages: &'a [u64]) -> Waiting<'a, Result<Vec<Fetched>>> {
        self.pages.fetch(pages)
    }

    fn decode(&self, page: u64, loading: Loading<'_>) -> Result<Page> {
        let epoch = loading.epoch;
        let first = self.rows.index.rows_of_page(page)?.start;
        Ok(match self.pages.decode(page, loading)? {
            Page::Tokens(plain) => Page::Tokens(self.arranged(plain, first, epoch)?),
            Page::Rows(lists) => {
                let Some((data_type, filling)) = &self.lists else {
                    return Err(Error::internal(
                        "expected a page of tokens, found one of rows",
                    ));
                };
                let lists = arrange_lists(&self.infilling, &lists, first, epoch, *filling)?;
                Page::Rows(conform(&lists, data_type)?)
            }
        })
    }

    fn extra_reads(&self) -> ExtraReads {
        self.pages.extra_reads()
    }
}
