//! The pages of one column chunk: from what lies in the file to what can be read
//! alone.

use std::ops::Range;

use crate::error::{Error, Result};

/// The page begins in the middle of a record.
pub const STARTS_MID_RECORD: u8 = 1;
/// The page (probably) refers to the dictionary.
pub const NEEDS_DICTIONARY: u8 = 2;
/// A row of the page, a list, holds a null.
pub const HOLDS_NULLS: u8 = 4;

/// A data page as stored in the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredPage {
    /// Number within the chunk, empty pages counted.
    pub number: u64,
    /// Offset in the file.
    pub offset: u64,
    /// Bytes, header included.
    pub size: u64,
    /// Records that begin in it.
    pub num_rows: u64,
    /// Values in it.
    pub num_values: u64,
    /// Values that belong to a record which begins in an earlier page.
    pub leading_values: u64,
    /// Whether the page begins in the middle of a record.
    pub starts_mid_record: bool,
    /// Whether the page (probably) needs the dictionary.
    pub needs_dictionary: bool,
    /// Whether a record that begins in it holds a null token.
    pub holds_nulls: bool,
    /// Whether the record before it does, here.
    pub leading_nulls: bool,
}

/// A page of the index: a stored page, and those after it in which no record begins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page {
    /// Number within the chunk of the first stored page.
    pub number: u64,
    /// Offset in the file.
    pub offset: u64,
    /// Bytes to the end of the last stored page.
    pub size: u64,
    /// Records that begin in it, never 0.
    pub num_rows: u64,
    /// Values of these records, in all pages.
    pub num_values: u64,
    /// [`STARTS_MID_RECORD`] and the others, together.
    pub flags: u8,
}

/// The pages of a chunk.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ChunkPages {
    /// Byte range of the dictionary page.
    pub dictionary: Option<Range<u64>>,
    /// Pages in the order of the file.
    pub pages: Vec<Page>,
}

impl ChunkPages {
    /// Continues stored pages, whose rows must add up to `num_rows`.
    pub fn new(
        dictionary: Option<Range<u64>>,
        stored: &[StoredPage],
        num_rows: u64,
    ) -> Result<Self> {
        let found: u64 = stored.iter().map(|page| page.num_rows).sum();
        if found != num_rows {
            return Err(Error::corrupt(format!(
                "the row group promises {num_rows} rows, the column's pages hold {found}"
            )));
        }
        let mut pages: Vec<Page> = Vec::with_capacity(stored.len());
        for page in stored {
            match pages.last_mut() {
                Some(before) => {
                    before.num_values += page.leading_values;
                    before.flags |= u8::from(page.leading_nulls) * HOLDS_NULLS;
                    if page.num_rows == 0 {
                        before.size = page.offset + page.size - before.offset;
                        before.flags |= needs_dictionary(page);
                        continue;
                    }
                }
                None if page.starts_mid_record => {
                    return Err(Error::corrupt(
                        "the column chunk begins in the middle of a record",
                    )
                    .at_page(page.number)
                    .at_offset(page.offset));
                }
                None => {}
            }
            pages.push(Page {
                number: page.number,
                offset: page.offset,
                size: page.size,
                num_rows: page.num_rows,
                num_values: page.num_values - page.leading_values,
                flags: needs_dictionary(page)
                    | (u8::from(page.holds_nulls) * HOLDS_NULLS)
                    | (u8::from(page.starts_mid_record) * STARTS_MID_RECORD),
            });
        }
        Ok(Self { dictionary, pages })
    }
}

impl ChunkPages {
    /// Returns a page of null rows for a file without the column; `None` for no rows.
    pub fn missing(num_rows: u64) -> Self {
        let page = Page {
            number: 0,
            offset: 0,
            size: 0,
            num_rows,
            num_values: 0,
            flags: 0,
        };
        Self {
            dictionary: None,
            pages: (num_rows > 0).then_some(page).into_iter().collect(),
        }
    }
}

fn needs_dictionary(page: &StoredPage) -> u8 {
    u8::from(page.needs_dictionary) * NEEDS_DICTIONARY
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(number: u64, rows: u64, values: u64, leading: u64, mid: bool) -> StoredPage {
        StoredPage {
            number,
            offset: 100 * (number + 1),
            size: 100,
            num_rows: rows,
            num_values: values,
            leading_values: leading,
            starts_mid_record: mid,
            needs_dictionary: number < 2,
            holds_nulls: false,
            leading_nulls: leading == 4,
        }
    }

    #[test]
    fn a_record_belongs_to_the_page_it_begins_in() {
        let stored = [
            page(0, 2, 10, 0, false),
            page(1, 0, 7, 7, true),
            page(2, 0, 7, 7, true),
            page(3, 3, 9, 4, true),
            page(4, 1, 5, 0, false),
        ];
        let chunk = ChunkPages::new(Some(4..100), &stored, 6).unwrap();
        let numbers: Vec<_> = chunk
            .pages
            .iter()
            .map(|p| {
                (
                    p.number,
                    p.offset,
                    p.size,
                    p.num_rows,
                    p.num_values,
                    p.flags,
                )
            })
            .collect();
        assert_eq!(
            numbers,
            [
                (0, 100, 300, 2, 28, NEEDS_DICTIONARY | HOLDS_NULLS),
                (3, 400, 100, 3, 5, STARTS_MID_RECORD),
                (4, 500, 100, 1, 5, 0),
            ]
        );
    }

    #[test]
    fn rows_must_add_up_and_begin_with_a_record() {
        let pages = [page(0, 2, 2, 0, false)];
        assert!(ChunkPages::new(None, &pages, 3).is_err());
        let pages = [page(0, 2, 2, 1, true)];
        let error = ChunkPages::new(None, &pages, 2).unwrap_err();
        assert_eq!(error.location().page, Some(0));
    }
}
