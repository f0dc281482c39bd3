//! From a page's number to its bytes: one run of stored pages per leaf.

use std::ops::{Range, RangeInclusive};

use bytes::Bytes;

use super::chunk::{NEEDS_DICTIONARY, STARTS_MID_RECORD};
use super::lookup::Found;
use super::page_index::Index;
use super::table::Table;
use crate::buffers::RecycledBuffer;
use crate::decode::PageRun;
use crate::error::{Error, Result};
use crate::header::{PageHeader, PageKind};
use crate::limits::MAX_READ_BYTES;
use crate::storage::{FileId, FileRanges, Storage};

impl Index {
    /// Reads the stored bytes of `page`, one run per leaf of its schema.
    /// `with_dictionary` false leaves the dictionary page of the first leaf out (the
    /// caller has it already).
    pub fn read_runs(
        &self,
        store: &dyn Storage,
        page: u64,
        with_dictionary: bool,
    ) -> Result<Vec<PageRun>> {
        self.check_mapped()?;
        let runs = runs(self, page)?;
        let file = runs.file;
        self.compare_once(store, self.pages().file[runs.found.span] as usize)?;
        let schema = self.schema(self.pages().file[runs.found.span]);
        let each = runs.of_leaves.zip(&schema.leaves).enumerate();
        each.map(|(number, (run, leaf))| {
            run.and_then(|run| run.read(store, &file, with_dictionary || number > 0))
                .map_err(|error| {
                    error
                        .in_file(&file.path)
                        .in_chunk(self.pages().row_group[runs.found.span], &leaf.path)
                })
        })
        .collect()
    }

    /// Byte ranges that [`Index::read_runs`] reads.
    pub fn run_ranges(&self, page: u64, with_dictionary: bool) -> Result<FileRanges> {
        let runs = runs(self, page)?;
        let mut ranges = Vec::new();
        for (number, run) in runs.of_leaves.enumerate() {
            let run = run?;
            ranges.extend(run.dictionary.filter(|_| with_dictionary || number > 0));
            ranges.extend(run.stretches);
        }
        Ok(FileRanges::new(runs.file, ranges))
    }
}

/// Runs of all leaves that make up a page.
struct Runs<I> {
    /// The page.
    found: Found,
    file: FileId,
    of_leaves: I,
}

fn runs(index: &Index, page: u64) -> Result<Runs<impl Iterator<Item = Result<Run>>>> {
    let driving = index.pages();
    let found = driving.find(page)?;
    let rows = driving.first_row_of_page(page)?..driving.first_row_of_page(page + 1)?;
    if rows.is_empty() && index.tables.len() > 1 {
        return Err(Error::corrupt(format!(
            "page {page} of the index has no rows"
        )));
    }
    let of_leaf = move |(number, table): (usize, &Table)| {
        let pages = if number == index.driving {
            page..=page
        } else {
            table.page_of_row(rows.start)?..=table.page_of_row(rows.end - 1)?
        };
        Run::new(table, pages)
    };
    Ok(Runs {
        found,
        file: index.file(driving.file[found.span] as usize),
        of_leaves: index.tables.iter().enumerate().map(of_leaf),
    })
}

/// Consecutive pages of one leaf: everything about a [`PageRun`] but its bytes.
struct Run {
    /// Stretches without gaps, in order.
    stretches: Vec<Range<u64>>,
    dictionary: Option<Range<u64>>,
    run: PageRun,
}

impl Run {
    /// Returns the runs of `pages`, which are in one column chunk and have at least one
    /// row.
    fn new(table: &Table, pages: RangeInclusive<u64>) -> Result<Self> {
        let first = table.find(*pages.start())?;
        let (mut stretches, mut flags) = (Vec::<Range<u64>>::new(), 0);
        let mut add = |found| {
            let bytes = table.byte_range(found);
            flags |= table.flags(found);
            match stretches.last_mut() {
                _ if bytes.is_empty() => {} // A run of a file that lacks the column.
                Some(last) if last.end == bytes.start => last.end = bytes.end,
                _ => stretches.push(bytes),
            }
        };
        for page in pages.clone() {
            add(table.find(page)?);
        }
        let tail = table.tail(table.find(*pages.end())?);
        tail.into_iter().for_each(add);
        let tail_size = tail.map_or(0, |tail| {
            let bytes = table.byte_range(tail);
            bytes.end.saturating_sub(bytes.start) as usize
        });
        let first_row = table.first_row_of_page(*pages.start())?;
        let run = PageRun {
            data: Bytes::new(),
            dictionary: None,
            codec: table.codec(first)?,
            starts_mid_record: table.flags(first) & STARTS_MID_RECORD != 0,
            first_row: first_row.saturating_sub(table.first_row_of_group(first)),
            num_rows: table
                .first_row_of_page(*pages.end() + 1)?
                .saturating_sub(first_row),
            tail_size,
        };
        let dictionary = table.dictionary(first);
        Ok(Self {
            stretches,
            dictionary: dictionary.filter(|_| flags & NEEDS_DICTIONARY != 0),
            run,
        })
    }

    fn read(
        mut self,
        store: &dyn Storage,
        file: &FileId,
        with_dictionary: bool,
    ) -> Result<PageRun> {
        let dictionary = self.dictionary.take().filter(|_| with_dictionary);
        // Dictionary and first data page are neighbours: one read for both.
        let mut num_before = 0;
        if let (Some(dictionary), [first, ..]) = (&dictionary, &mut self.stretches[..])
            && dictionary.end == first.start
        {
            num_before = (dictionary.end - dictionary.start) as usize;
            first.start = dictionary.start;
        }
        let mut data = self.read_stretches(store, file)?;
        if let Some(range) = dictionary {
            let page = match num_before {
                0 => store.read(file, range)?,
                size => data.split_to(size),
            };
            self.run.dictionary = dictionary_page(page)?;
        }
        self.run.data = data;
        Ok(self.run)
    }

    fn read_stretches(&self, store: &dyn Storage, file: &FileId) -> Result<Bytes> {
        if let [range] = &self.stretches[..] {
            return store.read(file, range.clone());
        }
        let size = self.stretches.iter().try_fold(0u64, |sum, range| {
            sum.checked_add(range.end.saturating_sub(range.start))
        });
        let size = size
            .filter(|&size| size <= MAX_READ_BYTES as u64)
            .ok_or_else(|| {
                Error::limit(format!(
                    "the pages of one record are larger than {MAX_READ_BYTES} bytes"
                ))
            })?;
        let mut data = RecycledBuffer::new(size as usize)?;
        let mut at = 0;
        for range in &self.stretches {
            let bytes = store.read(file, range.clone())?;
            data[at..at + bytes.len()].copy_from_slice(&bytes);
            at += bytes.len();
        }
        Ok(Bytes::from_owner(data))
    }
}

/// Returns the dictionary page out of the bytes before the first data page, if there is
/// one.
fn dictionary_page(bytes: Bytes) -> Result<Option<Bytes>> {
    let header = PageHeader::parse(&bytes)?
        .ok_or_else(|| Error::corrupt("the dictionary page's header is incomplete"))?;
    if !matches!(header.kind, PageKind::Dictionary { .. }) {
        return Ok(None);
    }
    let size = header.stored_size();
    if size > bytes.len() {
        return Err(Error::corrupt(format!(
            "the dictionary page has {size} bytes, the first data page begins after {}",
            bytes.len()
        )));
    }
    Ok(Some(bytes.slice(..size)))
}
