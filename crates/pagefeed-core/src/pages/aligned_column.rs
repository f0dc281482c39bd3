//! Columns that come with the tokens of the same rows, whatever their pages are.

use std::ops::Range;
use std::sync::Arc;

use crate::decode::{NumberRows, NumberType, Numbers, OpenedRun, decode_number_dictionary};
use crate::error::{Error, Kind, Result};
use crate::index::PageRecord;
use crate::page::PageOpener;
use crate::pages::dictionaries::{DictionaryCache, KeptDictionary};
use crate::pages::dictionary_fetch::DictionaryFetch;
use crate::pages::indexed::Indexed;
use crate::pages::reader;
use crate::pages::row_ranges::{PageRows, SharedPage, SharedPages};
use crate::storage::Storage;

/// A column of lists of numbers with one for each token.
pub struct AlignedColumn {
    column: Indexed,
    number: NumberType,
    dictionaries: Arc<DictionaryCache>,
    shared: Arc<SharedPages>,
}

impl AlignedColumn {
    /// The pages of an index; `dictionaries` keeps decoded dictionaries, `shared` the pages
    /// of which other rows may be wanted soon.
    pub fn new(
        column: Indexed,
        dictionaries: &Arc<DictionaryCache>,
        shared: &Arc<SharedPages>,
    ) -> Result<Self> {
        let index = &column.index;
        let number = NumberType::of(index.field().data_type());
        let depth = |file| {
            let schema = index.schema(u32::try_from(file).unwrap_or(u32::MAX));
            match &schema.leaves[..] {
                [leaf] => Some(leaf.max_repetition),
                _ => None,
            }
        };
        let is_flat = (0..index.files().len()).all(|file| depth(file).is_some_and(|d| d <= 1));
        let Some(number) = number.filter(|_| is_flat) else {
            return Err(Error::unsupported(format!(
                "a column with a value for every token is a list of numbers, but {:?} is {}",
                index.column(),
                index.field().data_type()
            ))
            .in_column(index.column()));
        };
        Ok(Self {
            number,
            dictionaries: Arc::clone(dictionaries),
            shared: Arc::clone(shared),
            column,
        })
    }

    /// The column as it is indexed.
    pub(super) fn indexed(&self) -> &Indexed {
        &self.column
    }

    /// Bytes that reading these rows takes, as stored; and as decoded.
    pub fn sizes(&self, rows: Range<u64>, num_values: u64) -> (u64, u64) {
        let stored = self.column.page_rows(&rows).map_or(0, |parts| {
            let sizes = parts.iter().map(|part| part.record.compressed_size);
            sizes.sum()
        });
        let width = self.number.num_bytes().max(2) as u64;
        (stored, num_values.saturating_mul(width))
    }

    /// What reading these rows takes, for the page of this number in its fetch, but for
    /// pages and dictionaries that are kept or that others fetch.
    pub(super) fn ranges(
        &self,
        rows: &Range<u64>,
        number: usize,
        dictionaries: &mut DictionaryFetch<'_>,
    ) -> Result<Vec<Range<u64>>> {
        let mut ranges = Vec::new();
        for part in self.column.page_rows(rows)? {
            let column = &self.column;
            let is_wanted = column.wants_dictionary(&part.record, number, dictionaries);
            if !self.shared.has(column, &part) {
                ranges.extend(column.index.run_ranges(part.page, is_wanted)?.ranges);
            } else if is_wanted {
                ranges.extend(part.record.dictionary);
            }
        }
        Ok(ranges)
    }

    /// Reads these rows, which must be as long as those of the tokens, by their offsets.
    pub fn read(
        &self,
        opener: &mut PageOpener,
        rows: Range<u64>,
        offsets: &[u32],
        storage: &dyn Storage,
        recycle: Numbers,
    ) -> Result<Numbers> {
        let mut numbers = NumberRows::new(self.number, recycle);
        for part in self.column.page_rows(&rows)? {
            let before = numbers.offsets.len() - 1;
            self.read_part(opener, &part, storage, &mut numbers)
                .and_then(|()| check_lengths(&part, &offsets[before..], &numbers, before))
                .map_err(|error| self.column.locate(error, &part.record))?;
        }
        Ok(numbers.values)
    }

    fn read_part(
        &self,
        opener: &mut PageOpener,
        part: &PageRows,
        storage: &dyn Storage,
        numbers: &mut NumberRows,
    ) -> Result<()> {
        let (index, record) = (&self.column.index, &part.record);
        opener.verify_checksums = self.column.verify_checksums;
        let dictionary = self.dictionary(opener, record, storage)?;
        let leaf = &index.schema(record.file).leaves[0];
        let open = || {
            let mut runs = index.read_runs(storage, part.page, false)?;
            let run = runs
                .pop()
                .ok_or_else(|| Error::corrupt("the page has no bytes"))?;
            let run = OpenedRun::open(opener, &run, leaf)?;
            reader::check_num_values(record, run.num_values())?;
            Ok(SharedPage::Numbers(Arc::new(run)))
        };
        let SharedPage::Numbers(run) = self.shared.get_or_make(&self.column, part, open)? else {
            return Err(Error::internal("a page of rows, not of numbers"));
        };
        let entries = dictionary.as_ref().map(|kept| &*kept.dictionary);
        numbers.append(&run, entries, leaf, part.rows.clone())
    }

    fn dictionary(
        &self,
        opener: &mut PageOpener,
        record: &PageRecord,
        storage: &dyn Storage,
    ) -> Result<Option<KeptDictionary>> {
        let index = &self.column.index;
        let leaf = &index.schema(record.file).leaves[0];
        self.column
            .dictionary(&self.dictionaries, record, None, storage, |bytes| {
                decode_number_dictionary(opener, bytes, record.codec, leaf, self.number)
            })
    }
}

/// Refuses a row that has not as many numbers as tokens.
fn check_lengths(
    part: &PageRows,
    tokens: &[u32],
    numbers: &NumberRows,
    before: usize,
) -> Result<()> {
    let found = numbers.offsets[before..].windows(2);
    let lengths = found.map(|pair| pair[1] - pair[0]);
    let expected = tokens.windows(2).map(|pair| pair[1] - pair[0]);
    let mut both = lengths.zip(expected).enumerate();
    let Some((row, (found, expected))) = both.find(|(_, (one, other))| one != other) else {
        return Ok(());
    };
    let row = part.record.first_row_in_group + (part.rows.start + row) as u64;
    Err(Error::new(
        Kind::Corrupt,
        format!(
            "row {row} of the row group has {found} values and {expected} tokens: a column \
             with a value for every token has as many; mend the row, or leave the column out \
             of aligned"
        ),
    ))
}
