//! Columns that come with the tokens of the same rows, in any pages.

use std::ops::Range;
use std::sync::Arc;

use crate::decode::{NumberRows, OpenedRun, decode_number_dictionary};
use crate::error::{Error, Result};
use crate::index::Indexed;
use crate::index::PageRecord;
use crate::page::PageOpener;
use crate::pages::dictionaries::{DictionaryCache, KeptDictionary};
use crate::pages::dictionary_fetch::DictionaryFetch;
use crate::pages::reader;
use crate::pages::row_ranges::{PageRows, SharedPage, SharedPages};
use crate::storage::{Fetched, Storage};
use crate::tokens::{Dictionary, Given, NumberType, Numbers, PerToken};

/// A column of lists with a number for each token.
pub struct AlignedColumn {
    column: Indexed,
    number: NumberType,
    per_token: PerToken,
    dictionaries: Arc<DictionaryCache>,
    shared: Arc<SharedPages>,
}

impl AlignedColumn {
    /// Returns the pages of an index with numbers for each token. `dictionaries` keeps
    /// decoded dictionaries, `shared` pages whose other rows may be wanted soon.
    pub fn new(
        column: Indexed,
        per_token: PerToken,
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
        let first = depth(0);
        let fits = (0..index.num_files())
            .all(|file| depth(file).is_some_and(|found| found <= 2 && Some(found) == first));
        let Some(number) = number.filter(|_| fits) else {
            return Err(Error::unsupported(format!(
                "a column with values for every token is a list of numbers, or of lists of \
                 them, in all files alike, but {:?} is {}",
                index.column(),
                index.field().data_type()
            ))
            .in_column(index.column()));
        };
        Ok(Self {
            number,
            per_token,
            dictionaries: Arc::clone(dictionaries),
            shared: Arc::clone(shared),
            column,
        })
    }

    /// The index of the column.
    pub(super) fn indexed(&self) -> &Indexed {
        &self.column
    }

    /// Bytes that reading these rows takes, as stored; and as decoded.
    pub fn sizes(&self, rows: Range<u64>, num_tokens: u64) -> (u64, u64) {
        let stored = self.column.page_rows(&rows).map_or(0, |slices| {
            let sizes = slices.iter().map(|slice| slice.record.compressed_size);
            sizes.sum()
        });
        let number = self.per_token.number(self.number);
        let width = number.num_bytes().max(2) * self.per_token.width;
        let count = usize::from(self.per_token.is_counted) * size_of::<i32>();
        (stored, num_tokens.saturating_mul((width + count) as u64))
    }

    /// Number of batch columns it becomes.
    pub(super) fn num_columns(&self) -> usize {
        1 + usize::from(self.per_token.is_counted)
    }

    /// Returns the byte ranges for reading these rows of a page, without pages and
    /// dictionaries that are kept or that others fetch.
    pub(super) fn ranges(
        &self,
        rows: &Range<u64>,
        number: usize,
        dictionaries: &mut DictionaryFetch<'_>,
    ) -> Result<Vec<Range<u64>>> {
        let mut ranges = Vec::new();
        for slice in self.column.page_rows(rows)? {
            let column = &self.column;
            let is_wanted = column.wants_dictionary(&slice.record, number, dictionaries);
            if !self.shared.has(column, &slice) {
                ranges.extend(column.index.run_ranges(slice.page, is_wanted)?.ranges);
            } else if is_wanted {
                ranges.extend(slice.record.dictionary);
            }
        }
        Ok(ranges)
    }

    /// Reads these rows, whose lengths must match the offsets of the tokens; returns
    /// the numbers, and how many each token has if that is wanted.
    pub fn read(
        &self,
        opener: &mut PageOpener,
        rows: Range<u64>,
        offsets: &[u32],
        fetched: &Fetched,
        columns: &mut [Numbers],
    ) -> Result<()> {
        let storage = &fetched.over(&*self.column.storage);
        let mut numbers = NumberRows::new(self.number);
        for slice in self.column.page_rows(&rows)? {
            let before = numbers.offsets.len() - 1;
            self.read_slice(opener, &slice, storage, &mut numbers)
                .and_then(|()| self.check(&slice, &offsets[before..], &numbers, before))
                .map_err(|error| self.column.locate(error, &slice.record))?;
        }
        let starts = self.is_nested().then_some(&numbers.starts[..]);
        let counts = match self.per_token.is_counted {
            true => Some(self.per_token.counts(starts, offsets)?),
            false => None,
        };
        if let Some(values) = self.per_token.rescale(&numbers.values, self.number)? {
            numbers.values = values;
        }
        let values = &numbers.values;
        let filled = self.per_token.fill(Given { values, starts }, offsets)?;
        let made = [Some(filled.unwrap_or(numbers.values)), counts];
        for (column, numbers) in columns.iter_mut().zip(made.into_iter().flatten()) {
            *column = numbers;
        }
        Ok(())
    }

    /// Refuses a row that does not have the numbers of its tokens.
    fn check(
        &self,
        slice: &PageRows,
        tokens: &[u32],
        numbers: &NumberRows,
        before: usize,
    ) -> Result<()> {
        let is_nested = self.is_nested();
        let first = slice.record.first_row_in_group + slice.rows.start as u64;
        let rows = tokens.windows(2).take(slice.rows.len()).enumerate();
        for (row, pair) in rows {
            let (own, num_tokens) = (before + row, (pair[1] - pair[0]) as usize);
            let ends = match is_nested {
                true => {
                    let own = &numbers.row_starts[own..=own + 1];
                    &numbers.starts[own[0] as usize..=own[1] as usize]
                }
                false => &numbers.offsets[own..=own + 1],
            };
            let lengths = ends.windows(2).map(|pair| (pair[1] - pair[0]) as usize);
            self.per_token.check_row(
                format_args!("row {} of the row group", first + row as u64),
                num_tokens,
                !is_nested,
                lengths,
            )?;
        }
        Ok(())
    }

    /// Whether it holds lists of lists. All files have the same schema.
    fn is_nested(&self) -> bool {
        let leaves = |file| self.column.index.schema(file).leaves.first();
        leaves(0).is_some_and(|leaf| leaf.max_repetition == 2)
    }

    fn read_slice(
        &self,
        opener: &mut PageOpener,
        slice: &PageRows,
        storage: &dyn Storage,
        numbers: &mut NumberRows,
    ) -> Result<()> {
        let (index, record) = (&self.column.index, &slice.record);
        opener.verify_checksums = self.column.verify_checksums;
        let dictionary = self.dictionary(opener, record, storage)?;
        let leaf = &index.schema(record.file).leaves[0];
        let open = || {
            let mut runs = index.read_runs(storage, slice.page, false)?;
            let run = runs
                .pop()
                .ok_or_else(|| Error::corrupt("the page has no bytes"))?;
            let run = OpenedRun::open(opener, &run, leaf)?;
            reader::check_num_values(record, run.num_values())?;
            Ok(SharedPage::Numbers(Arc::new(run)))
        };
        let SharedPage::Numbers(run) = self.shared.get_or_make(&self.column, slice, open)? else {
            return Err(Error::internal(
                "expected a page of numbers, found one of rows",
            ));
        };
        let entries = dictionary.as_ref().map(|kept| kept.dictionary.entries());
        numbers.append(&run, entries, leaf, slice.rows.clone())
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
                let entries =
                    decode_number_dictionary(opener, bytes, record.codec, leaf, self.number)?;
                Ok(Dictionary::of_table(entries))
            })
    }
}
