//! Metadata of the documents in a batch, part by part.

use arrow_array::{ArrayRef, RecordBatch};

use super::gathering::Gathering;
use crate::engine::Page;
use crate::error::Result;
use crate::gather::{LineRange, OwnTokens};
use crate::metadata::DocumentPart;
use crate::tokens::TokenPage;

/// Documents that were written, whole or in part, in the order of their positions.
#[derive(Debug, Default)]
pub(super) struct DocumentParts {
    parts: Vec<DocumentPart>,
    /// Page (its number among the batch's uses, or after these if it was read without
    /// its page), and row in it.
    rows: Vec<(usize, usize)>,
    /// Metadata of rows that were read without their pages.
    loose: Vec<Vec<ArrayRef>>,
}

impl DocumentParts {
    /// Records which document a line at a position of the batch belongs to.
    pub fn note(
        &mut self,
        page_use: usize,
        page: &TokenPage,
        line: LineRange,
        own: OwnTokens,
        at: Position,
    ) {
        let found = page.infilled.binary_search_by_key(&line.row, |row| row.row);
        let Ok(arranged) = found.map(|number| &page.infilled[number]) else {
            return self.add(page_use, line, own, at);
        };
        let num_tokens = page.row_offsets[line.row + 1] - page.row_offsets[line.row];
        let asked = own.first_token as u32..(own.first_token + own.count) as u32;
        for run in arranged.own(num_tokens - arranged.num_added(), asked) {
            let run = OwnTokens {
                num_before: own.num_before + run.offset as usize,
                from: own.from + run.offset as usize,
                first_token: run.first_token as usize,
                count: run.num_tokens as usize,
            };
            self.add(page_use, line, run, at);
        }
    }

    fn add(&mut self, page_use: usize, line: LineRange, own: OwnTokens, at: Position) {
        if own.count > 0 {
            self.parts.push(DocumentPart {
                sequence: at.sequence,
                start: at.offset + own.num_before,
                first_token: own.first_token,
                num_tokens: own.count,
            });
            self.rows.push((page_use, line.row));
        }
    }

    /// Keeps the metadata of rows that were read without their page, for the next lines
    /// recorded. Returns the number that stands for their page, after the `num_uses`
    /// pages.
    pub fn keep(&mut self, rows: Vec<ArrayRef>, num_uses: usize) -> usize {
        self.loose.push(rows);
        num_uses + self.loose.len() - 1
    }

    /// Appends the table of these documents; concatenates all `tables` if the batch is
    /// complete.
    pub fn finish(self, batch: &Gathering<'_>, tables: &mut Vec<RecordBatch>) -> Result<()> {
        let Some(schema) = &batch.config.layout.metadata else {
            return Ok(());
        };
        // Numbers of the pages that have rows here, among these.
        let mut sources: Vec<&[ArrayRef]> = Vec::new();
        let mut source_of = vec![usize::MAX; batch.pages.len() + self.loose.len()];
        let picks = self.rows.iter().map(|&(page_use, row)| {
            if source_of[page_use] == usize::MAX {
                source_of[page_use] = sources.len();
                let page = batch.pages.get(page_use).and_then(Option::as_deref);
                let page = page.and_then(Page::tokens).map(|page| &page.metadata);
                let loose = || self.loose.get(page_use.checked_sub(batch.pages.len())?);
                sources.push(page.or_else(loose).map_or(&[], Vec::as_slice));
            }
            (source_of[page_use], row)
        });
        let picks: Vec<(usize, usize)> = picks.collect();
        tables.push(schema.table(&self.parts, &sources, &picks)?);
        if batch.is_last {
            let table = schema.concat(tables)?;
            tables.clear();
            tables.push(table);
        }
        Ok(())
    }
}

/// A position in a batch.
#[derive(Clone, Copy, Debug)]
pub(super) struct Position {
    pub sequence: usize,
    /// Token of the sequence.
    pub offset: usize,
}
