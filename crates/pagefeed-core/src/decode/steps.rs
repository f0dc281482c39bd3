//! Opened pages as the `parquet` crate's readers ask for them, step by step.

use std::collections::VecDeque;

use parquet::column::page::{Page, PageMetadata, PageReader};
use parquet::errors::{ParquetError, Result as ParquetResult};

/// One step of a column chunk.
#[derive(Clone)]
pub(crate) enum Step {
    /// The dictionary, in front of everything.
    Dictionary(Page),
    /// Rows without bytes, always skipped.
    Gap(usize),
    /// A data page.
    Data {
        page: Page,
        starts_mid_record: bool,
        num_rows: usize,
    },
}

/// Yields the pages of one column chunk.
pub(crate) struct StepReader(pub(crate) VecDeque<Step>);

impl PageReader for StepReader {
    fn get_next_page(&mut self) -> ParquetResult<Option<Page>> {
        match self.0.pop_front() {
            None => Ok(None),
            Some(Step::Dictionary(page) | Step::Data { page, .. }) => Ok(Some(page)),
            Some(Step::Gap(rows)) => Err(ParquetError::General(format!(
                "{rows} rows before the first page were to be skipped"
            ))),
        }
    }

    /// Returns row counts only for pages that hold whole records, which may be skipped
    /// unread.
    fn peek_next_page(&mut self) -> ParquetResult<Option<PageMetadata>> {
        let Some(step) = self.0.front() else {
            return Ok(None);
        };
        let (num_rows, is_dict) = match *step {
            Step::Dictionary(_) => (None, true),
            Step::Gap(rows) => (Some(rows), false),
            Step::Data {
                starts_mid_record,
                num_rows,
                ..
            } => {
                let ends_mid_record = self.starts_mid_record(1);
                let is_whole = !starts_mid_record && !ends_mid_record;
                (is_whole.then_some(num_rows), false)
            }
        };
        Ok(Some(PageMetadata {
            num_rows,
            num_levels: None,
            is_dict,
        }))
    }

    fn skip_next_page(&mut self) -> ParquetResult<()> {
        self.0.pop_front();
        Ok(())
    }

    fn at_record_boundary(&mut self) -> ParquetResult<bool> {
        Ok(!self.starts_mid_record(0))
    }
}

impl StepReader {
    /// Reads one page of whole rows without lists.
    pub(crate) fn of_one(page: Page) -> Self {
        let num_rows = page.num_values() as usize;
        Self(VecDeque::from([Step::Data {
            page,
            starts_mid_record: false,
            num_rows,
        }]))
    }

    fn starts_mid_record(&self, index: usize) -> bool {
        matches!(
            self.0.get(index),
            Some(Step::Data {
                starts_mid_record: true,
                ..
            })
        )
    }
}

impl Iterator for StepReader {
    type Item = ParquetResult<Page>;

    fn next(&mut self) -> Option<Self::Item> {
        self.get_next_page().transpose()
    }
}
