//! Runs of pages that a shuffle moves as one: how much is read for what is used.

use super::chunk::NEEDS_DICTIONARY;
use super::page_index::Index;
use super::table::Table;

/// Dictionaries that take no more than this together can simply be kept.
const SMALL_DICTIONARIES: u64 = 64 << 20;
/// Pages of a run take at least this many times the bytes of the dictionary, which is
/// then at most a quarter of what is read.
const PAGES_PER_DICTIONARY: u64 = 3;

impl Index {
    /// First page of each row group that has pages.
    pub fn row_group_runs(&self) -> Vec<u64> {
        let pages = self.pages();
        chunk_spans(pages)
            .map(|spans| pages.first_page[spans.start])
            .collect()
    }

    /// First pages of the runs into which column chunks are divided: each is as short as
    /// makes reading the chunk's dictionary worth it. `None` if all dictionaries are small
    /// enough to be kept.
    pub fn dictionary_runs(&self) -> Option<Vec<u64>> {
        let pages = self.pages();
        let dictionaries: u64 = chunk_spans(pages)
            .map(|spans| u64::from(pages.dictionary_size[spans.start]))
            .sum();
        (dictionaries > SMALL_DICTIONARIES).then(|| runs_worth_a_dictionary(pages))
    }
}

/// Returns the spans of each column chunk.
fn chunk_spans(pages: &Table) -> impl Iterator<Item = std::ops::Range<usize>> {
    let num_spans = pages.offset.len();
    let mut start = 0;
    std::iter::from_fn(move || {
        let first = (pages.file.get(start)?, pages.row_group.get(start)?);
        let end = (start..num_spans)
            .find(|&span| (&pages.file[span], &pages.row_group[span]) != first)
            .unwrap_or(num_spans);
        Some(std::mem::replace(&mut start, end)..end)
    })
}

fn runs_worth_a_dictionary(pages: &Table) -> Vec<u64> {
    let mut runs = Vec::new();
    for spans in chunk_spans(pages) {
        let worth = u64::from(pages.dictionary_size[spans.start]) * PAGES_PER_DICTIONARY;
        let first_run = runs.len();
        // The first page opens a run, a later one when the run before is worth it.
        let mut bytes = u64::MAX;
        for span in spans {
            for page in pages.first_page[span]..pages.first_page[span + 1] {
                if bytes >= worth {
                    runs.push(page);
                    bytes = 0;
                }
                // There is one more fencepost than pages in every span.
                let fence = page as usize + span;
                let size = pages.page_offset[fence + 1].saturating_sub(pages.page_offset[fence]);
                let needs = pages.page_flags[page as usize] & NEEDS_DICTIONARY != 0;
                bytes = if needs {
                    bytes + u64::from(size)
                } else {
                    u64::MAX
                };
            }
        }
        // What is left at the end of the chunk goes to the run before.
        if bytes < worth && runs.len() > first_run + 1 {
            runs.pop();
        }
    }
    runs
}

#[cfg(test)]
mod tests {
    use super::super::chunk::{ChunkPages, Page};
    use super::super::table::TableBuilder;
    use super::*;
    use crate::codec::Codec;

    fn chunk(dictionary_size: u64, sizes: &[u64], needs_dictionary: bool) -> ChunkPages {
        let mut offset = 4 + dictionary_size;
        let pages = sizes.iter().enumerate().map(|(number, &size)| {
            let page = Page {
                number: number as u64,
                offset,
                size,
                num_rows: 1,
                num_values: 10,
                flags: if needs_dictionary {
                    NEEDS_DICTIONARY
                } else {
                    0
                },
            };
            offset += size;
            page
        });
        ChunkPages {
            pages: pages.collect(),
            dictionary: (dictionary_size > 0).then(|| 4..4 + dictionary_size),
        }
    }

    fn table(chunks: &[ChunkPages]) -> Table {
        let mut file = TableBuilder::new();
        for (row_group, chunk) in chunks.iter().enumerate() {
            file.push_chunk(row_group as u32, Codec::Snappy, chunk)
                .unwrap();
        }
        file.end_file();
        file.finish()
    }

    #[test]
    fn a_run_is_the_shortest_that_pays_for_its_dictionary() {
        let table = table(&[
            chunk(100, &[100, 150, 50, 300, 100], true),
            chunk(0, &[10, 10], false),
            chunk(1000, &[10, 10, 10], true),
        ]);
        assert_eq!(runs_worth_a_dictionary(&table), [0, 3, 5, 6, 7]);
    }

    #[test]
    fn row_groups_begin_runs() {
        let table = table(&[chunk(0, &[10; 3], false), chunk(0, &[10; 2], false)]);
        let starts: Vec<u64> = chunk_spans(&table)
            .map(|spans| table.first_page[spans.start])
            .collect();
        assert_eq!(starts, [0, 3]);
    }
}
