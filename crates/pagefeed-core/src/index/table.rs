//! The numbers of one leaf: spans of pages, and the pages in them.

use std::ops::Range;

use arrow_array::types::{UInt8Type, UInt32Type, UInt64Type};
use arrow_array::{ArrayRef, RecordBatch};
use arrow_buffer::ScalarBuffer;
use arrow_schema::Field;

use super::chunk::{ChunkPages, Page};
use super::columns::{columns, list_field, list_row, lists};
use crate::codec::Codec;
use crate::error::{Error, Result};

columns! {
    /// The pages of one leaf in all files, read-only.
    Table,
    /// A [`Table`] that grows.
    TableBuilder:
    /// File number of each span.
    file: u32 as UInt32Type,
    /// Row group of each span.
    row_group: u32 as UInt32Type,
    /// Number within its column chunk of the first page of each span.
    first_number: u32 as UInt32Type,
    /// Codec of each span, by its number in the format.
    codec: u8 as UInt8Type,
    /// Offset in the file of each span.
    offset: u64 as UInt64Type,
    /// Offset in the file of the dictionary page of each span.
    dictionary_offset: u64 as UInt64Type,
    /// Bytes of the dictionary page, 0 where there is none.
    dictionary_size: u32 as UInt32Type,
    /// Pages before each span, and the number of pages.
    first_page: u64 as UInt64Type,
    /// Rows before each span, and the number of rows.
    first_row: u64 as UInt64Type,
    /// Values before each span, and the number of values.
    first_value: u64 as UInt64Type,
    /// Spans before each file, and the number of spans.
    file_first_span: u64 as UInt64Type,
    /// Offset of each page in its span, and the end of the span: one more number per
    /// span.
    page_offset: u32 as UInt32Type,
    /// Rows before each page in its span, and those of the span.
    page_row: u32 as UInt32Type,
    /// Values before each page in its span, and those of the span.
    page_value: u32 as UInt32Type,
    /// Flags of each page.
    page_flags: u8 as UInt8Type,
}

impl TableBuilder {
    /// A table without files.
    pub fn new() -> Self {
        let mut table = Self::default();
        table.first_page.push(0);
        table.first_row.push(0);
        table.first_value.push(0);
        table.file_first_span.push(0);
        table
    }

    /// Appends the pages of a chunk to the file that is being built.
    pub fn push_chunk(&mut self, row_group: u32, codec: Codec, chunk: &ChunkPages) -> Result<()> {
        for (position, page) in chunk.pages.iter().enumerate() {
            if position == 0 || !self.fits(page) {
                self.start_span(row_group, codec, chunk, page)?;
            }
            let relative = |number: u64| {
                u32::try_from(number).map_err(|_| {
                    Error::limit(format!(
                        "the page at offset {} and the pages it needs hold {number} bytes, \
                         rows or values, the limit is {}",
                        page.offset,
                        u32::MAX
                    ))
                })
            };
            let last = self.page_row.len() - 1;
            let rows = relative(u64::from(self.page_row[last]) + page.num_rows)?;
            let values = relative(u64::from(self.page_value[last]) + page.num_values)?;
            let end = relative(page.offset - self.offset[self.offset.len() - 1] + page.size)?;
            self.page_offset.push(end);
            self.page_row.push(rows);
            self.page_value.push(values);
            self.page_flags.push(page.flags);
            let span = self.offset.len();
            self.first_page[span] += 1;
            self.first_row[span] += page.num_rows;
            self.first_value[span] += page.num_values;
        }
        Ok(())
    }

    /// Whether `page` continues the last span.
    fn fits(&self, page: &Page) -> bool {
        let (span, last) = (self.offset.len() - 1, self.page_row.len() - 1);
        let number =
            u64::from(self.first_number[span]) + self.first_page[span + 1] - self.first_page[span];
        let end = self.offset[span] + u64::from(self.page_offset[last]);
        let limit = u64::from(u32::MAX);
        page.number == number
            && page.offset == end
            && end - self.offset[span] + page.size <= limit
            && u64::from(self.page_row[last]) + page.num_rows <= limit
            && u64::from(self.page_value[last]) + page.num_values <= limit
    }

    fn start_span(
        &mut self,
        row_group: u32,
        codec: Codec,
        chunk: &ChunkPages,
        page: &Page,
    ) -> Result<()> {
        let dictionary = chunk.dictionary.clone().unwrap_or(0..0);
        let narrow = |number: u64, what: &str| {
            u32::try_from(number).map_err(|_| Error::limit(format!("{what} is {number}")))
        };
        self.file.push(0);
        self.row_group.push(row_group);
        self.first_number
            .push(narrow(page.number, "a page's number")?);
        self.codec.push(codec as u8);
        self.offset.push(page.offset);
        self.dictionary_offset.push(dictionary.start);
        let size = dictionary.end - dictionary.start;
        self.dictionary_size
            .push(narrow(size, "the size of a dictionary page")?);
        for first in [
            &mut self.first_page,
            &mut self.first_row,
            &mut self.first_value,
        ] {
            first.extend_from_within(first.len() - 1..);
        }
        for fence in [
            &mut self.page_offset,
            &mut self.page_row,
            &mut self.page_value,
        ] {
            fence.push(0);
        }
        Ok(())
    }

    /// Ends the file that is being built.
    pub fn end_file(&mut self) {
        self.file_first_span.push(self.offset.len() as u64);
    }

    /// Appends files of another table.
    pub fn append(&mut self, other: &Table, files: Range<usize>) -> Result<()> {
        let first_file = self.file_first_span.len() - 1;
        let spans =
            other.file_first_span[files.start] as usize..other.file_first_span[files.end] as usize;
        let pages = other.first_page[spans.start] as usize..other.first_page[spans.end] as usize;
        let fences = pages.start + spans.start..pages.end + spans.end;
        for file in &other.file[spans.clone()] {
            let file = first_file + *file as usize - files.start;
            let file = u32::try_from(file).map_err(|_| Error::limit("more than 2^32 files"))?;
            self.file.push(file);
        }
        let rebase = |into: &mut Vec<u64>, from: &[u64]| {
            let base = into[into.len() - 1];
            into.extend(from[1..].iter().map(|number| base + number - from[0]));
        };
        let ends = spans.start..=spans.end;
        rebase(&mut self.first_page, &other.first_page[ends.clone()]);
        rebase(&mut self.first_row, &other.first_row[ends.clone()]);
        rebase(&mut self.first_value, &other.first_value[ends]);
        rebase(
            &mut self.file_first_span,
            &other.file_first_span[files.start..=files.end],
        );
        self.row_group.extend(&other.row_group[spans.clone()]);
        self.first_number.extend(&other.first_number[spans.clone()]);
        self.codec.extend(&other.codec[spans.clone()]);
        self.offset.extend(&other.offset[spans.clone()]);
        self.dictionary_offset
            .extend(&other.dictionary_offset[spans.clone()]);
        self.dictionary_size.extend(&other.dictionary_size[spans]);
        self.page_offset.extend(&other.page_offset[fences.clone()]);
        self.page_row.extend(&other.page_row[fences.clone()]);
        self.page_value.extend(&other.page_value[fences]);
        self.page_flags.extend(&other.page_flags[pages]);
        Ok(())
    }
}

impl Table {
    /// The table of leaf `row` in the persistent form.
    pub fn from_batch(batch: &RecordBatch, row: usize) -> Result<Self> {
        let table = Self::of_row(batch, row)?;
        table.check()?;
        Ok(table)
    }

    /// Bytes of all pages, and of the dictionary page of each chunk.
    pub fn stored_bytes(&self) -> u64 {
        let mut sum = 0u64;
        for span in 0..self.offset.len() {
            let end = self.first_page[span + 1] as usize + span;
            let chunk = |span: usize| (self.file[span], self.dictionary_offset[span]);
            let is_first = span == 0 || chunk(span) != chunk(span - 1);
            let dictionary = if is_first {
                self.dictionary_size[span]
            } else {
                0
            };
            sum += u64::from(self.page_offset[end]) + u64::from(dictionary);
        }
        sum
    }

    /// Refuses columns whose lengths do not match.
    fn check(&self) -> Result<()> {
        let spans = self.file.len();
        let pages = self.page_flags.len();
        let of_spans = [
            self.row_group.len(),
            self.first_number.len(),
            self.codec.len(),
            self.offset.len(),
            self.dictionary_offset.len(),
            self.dictionary_size.len(),
            self.first_page.len().wrapping_sub(1),
            self.first_row.len().wrapping_sub(1),
            self.first_value.len().wrapping_sub(1),
        ];
        let of_pages = [
            self.page_offset.len(),
            self.page_row.len(),
            self.page_value.len(),
        ];
        let last = |first: &[u64]| first.last().copied();
        let fits = of_spans.iter().all(|length| *length == spans)
            && of_pages.iter().all(|length| *length == pages + spans)
            && last(&self.first_page) == Some(pages as u64)
            && last(&self.file_first_span) == Some(spans as u64);
        if !fits {
            return Err(Error::corrupt(
                "the columns of the page index differ in length",
            ));
        }
        match self.adds_up() {
            true => Ok(()),
            false => Err(Error::corrupt(
                "the numbers of the page index contradict each other",
            )),
        }
    }

    /// Whether all numbers rise, and those of spans are the sums of those of pages. Nothing
    /// that looks into the table has to check it again.
    fn adds_up(&self) -> bool {
        let rises = |first: &[u64]| first[0] == 0 && first.is_sorted();
        let all = [
            &self.first_page,
            &self.first_row,
            &self.first_value,
            &self.file_first_span,
        ];
        if !all.into_iter().all(|first| rises(first)) {
            return false;
        }
        let of_files = self.file_first_span.windows(2).zip(0u32..);
        let mut of_files = of_files.map(|(ends, file)| (ends[0] as usize..ends[1] as usize, file));
        let is_of =
            |(spans, file): (Range<usize>, u32)| self.file[spans].iter().all(|&own| own == file);
        of_files.all(is_of)
            && (0..self.file.len()).all(|span| {
                let pages = |at: usize| self.first_page[at] as usize + span;
                let pages = pages(span)..pages(span + 1) + 1;
                let adds_up = |fence: &[u32], first: &[u64]| {
                    let fence = &fence[pages.clone()];
                    let sum = first[span + 1] - first[span];
                    fence[0] == 0 && fence.is_sorted() && u64::from(fence[fence.len() - 1]) == sum
                };
                let ends = [self.offset[span], self.dictionary_offset[span]];
                self.page_offset[pages.clone()].is_sorted()
                    && adds_up(&self.page_row, &self.first_row)
                    && adds_up(&self.page_value, &self.first_value)
                    && ends.iter().all(|&offset| offset <= i64::MAX as u64)
            })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(number: u64, offset: u64, size: u64, num_rows: u64, num_values: u64) -> Page {
        Page {
            number,
            offset,
            size,
            num_rows,
            num_values,
            flags: 0,
        }
    }

    fn table(pages: Vec<Page>) -> Result<Table> {
        let mut file = TableBuilder::new();
        let dictionary = Some(4..100);
        file.push_chunk(0, Codec::Zstd, &ChunkPages { dictionary, pages })?;
        file.end_file();
        Ok(file.finish())
    }

    #[test]
    fn numbers_beyond_32_bits_open_a_new_span() {
        let giga = 1 << 30;
        let pages = (0..12).map(|n| page(n, 100 + n * giga, giga, 2 * giga, 3 * giga));
        let table = table(pages.collect()).unwrap();
        table.check().unwrap();
        // The values are the first to pass 32 bits: one page a span.
        assert_eq!(table.file.len(), 12);
        let last = table.record(11).unwrap();
        assert_eq!((last.page, last.offset), (11, 100 + 11 * giga));
        assert_eq!((last.first_row, last.num_rows), (22 * giga, 2 * giga));
        assert_eq!(last.num_values, 3 * giga);
        assert_eq!(table.page_of_row(23 * giga).unwrap(), 11);
        assert_eq!(table.page_of_value(36 * giga - 1).unwrap(), 11);
        assert_eq!(table.page_of_value(33 * giga - 1).unwrap(), 10);
    }

    #[test]
    fn spans_end_at_gaps_and_at_pages_that_are_joined() {
        let table = table(vec![
            page(0, 100, 10, 1, 5),
            page(1, 110, 10, 1, 0),
            page(2, 130, 10, 1, 0), // after a gap
            page(4, 140, 10, 1, 2), // page 3 was joined to page 2
        ])
        .unwrap();
        assert_eq!(&table.first_page[..], [0, 2, 3, 4]);
        let numbers: Vec<_> = (0..4).map(|n| table.record(n).unwrap().page).collect();
        assert_eq!(numbers, [0, 1, 2, 4]);
        assert_eq!(table.page_of_value(4).unwrap(), 0);
        assert_eq!(
            table.page_of_value(5).unwrap(),
            3,
            "pages without values are skipped"
        );
        assert_eq!(table.codec(table.find(3).unwrap()).unwrap(), Codec::Zstd);
    }

    #[test]
    fn files_of_tables_are_joined_in_any_order() {
        let of = |sizes: [u64; 2]| {
            let mut all = TableBuilder::new();
            for size in sizes {
                let pages = vec![page(0, 100, size, 2, 7), page(1, 100 + size, 9, 1, 3)];
                all.append(&table(pages).unwrap(), 0..1).unwrap();
            }
            all.finish()
        };
        let (one, other) = (of([10, 20]), of([30, 40]));
        let mut joined = TableBuilder::new();
        joined.append(&other, 1..2).unwrap();
        joined.append(&one, 0..2).unwrap();
        joined.append(&other, 0..1).unwrap();
        let joined = joined.finish();
        joined.check().unwrap();
        assert_eq!(&joined.file[..], [0, 1, 2, 3]);
        assert_eq!(joined.stored_bytes(), 4 * 96 + 100 + 4 * 9);
        let sizes = (0..8).map(|page| joined.record(page).unwrap().compressed_size);
        assert_eq!(sizes.collect::<Vec<_>>(), [40, 9, 10, 9, 20, 9, 30, 9]);
        let last = joined.record(7).unwrap();
        assert_eq!((last.file, last.first_row, last.num_values), (3, 2, 3));
    }

    #[test]
    fn numbers_that_contradict_each_other_are_refused() {
        let pages = vec![page(0, 100, 10, 2, 7), page(1, 110, 9, 1, 3)];
        let file = table(pages).unwrap();
        let changes: [fn(&mut TableBuilder); 12] = [
            |_| (),
            |table| table.first_page[0] = 2,
            |table| table.first_page[1] = 3,
            |table| table.first_row[1] += 1,
            |table| table.first_row[1] = u64::MAX,
            |table| table.first_value[2] -= 1,
            |table| table.file_first_span[0] = 1,
            |table| table.file[0] = 1,
            |table| table.page_row[1] = u32::MAX,
            |table| table.page_value[0] = 1,
            |table| table.page_offset[1] = u32::MAX,
            |table| table.offset[0] = 1 << 63,
        ];
        for (number, change) in changes.into_iter().enumerate() {
            let mut both = TableBuilder::new();
            both.append(&file, 0..1).unwrap();
            both.append(&file, 0..1).unwrap();
            change(&mut both);
            assert_eq!(both.finish().check().is_ok(), number == 0, "{number}");
        }
    }

    #[test]
    fn a_page_beyond_32_bits_is_refused() {
        let error = table(vec![page(0, 100, 10, 1, 1 << 33)]).unwrap_err();
        assert_eq!(error.kind(), crate::Kind::Limit);
    }
}
