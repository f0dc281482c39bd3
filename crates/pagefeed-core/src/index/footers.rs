//! An index that others wrote, held against the footers of its files.
//!
//! The writer of an index says where the pages of a column lie. Before anything else is read
//! of a local file, its footer must be the one that was indexed, and must have these pages in
//! the chunks of the column. That would be another request for each remote file: these are compared
//! where that is asked for, see [`Index::changed_files`].

use std::sync::atomic::{AtomicBool, Ordering};

use super::locate::FORGOTTEN_BYTES;
use super::page_index::Index;
use super::table::Table;
use crate::error::{Error, Result};
use crate::footer::{Chunk, Footer, RowGroup, read_tail};
use crate::storage::Storage;

impl Index {
    /// The same index, whose local files are compared with their footers when they are first
    /// read.
    pub fn of_others(&self) -> Result<Self> {
        if self.flat.is_some() || self.of_table {
            return Err(Error::corrupt(
                "it is not an index of a column of Parquet files",
            ));
        }
        let is_remote = |file| AtomicBool::new(self.path(file).contains("://"));
        Ok(Self {
            compared: Some((0..self.num_files()).map(is_remote).collect()),
            ..self.clone()
        })
    }

    /// Compares a file with its footer, unless that was done.
    pub(super) fn compare_once(&self, store: &dyn Storage, file: usize) -> Result<()> {
        if let Some(done) = self
            .compared
            .as_ref()
            .and_then(|compared| compared.get(file))
            && !done.load(Ordering::Relaxed)
        {
            self.compare(store, file)?;
            done.store(true, Ordering::Relaxed);
        }
        Ok(())
    }

    /// Refuses a file whose footer is not the one that was indexed, or does not have the pages
    /// of the index.
    pub(super) fn compare(&self, store: &dyn Storage, file: usize) -> Result<()> {
        let id = self.file(file);
        let has_these = || -> Result<bool> {
            let tail = read_tail(store, &id)?;
            if tail.digest() != self.files.digest(file) {
                return Ok(false);
            }
            let footer = Footer::parse(tail.footer(), tail.footer_start, &self.column)?;
            let schema = self.schema(file as u32);
            let mut tables = self.tables.iter().take(schema.leaves.len()).enumerate();
            Ok(footer.schema == schema.footer
                && tables.all(|(leaf, table)| {
                    table.has_pages_of(file, leaf, &footer.row_groups, tail.footer_start)
                }))
        };
        match has_these() {
            Ok(true) => Ok(()),
            Ok(false) => Err(Error::corrupt(format!(
                "the index has other pages of {:?} than the footer of the file: whoever wrote the \
                 index made them up, or damaged it; write it again with `pagefeed index --output \
                 ... --force`",
                self.column
            ))
            .in_file(&id.path)),
            Err(error) => Err(error.in_file(&id.path)),
        }
    }
}

impl Table {
    /// Whether the pages of a file are those of the chunks of a leaf: all its rows, in order.
    fn has_pages_of(
        &self,
        file: usize,
        leaf: usize,
        groups: &[RowGroup],
        footer_start: u64,
    ) -> bool {
        let at = |file: usize| self.file_first_span.get(file).map(|span| *span as usize);
        let (Some(mut span), Some(end)) = (at(file), at(file + 1)) else {
            return false;
        };
        let are_all = groups.iter().enumerate().all(|(number, group)| {
            let Some(chunk) = group.chunks.get(leaf) else {
                return false;
            };
            let (mut rows, mut begin) = (0, chunk.byte_range().start);
            while span < end && self.row_group[span] as usize == number {
                let Some(after) = self.end_in_chunk(span, chunk, begin, footer_start) else {
                    return false;
                };
                rows += self.first_row[span + 1].saturating_sub(self.first_row[span]);
                (begin, span) = (after, span + 1);
            }
            rows == group.num_rows
        });
        are_all && span == end
    }

    /// The end of a span of pages that lies in a chunk, `begin` or later; `None` if it does not.
    fn end_in_chunk(
        &self,
        span: usize,
        chunk: &Chunk,
        begin: u64,
        footer_start: u64,
    ) -> Option<u64> {
        let first = self.offset[span];
        let pages = *self
            .page_offset
            .get(self.first_page[span + 1] as usize + span)?;
        let end = first.checked_add(u64::from(pages))?;
        let size = u64::from(self.dictionary_size[span]);
        let before = match size {
            0 => chunk.byte_range().start..first,
            _ => self.dictionary_offset[span]..self.dictionary_offset[span].checked_add(size)?,
        };
        let limit = (chunk.byte_range().end + FORGOTTEN_BYTES).min(footer_start);
        let is_inside = self.codec[span] == chunk.codec as u8
            && before.start >= chunk.byte_range().start
            && before.end <= first
            && (begin..=end).contains(&first)
            && end <= limit;
        is_inside.then_some(end)
    }
}
