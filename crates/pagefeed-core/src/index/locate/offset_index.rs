//! The page indexes a writer may have left near the footer: where pages lie
//! (`OffsetIndex`) and how many levels they hold (`ColumnIndex`).

use crate::error::{Error, Result};
use crate::footer::Chunk;
use crate::limits::MAX_COMPRESSED_PAGE_BYTES;
use crate::schema::Leaf;
use crate::thrift::{Reader, Wire, read_fields};

/// Location of a data page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageLocation {
    /// Offset in the file.
    pub offset: u64,
    /// Bytes, header included.
    pub size: u64,
    /// Row of the row group with which it begins.
    pub first_row: u64,
}

/// Returns an error about an implausible index, with advice.
pub fn wrong(what: impl std::fmt::Display) -> Error {
    Error::corrupt(format!(
        "the file's page index cannot be right: {what}; build with page_index=False to \
         read the page headers instead"
    ))
}

/// Parses an offset index and checks it against its chunk.
pub fn parse_offset_index(bytes: &[u8], chunk: &Chunk, num_rows: u64) -> Result<Vec<PageLocation>> {
    let (mut locations, mut reader) = (Vec::new(), Reader::new(bytes));
    read_fields!(reader, {
        (1, Wire::List) => for _ in 0..reader.list_of(Wire::Struct)? {
            locations.push(parse_location(reader)?);
        },
    })
    .map_err(|error| wrong(error.message()))?;
    check(&locations, chunk, num_rows)?;
    Ok(locations)
}

fn parse_location(reader: &mut Reader<'_>) -> Result<PageLocation> {
    let (mut offset, mut size, mut first_row) = (None, None, None);
    read_fields!(reader, {
        (1, Wire::I64) => offset = Some(reader.count("a page's offset")?),
        (2, Wire::I32) => size = Some(reader.size("a page's size")? as u64),
        (3, Wire::I64) => first_row = Some(reader.count("a page's first row")?),
    })?;
    match (offset, size, first_row) {
        (Some(offset), Some(size), Some(first_row)) => Ok(PageLocation {
            offset,
            size,
            first_row,
        }),
        _ => Err(Error::corrupt("a page location is incomplete")),
    }
}

fn check(locations: &[PageLocation], chunk: &Chunk, num_rows: u64) -> Result<()> {
    let range = chunk.byte_range();
    match locations.first() {
        None => return Err(wrong("it lists no page of a chunk that has values")),
        Some(first) if first.first_row != 0 => {
            return Err(wrong(format!("it begins with row {}", first.first_row)));
        }
        Some(_) => {}
    }
    let (mut end, mut first_row) = (range.start, 0);
    for (number, page) in locations.iter().enumerate() {
        let at = |what: String| wrong(format!("page {number} {what}"));
        if page.size == 0 || page.size > MAX_COMPRESSED_PAGE_BYTES as u64 {
            return Err(at(format!("has {} bytes", page.size)));
        }
        if page.offset < end {
            return Err(at(format!("at {} begins before {end}", page.offset)));
        }
        if page.first_row < first_row || page.first_row > num_rows {
            return Err(at(format!(
                "begins with row {} after row {first_row} of {num_rows}",
                page.first_row
            )));
        }
        end = page.offset.saturating_add(page.size);
        if end > range.end {
            return Err(at(format!(
                "ends at {end}, after the end of its chunk at {}",
                range.end
            )));
        }
        first_row = page.first_row;
    }
    Ok(())
}

/// Levels of the pages of a chunk, as far as the writer counted them.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct LevelHistograms {
    null_counts: Vec<u64>,
    repetition: Vec<u64>,
    definition: Vec<u64>,
}

/// Levels of one page, as its histograms count them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PageLevels {
    /// Records that begin in the page.
    pub num_rows: u64,
    /// Values in the page.
    pub num_values: u64,
    /// All levels of the page.
    pub num_levels: u64,
    /// Nulls that are elements of a list.
    pub num_nulls: u64,
}

impl LevelHistograms {
    /// Parses a column index; its bounds are skipped.
    pub fn parse(bytes: &[u8]) -> Result<Self> {
        let mut index = Self::default();
        let mut reader = Reader::new(bytes);
        read_fields!(reader, {
            (5, Wire::List) => index.null_counts = reader.counts("a level count")?,
            (6, Wire::List) => index.repetition = reader.counts("a level count")?,
            (7, Wire::List) => index.definition = reader.counts("a level count")?,
        })
        .map_err(|error| wrong(error.message()))?;
        Ok(index)
    }

    /// Returns the level counts of a whole chunk, from the footer.
    pub fn of_chunk(chunk: &Chunk) -> Self {
        Self {
            null_counts: chunk.num_nulls.into_iter().collect(),
            repetition: chunk.repetition_levels.clone(),
            definition: chunk.definition_levels.clone(),
        }
    }

    /// Returns the levels of page `page` of `num_pages`, which has `num_rows` rows by
    /// the offset index. `None` if the writer did not count what is needed.
    pub fn page(
        &self,
        page: usize,
        num_pages: usize,
        num_rows: u64,
        leaf: &Leaf,
    ) -> Result<Option<PageLevels>> {
        let repetition = counts_of_page(&self.repetition, page, num_pages, leaf.max_repetition)?;
        let definition = counts_of_page(&self.definition, page, num_pages, leaf.max_definition)?;
        let nulls = counts_of_page(&self.null_counts, page, num_pages, 0)?.map(|counts| counts[0]);
        let (num_rows, num_levels) = match repetition {
            Some(counts) => (counts[0], sum(counts)?),
            None if leaf.max_repetition == 0 => (num_rows, num_rows),
            None => return Ok(None),
        };
        let num_values = match (definition, leaf.max_definition, nulls) {
            (Some(counts), ..) if sum(counts)? != num_levels => {
                return Err(wrong(format!(
                    "page {page} has {num_levels} repetition and {} definition levels",
                    sum(counts)?
                )));
            }
            (Some(counts), ..) => counts[counts.len() - 1],
            (None, 0, _) => num_levels,
            // One level only: null or not.
            (None, 1, Some(nulls)) if nulls <= num_levels => num_levels - nulls,
            _ => return Ok(None),
        };
        let element = usize::from(leaf.descriptor.repeated_ancestor_def_level().unsigned_abs());
        let nulls = definition.filter(|_| leaf.max_repetition > 0);
        let nulls = nulls.and_then(|counts| counts.get(element..counts.len() - 1));
        Ok(Some(PageLevels {
            num_rows,
            num_values,
            num_levels,
            num_nulls: sum(nulls.unwrap_or_default())?,
        }))
    }
}

/// Returns the counts of one page, `max_level + 1` of them.
fn counts_of_page(
    counts: &[u64],
    page: usize,
    num_pages: usize,
    max_level: i16,
) -> Result<Option<&[u64]>> {
    let width = usize::from(max_level.unsigned_abs()) + 1;
    if counts.is_empty() {
        return Ok(None);
    }
    if counts.len() != num_pages * width {
        return Err(wrong(format!(
            "{} level counts for {num_pages} pages of {width} levels",
            counts.len()
        )));
    }
    Ok(Some(&counts[page * width..(page + 1) * width]))
}

fn sum(counts: &[u64]) -> Result<u64> {
    counts
        .iter()
        .try_fold(0u64, |sum, count| sum.checked_add(*count))
        .ok_or_else(|| wrong("its level counts overflow"))
}
