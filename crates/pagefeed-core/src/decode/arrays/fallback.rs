//! Any column by the `parquet` crate's own reader, fed with pages that are already
//! opened and checked.

use std::collections::VecDeque;
use std::ops::Range;

use arrow_array::ArrayRef;
use bytes::Bytes;
use parquet::arrow::arrow_reader::{
    ParquetRecordBatchReader, RowGroups, RowSelection, RowSelector,
};
use parquet::basic::{Encoding, Type as PhysicalType};
use parquet::column::page::{Page, PageIterator, PageReader};
use parquet::errors::{ParquetError, Result as ParquetResult};
use parquet::file::metadata::{ParquetMetaData, RowGroupMetaData};

use super::records::{Records, check_levels};
use crate::buffers::{RecycledBuffer, check_available};
use crate::decode::cursor::{OpenPage, PageCursor};
use crate::decode::steps::{Step, StepReader};
use crate::decode::tokens::integers::{IntegerReader, Storage, read_dictionary};
use crate::decode::tokens::narrow::is_narrow;
use crate::decode::{PageRun, bounds};
use crate::error::{Error, Result, catch_damage};
use crate::limits::check_page_size;
use crate::page::{DataPage, PageOpener};
use crate::schema::{ColumnSchema, Leaf};
use crate::tokens::Tokens;

/// Decodes rows as [`decode_array`](crate::decode::decode_array) does.
///
/// Leaves of one column begin their pages at different rows. All are read from the
/// earliest such row on: a leaf that begins later gets a gap in front, which the
/// reader skips without asking for its bytes.
pub(crate) fn decode(
    opener: &mut PageOpener,
    schema: &ColumnSchema,
    runs: &[PageRun],
    first_row: u64,
    num_rows: u64,
) -> Result<ArrayRef> {
    let mut base = first_row;
    for run in runs {
        base = base.min(first_record(run)?);
    }
    let rows = first_row..first_row.saturating_add(num_rows);
    let skipped = to_usize(first_row - base)?;
    let selected = to_usize(num_rows)?;
    let mut size = 0u64;
    let mut levels = Vec::new();
    let chunks = schema
        .leaves
        .iter()
        .zip(runs)
        .enumerate()
        .map(|(ordinal, (leaf, run))| {
            let mut records = Records::new(leaf);
            let is_alone = runs.len() == 1;
            let chunk = Chunk::open(opener, leaf, run, base, &rows, |open, decoded_size| {
                let page = &open.page;
                // A list without nulls, alone in its column, cannot contradict anything.
                if !is_alone || leaf.max_repetition > 0 && (!open.is_full() || records.has_nulls())
                {
                    records.append(open)?;
                }
                let data_type = schema.field.data_type();
                let more = bounds::array_size(page, leaf, decoded_size, data_type, ordinal)?;
                size = check_page_size(size.saturating_add(more))?;
                Ok(())
            })?;
            if chunk.num_rows < skipped + selected {
                return Err(Error::corrupt(format!(
                    "rows {first_row} to {} were expected, the pages of {} end with row {}",
                    first_row + num_rows,
                    leaf.path,
                    base + chunk.num_rows as u64
                )));
            }
            levels.push(records);
            Ok((leaf.ordinal, chunk))
        })
        .collect::<Result<Vec<_>>>()?;
    check_levels(&schema.leaves, &levels)?;
    drop(levels);
    let pages = ColumnPages {
        chunks,
        num_rows: skipped + selected,
        metadata: &schema.metadata,
    };
    let selection = (skipped > 0).then(|| {
        RowSelection::from(vec![
            RowSelector::skip(skipped),
            RowSelector::select(selected),
        ])
    });
    // The crate's buffers grow by doubling, and end the process where they cannot.
    check_available(to_usize(size.saturating_mul(2))?)?;
    catch_damage(|| {
        let mut reader = ParquetRecordBatchReader::try_new_with_row_groups(
            &schema.levels,
            &pages,
            selected,
            selection,
        )?;
        let batch = reader
            .next()
            .ok_or_else(|| Error::corrupt("the pages hold no rows"))??;
        Ok(batch.column(0).clone())
    })
}

/// Row at which the first record of a run begins; a partial record counts.
fn first_record(run: &PageRun) -> Result<u64> {
    run.first_row
        .checked_sub(u64::from(run.starts_mid_record))
        .ok_or_else(|| Error::corrupt("the first page of a row group begins inside a record"))
}

fn to_usize(rows: u64) -> Result<usize> {
    usize::try_from(rows).map_err(|_| Error::limit(format!("{rows} rows at once")))
}

/// Pages of one leaf, from the common first row on.
struct Chunk {
    steps: VecDeque<Step>,
    num_rows: usize,
}

impl Chunk {
    /// Opens the pages of a run that some rows of the row group need. `bound` gets each
    /// page and its decoded size and may refuse it.
    fn open(
        opener: &mut PageOpener,
        leaf: &Leaf,
        run: &PageRun,
        base: u64,
        rows: &Range<u64>,
        mut bound: impl FnMut(&OpenPage<'_>, u64) -> Result<()>,
    ) -> Result<Self> {
        let gap = to_usize(first_record(run)? - base)?;
        let mut num_rows = gap + usize::from(run.starts_mid_record);
        let narrow = Storage::of(leaf).ok().filter(|_| is_narrow(leaf));
        let mut steps = VecDeque::new();
        let mut dictionary = None;
        let rows = run.rows_of(rows);
        let mut cursor = PageCursor::new(leaf, run, rows.start..rows.end.min(run.num_rows));
        while let Some(stored) = cursor.next()? {
            if stored.has_indices() && dictionary.is_none() {
                let page = cursor.dictionary()?;
                if let Some(storage) = narrow {
                    read_dictionary(opener, page, run.codec, leaf, storage)?;
                }
                dictionary = Some(Dictionary::open(opener, page, run, leaf)?);
            }
            let open = cursor.open(opener, &stored)?;
            let (page, num_values) = (&open.page, open.num_present);
            let lengths = dictionary.as_ref().and_then(|d| d.lengths.as_deref());
            bound(
                &open,
                bounds::decoded_size(page, leaf, num_values, lengths)?,
            )?;
            if let Some(storage) = narrow
                && !stored.has_indices()
            {
                check_narrow(page, leaf, storage, num_values)?;
            }
            let rows = to_usize(open.num_rows)?;
            num_rows += rows;
            steps.push_back(Step::Data {
                page: rebuild(&open, leaf)?,
                starts_mid_record: open.starts_mid_record,
                num_rows: rows,
            });
        }
        cursor.finish(opener)?;
        if gap > 0 {
            steps.push_front(Step::Gap(gap));
        }
        if let Some(dictionary) = dictionary {
            steps.push_front(Step::Dictionary(dictionary.page));
        }
        Ok(Self { steps, num_rows })
    }
}

/// A dictionary page, checked.
struct Dictionary {
    page: Page,
    /// Lengths of the strings in the dictionary.
    lengths: Option<Vec<u32>>,
}

impl Dictionary {
    fn open(opener: &mut PageOpener, page: &[u8], run: &PageRun, leaf: &Leaf) -> Result<Self> {
        let (num_values, values) = opener.dictionary_page(page, run.codec)?;
        let lengths = match leaf.physical {
            PhysicalType::BYTE_ARRAY => Some(bounds::string_lengths(values, num_values)?),
            _ => bounds::check_dictionary(values, num_values, leaf).map(|()| None)?,
        };
        // The crate keeps a copy of it.
        check_available(values.len().saturating_mul(3))?;
        Ok(Self {
            page: Page::DictionaryPage {
                buf: Bytes::from_owner(RecycledBuffer::concat(&[values])?),
                num_values: to_u32(num_values)?,
                encoding: Encoding::PLAIN,
                is_sorted: false,
            },
            lengths,
        })
    }
}

/// Small integers are cut to their type: what does not fit is refused before.
fn check_narrow(
    page: &DataPage<'_>,
    leaf: &Leaf,
    storage: Storage,
    num_values: usize,
) -> Result<()> {
    let reader = IntegerReader {
        leaf,
        storage,
        narrow: false,
    };
    let mut values = Tokens::default();
    reader.prepare(&mut values, None);
    reader.append(page, num_values, None, &mut values)
}

fn to_u32(size: usize) -> Result<u32> {
    u32::try_from(size).map_err(|_| Error::limit(format!("{size} does not fit 32 bits")))
}

/// The page as one of version 2, its counts being what the levels say.
fn rebuild(open: &OpenPage<'_>, leaf: &Leaf) -> Result<Page> {
    let (page, num_values) = (&open.page, open.num_present);
    let encoding = page.header.encoding();
    let encoding = encoding.ok_or_else(|| Error::invalid("not a data page"))?;
    let values = bounds::without_padding(page, leaf, num_values);
    Ok(Page::DataPageV2 {
        buf: Bytes::from_owner(RecycledBuffer::concat(&[
            page.repetition,
            page.definition,
            values,
        ])?),
        num_values: to_u32(open.num_levels)?,
        encoding,
        num_nulls: to_u32(open.num_levels - num_values)?,
        num_rows: to_u32(to_usize(open.num_rows)?)?,
        def_levels_byte_len: to_u32(page.definition.len())?,
        rep_levels_byte_len: to_u32(page.repetition.len())?,
        is_compressed: false,
        statistics: None,
    })
}

/// The column as the crate's reader asks for it.
struct ColumnPages<'a> {
    chunks: Vec<(usize, Chunk)>,
    num_rows: usize,
    metadata: &'a ParquetMetaData,
}

impl RowGroups for ColumnPages<'_> {
    fn num_rows(&self) -> usize {
        self.num_rows
    }

    fn column_chunks(&self, ordinal: usize) -> ParquetResult<Box<dyn PageIterator>> {
        let (_, chunk) = self
            .chunks
            .iter()
            .find(|(leaf, _)| *leaf == ordinal)
            .ok_or_else(|| ParquetError::General(format!("leaf {ordinal} was not selected")))?;
        let reader = StepReader(chunk.steps.clone());
        Ok(Box::new(OneChunk(Some(reader))))
    }

    fn row_groups(&self) -> Box<dyn Iterator<Item = &RowGroupMetaData> + '_> {
        Box::new(self.metadata.row_groups().iter())
    }

    fn metadata(&self) -> &ParquetMetaData {
        self.metadata
    }
}

struct OneChunk(Option<StepReader>);

impl Iterator for OneChunk {
    type Item = ParquetResult<Box<dyn PageReader>>;

    fn next(&mut self) -> Option<Self::Item> {
        let reader: Box<dyn PageReader> = Box::new(self.0.take()?);
        Some(Ok(reader))
    }
}

impl PageIterator for OneChunk {}
