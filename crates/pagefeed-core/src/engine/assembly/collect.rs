//! Cells of batches: rows picked from Arrow pages, one array a column.

use arrow_array::{Array, ArrayRef, UInt32Array, new_null_array};
use arrow_schema::{ArrowError, DataType, Field};
use arrow_select::interleave::interleave;
use arrow_select::take::take;

use super::gathering::Gathering;
use crate::engine::Page;
use crate::error::{Error, Result};

/// Takes rows out of the pages in memory.
pub(super) fn gather(
    batch: &Gathering<'_>,
    columns: &mut Vec<RowCollector>,
) -> Result<(), (u64, Error)> {
    if batch.is_new {
        columns.clear();
    }
    columns.resize_with(batch.config.columns.len(), RowCollector::default);
    let mut picks: Vec<_> = batch.pages.iter().map(|_| Picks::default()).collect();
    for cell in batch.cells() {
        let pick = &mut picks[cell.page_use];
        (pick.page, pick.column) = (cell.page, cell.column);
        pick.rows.push(cell.row);
        pick.destinations.push(cell.destination);
    }
    for (page, pick) in batch.pages.iter().zip(picks) {
        match page.as_deref() {
            Some(Page::Rows(rows)) => columns[pick.column]
                .add(rows, pick.rows, pick.destinations)
                .map_err(|error| (pick.page, error))?,
            Some(Page::Tokens(_)) if !pick.rows.is_empty() => {
                let error = Error::invalid("a cell refers to a page of tokens");
                return Err((pick.page, error));
            }
            _ => {}
        }
    }
    Ok(())
}

/// Puts the columns of a batch together, of `num_rows` rows each, with nulls where the
/// plan has no cell.
pub(super) fn finish(
    columns: Vec<RowCollector>,
    fields: &[Field],
    num_rows: usize,
) -> Result<Vec<ArrayRef>> {
    let both = columns.into_iter().zip(fields);
    both.map(|(column, field)| column.finish(field.data_type(), num_rows))
        .collect()
}

/// The rows that a batch takes from one page.
#[derive(Default)]
struct Picks {
    page: u64,
    column: usize,
    rows: Vec<u32>,
    destinations: Vec<u32>,
}

/// Rows of one column on their way into a batch. A page may be let go as soon as its
/// rows were added: they are copied.
#[derive(Debug, Default)]
pub struct RowCollector {
    /// Rows of one page each, and their rows in the batch.
    picked: Vec<(ArrayRef, Vec<u32>)>,
}

impl RowCollector {
    /// Copies `rows` of `page` to the rows `destinations` of the batch; both have the same
    /// length.
    pub fn add(&mut self, page: &ArrayRef, rows: Vec<u32>, destinations: Vec<u32>) -> Result<()> {
        if let Some(&row) = rows.iter().find(|&&row| row as usize >= page.len()) {
            return Err(Error::corrupt(format!(
                "the page holds {} rows, the plan needs row {row} of it; the file does not \
                 hold what the index promises",
                page.len()
            )));
        }
        if let Some((first, _)) = self.picked.first()
            && first.data_type() != page.data_type()
        {
            return Err(Error::unsupported(format!(
                "rows of one batch have the types {} and {}: read files of different \
                 schemas as separate datasets",
                first.data_type(),
                page.data_type()
            )));
        }
        let picked = take(page, &UInt32Array::from(rows), None).map_err(failed)?;
        self.picked.push((picked, destinations));
        Ok(())
    }

    /// Bytes of the rows that were added.
    pub fn num_bytes(&self) -> usize {
        let rows = self.picked.iter().map(|(rows, _)| rows);
        rows.map(|each| each.get_array_memory_size()).sum()
    }

    /// Rows up to the last one that was added.
    pub fn num_rows(&self) -> usize {
        let destinations = self
            .picked
            .iter()
            .flat_map(|(_, destinations)| destinations);
        destinations.max().map_or(0, |&last| last as usize + 1)
    }

    /// The batch: `num_rows` rows, null where none was added.
    pub fn finish(self, data_type: &DataType, num_rows: usize) -> Result<ArrayRef> {
        let data_type = self
            .picked
            .first()
            .map_or(data_type, |(rows, _)| rows.data_type())
            .clone();
        let nothing = new_null_array(&data_type, 1);
        let mut sources = vec![(self.picked.len(), 0); num_rows];
        for (page, (_, destinations)) in self.picked.iter().enumerate() {
            for (row, &destination) in destinations.iter().enumerate() {
                let source = sources.get_mut(destination as usize).ok_or_else(|| {
                    Error::invalid(format!(
                        "row {destination} lies outside a batch of {num_rows}"
                    ))
                })?;
                *source = (page, row);
            }
        }
        let mut arrays: Vec<&dyn Array> =
            self.picked.iter().map(|(rows, _)| rows.as_ref()).collect();
        arrays.push(&nothing);
        interleave(&arrays, &sources).map_err(failed)
    }
}

fn failed(error: ArrowError) -> Error {
    Error::unsupported(format!(
        "the rows of a batch cannot be put together: {error}; a smaller batch_size may help"
    ))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow_array::cast::AsArray;
    use arrow_array::types::Int32Type;
    use arrow_array::{Int32Array, ListArray, StringArray};

    use super::*;

    #[test]
    fn rows_arrive_at_their_destinations() {
        let first: ArrayRef = Arc::new(StringArray::from(vec!["a", "b", "c"]));
        let second: ArrayRef = Arc::new(StringArray::from(vec![None, Some("e")]));
        let mut collector = RowCollector::default();
        collector.add(&first, vec![2, 0], vec![3, 1]).unwrap();
        collector
            .add(&second, vec![1, 0, 1], vec![0, 2, 5])
            .unwrap();
        let batch = collector.finish(&DataType::Utf8, 6).unwrap();
        let expected = vec![Some("e"), Some("a"), None, Some("c"), None, Some("e")];
        assert_eq!(batch.as_string::<i32>(), &StringArray::from(expected));
    }

    #[test]
    fn nested_rows_and_batches_without_rows() {
        let lists = [Some(vec![Some(1), None]), None, Some(vec![])];
        let page: ArrayRef = Arc::new(ListArray::from_iter_primitive::<Int32Type, _, _>(lists));
        let mut collector = RowCollector::default();
        collector.add(&page, vec![0], vec![1]).unwrap();
        let batch = collector.finish(page.data_type(), 2).unwrap();
        assert!(batch.is_null(0));
        let row = batch.as_list::<i32>().value(1);
        assert_eq!(
            row.as_primitive::<Int32Type>(),
            &Int32Array::from(vec![Some(1), None])
        );
        let empty = RowCollector::default().finish(page.data_type(), 2).unwrap();
        assert_eq!((empty.len(), empty.null_count()), (2, 2));
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        let page: ArrayRef = Arc::new(Int32Array::from(vec![1, 2]));
        let text: ArrayRef = Arc::new(StringArray::from(vec!["a"]));
        let mut collector = RowCollector::default();
        assert!(collector.add(&page, vec![2], vec![0]).is_err());
        collector.add(&page, vec![1], vec![7]).unwrap();
        assert!(collector.add(&text, vec![0], vec![1]).is_err());
        assert!(collector.finish(&DataType::Int32, 7).is_err());
    }
}
