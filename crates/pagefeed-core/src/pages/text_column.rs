//! Pages of a column of texts, whose texts are tokenized as the pages are loaded.

use arrow_array::ArrayRef;
use arrow_schema::DataType;

use crate::decode::conform;
use crate::engine::{Loading, Page, PageEntry, PageSource};
use crate::error::{Error, Result};
use crate::index::Indexed;
use crate::page::PageOpener;
use crate::pages::reader::read_columns;
use crate::pages::text::Tokenization;
use crate::pages::token_ids::TokenIds;
use crate::storage::Fetched;
use crate::tokens::TokenPage;

/// Pages of a column of texts: loading one includes encoding it.
pub struct TextColumn {
    column: Indexed,
    tokenization: Tokenization,
    /// Valid ids, if other numbers are refused.
    token_ids: Option<TokenIds>,
    /// Whether labels are read with the tokens.
    with_labels: bool,
    /// Arrow type of the lists to return; `None` for tokens.
    lists: Option<DataType>,
}

impl TextColumn {
    /// The pages of an index, as pages of tokens.
    pub fn new(
        column: Indexed,
        tokenization: Tokenization,
        token_ids: Option<TokenIds>,
    ) -> Result<Self> {
        let index = &column.index;
        // Without files there is nothing that could be no text.
        if index.num_files() > 0 {
            let checked = tokenization.encoder.check(index.field());
            checked.map_err(|error| error.in_column(index.column()))?;
        }
        Ok(Self {
            with_labels: tokenization.is_labels,
            column,
            tokenization,
            token_ids,
            lists: None,
        })
    }

    /// Adds a label for each token.
    pub fn with_labels(self) -> Result<Self> {
        if !self.tokenization.encoder.has_labels() {
            let column = self.column.index.column();
            return Err(Error::unsupported(format!(
                "texts of {column:?} have no labels"
            )));
        }
        Ok(Self {
            with_labels: true,
            ..self
        })
    }

    /// Returns the pages as Arrow lists.
    pub fn as_lists(self, data_type: &DataType) -> Self {
        let lists = Some(data_type.clone());
        Self { lists, ..self }
    }

    /// Reads and encodes a page.
    pub fn read(&self, opener: &mut PageOpener, page: u64, fetched: &Fetched) -> Result<TokenPage> {
        let record = self.column.index.page(page)?;
        let (rows, columns) = read_columns(
            &self.column,
            &self.tokenization.beside,
            opener,
            page,
            fetched,
        )?;
        let encoded = self
            .tokenization
            .encode(&columns, rows.start, self.with_labels);
        let checked = encoded.and_then(|page| {
            if let Some(token_ids) = self.token_ids {
                token_ids.check(&page, record.first_row_in_group)?;
            }
            Ok(page)
        });
        checked.map_err(|error| self.column.locate(error, &record))
    }

    /// Reads the rows as Arrow lists.
    pub fn read_lists(
        &self,
        opener: &mut PageOpener,
        page: u64,
        fetched: &Fetched,
    ) -> Result<ArrayRef> {
        self.tokenization
            .as_lists(self.read(opener, page, fetched)?)
    }
}

impl PageSource for TextColumn {
    fn column(&self) -> Option<&Indexed> {
        Some(&self.column)
    }

    fn entry(&self, page: u64) -> Result<PageEntry> {
        let index = &self.column.index;
        Ok(self
            .tokenization
            .entry(index.rows_of_page(page)?, &index.page(page)?))
    }

    fn decode(&self, page: u64, loading: Loading<'_>) -> Result<Page> {
        let tokens = self.read(loading.opener, page, loading.fetched)?;
        match &self.lists {
            None => Ok(Page::Tokens(tokens)),
            Some(data_type) => {
                let lists = self.tokenization.as_lists(tokens)?;
                conform(&lists, data_type).map(Page::Rows)
            }
        }
    }
}
