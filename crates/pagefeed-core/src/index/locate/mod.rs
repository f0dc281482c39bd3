//! From a column chunk to its pages, by the cheapest way that proves their rows and
//! values.

mod offset_index;
mod regions;
mod walk;
mod whole;

use std::ops::Range;

use super::chunk::{ChunkPages, StoredPage};
use offset_index::{LevelHistograms, PageLevels, PageLocation, parse_offset_index, wrong};
pub use regions::Regions;
pub use walk::{ChunkReader, FORGOTTEN_BYTES};
pub use whole::whole;

use crate::error::{Error, Result};
use crate::footer::Chunk;
use crate::limits::MAX_COMPRESSED_PAGE_BYTES;
use crate::schema::Leaf;

/// Byte ranges of the file's page index that a chunk needs.
pub fn index_ranges<'a>(chunk: &'a Chunk, leaf: &Leaf) -> impl Iterator<Item = Range<u64>> + 'a {
    let column_index = chunk
        .column_index
        .as_ref()
        .filter(|_| needs_level_counts(chunk, leaf));
    chunk
        .offset_index
        .as_ref()
        .into_iter()
        .flat_map(move |range| [Some(range.clone()), column_index.cloned()])
        .flatten()
}

/// Whether the number of values does not follow from rows and page locations.
fn needs_level_counts(chunk: &Chunk, leaf: &Leaf) -> bool {
    leaf.max_repetition > 0 || (leaf.max_definition > 0 && chunk.num_nulls != Some(0))
}

/// Refuses a chunk of a column without lists that has not one value for each row.
fn check_values(chunk: &Chunk, leaf: &Leaf, num_rows: u64) -> Result<()> {
    if leaf.max_repetition == 0 && chunk.num_values != num_rows {
        return Err(Error::corrupt(format!(
            "the row group has {num_rows} rows, its column chunk {} values",
            chunk.num_values
        )));
    }
    Ok(())
}

/// Returns the pages of `chunk`, from its page index if `regions` has it.
pub fn locate(
    reader: &mut ChunkReader<'_>,
    regions: Option<&Regions>,
    chunk: &Chunk,
    leaf: &Leaf,
    num_rows: u64,
) -> Result<ChunkPages> {
    check_values(chunk, leaf, num_rows)?;
    if chunk.num_values == 0 {
        return ChunkPages::new(None, &[], num_rows);
    }
    let found = |reader: &mut ChunkReader<'_>| {
        if let (Some(regions), Some(offset_index)) = (regions, &chunk.offset_index) {
            let bytes = regions.get(offset_index)?;
            let locations = parse_offset_index(bytes, chunk, num_rows)?;
            if !leaves_out_headers(&locations, chunk) {
                return indexed(reader, regions, &locations, chunk, leaf, num_rows);
            }
        }
        let (dictionary, pages) = reader.walk()?;
        ChunkPages::new(dictionary, &pages, num_rows)
    };
    let pages = found(reader)?;
    match reader.finds_miscounted(&pages) {
        true => found(reader),
        false => Ok(pages),
    }
}

/// Whether the sizes of pages are those without their headers, as parquet-go of xitongsys and
/// parquet-dotnet write them: bytes are left after every page.
fn leaves_out_headers(locations: &[PageLocation], chunk: &Chunk) -> bool {
    let next = locations.iter().skip(1).map(|page| page.offset);
    let ends = next.chain([chunk.byte_range().end]);
    let mut pages = locations.iter().zip(ends);
    pages.all(|(page, end)| page.offset + page.size < end)
}

fn indexed(
    reader: &mut ChunkReader<'_>,
    regions: &Regions,
    locations: &[PageLocation],
    chunk: &Chunk,
    leaf: &Leaf,
    num_rows: u64,
) -> Result<ChunkPages> {
    let dictionary = dictionary_range(chunk, locations[0].offset)?;
    let dictionary_pages = match dictionary {
        Some(_) => chunk.dictionary_pages.unwrap_or(u64::MAX),
        None => 0,
    };
    let needs_counts = needs_level_counts(chunk, leaf);
    // Without lists, the counts in the index may come from wrong statistics, too.
    let reads_all = leaf.max_repetition == 0 && leaf.max_definition > 0 && !reader.trusts_counts();
    let histograms = match &chunk.column_index {
        Some(range) if needs_counts && !reads_all => LevelHistograms::parse(regions.get(range)?)?,
        _ => LevelHistograms::default(),
    };
    let (mut pages, mut levels) = (Vec::with_capacity(locations.len()), 0u64);
    let mut rows_miscounted = false;
    for (number, location) in locations.iter().enumerate() {
        let next = locations
            .get(number + 1)
            .map_or(num_rows, |next| next.first_row);
        let rows = next - location.first_row;
        let counted = if needs_counts || reads_all {
            histograms.page(number, locations.len(), rows, leaf)?
        } else {
            Some(PageLevels {
                num_rows: rows,
                num_values: rows,
                num_levels: rows,
                num_nulls: 0,
            })
        };
        let number = number as u64;
        let (page, num_levels) = match counted {
            // Arrow C++ before 23 counts a record again in every batch it writes of it;
            // the first such page of a chunk must prove that its location is right.
            Some(counted) if counted.num_rows == rows || rows_miscounted => {
                let needs_dictionary = number < dictionary_pages;
                let page = counted_page(number, location, counted, needs_dictionary);
                let page = StoredPage {
                    num_rows: rows,
                    ..page
                };
                (page, counted.num_levels)
            }
            Some(counted) => {
                let read = read_page(reader, number, location)?;
                rows_miscounted =
                    read.1 == counted.num_levels && read.0.num_values == counted.num_values;
                read
            }
            None => read_page(reader, number, location)?,
        };
        check_page(&page, num_levels, rows)?;
        levels = levels.saturating_add(num_levels);
        if page.num_rows > 0 {
            pages.push(page);
        }
    }
    if levels != chunk.num_values {
        return Err(wrong(format!(
            "its pages hold {levels} levels, the chunk {}",
            chunk.num_values
        )));
    }
    ChunkPages::new(dictionary, &pages, num_rows)
}

/// Returns a page whose facts are all in the index.
fn counted_page(
    number: u64,
    location: &PageLocation,
    levels: PageLevels,
    needs_dictionary: bool,
) -> StoredPage {
    StoredPage {
        number,
        offset: location.offset,
        size: location.size,
        num_rows: levels.num_rows,
        num_values: levels.num_values,
        leading_values: 0,
        starts_mid_record: false,
        needs_dictionary,
        holds_nulls: levels.num_nulls > 0,
        leading_nulls: false,
    }
}

/// Reads the facts of a page that the index lacks; the page must be where the index
/// says.
fn read_page(
    reader: &mut ChunkReader<'_>,
    number: u64,
    location: &PageLocation,
) -> Result<(StoredPage, u64)> {
    let located = |error: Error| error.at_page(number).at_offset(location.offset);
    let header = reader.header(location.offset).map_err(located)?;
    let num_levels = match header.num_levels() {
        Some(num_levels) if header.stored_size() as u64 == location.size => num_levels,
        _ => {
            return Err(located(wrong(format!(
                "a data page of {} bytes was expected, found {:?} of {}",
                location.size,
                header.kind,
                header.stored_size()
            ))));
        }
    };
    if num_levels == 0 {
        let nothing = PageLevels::default();
        return Ok((counted_page(number, location, nothing, false), 0));
    }
    let page = reader
        .stored_page(number, location.offset, &header)
        .map_err(located)?;
    Ok((page, num_levels as u64))
}

/// Checks that an indexed page begins with a record and has the rows of the index.
fn check_page(page: &StoredPage, num_levels: u64, num_rows: u64) -> Result<()> {
    let what = if page.starts_mid_record {
        "begins in the middle of a record".to_string()
    } else if page.num_rows != num_rows {
        format!("holds {} rows, not {num_rows}", page.num_rows)
    } else if page.num_rows == 0 && num_levels > 0 {
        "holds a part of a row".to_string()
    } else {
        return Ok(());
    };
    let error = wrong(format!("page {} {what}", page.number));
    Err(error.at_page(page.number).at_offset(page.offset))
}

/// Everything before the first data page.
pub fn dictionary_range(chunk: &Chunk, first_page: u64) -> Result<Option<Range<u64>>> {
    let start = chunk.byte_range().start;
    if start >= first_page {
        return Ok(None);
    }
    if first_page - start > MAX_COMPRESSED_PAGE_BYTES as u64 {
        return Err(wrong(format!(
            "{} bytes before the first page",
            first_page - start
        )));
    }
    Ok(Some(start..first_page))
}
