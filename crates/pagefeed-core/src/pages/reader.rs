//! Single pages as Arrow arrays, held against what the index promises of them.

use std::ops::Range;

use arrow_array::cast::AsArray;
use arrow_array::{
    Array, ArrayRef, GenericListArray, OffsetSizeTrait, UInt32Array, new_empty_array,
    new_null_array,
};
use arrow_schema::DataType;
use arrow_select::concat::concat;
use arrow_select::take::take;

use crate::decode::{conform, decode_array, with_defaults};
use crate::error::{Error, Result};
use crate::index::{Indexed, PageRecord};
use crate::page::PageOpener;
use crate::pages::flat;
use crate::pages::sizes::saturated;
use crate::storage::Fetched;
use crate::tokens::TokenPage;

/// Reads and decodes `page` as `data_type`, a type that takes the column of any file: an
/// array of exactly the rows and, for a list of one leaf, the values that the index
/// promises.
pub fn read_array(
    column: &Indexed,
    opener: &mut PageOpener,
    page: u64,
    fetched: &Fetched,
    data_type: &DataType,
) -> Result<ArrayRef> {
    let index = &column.index;
    let record = index.page(page)?;
    opener.verify_checksums = column.verify_checksums;
    let mut read = || {
        if let Some(flat) = index.as_flat() {
            let mut found = TokenPage::default();
            flat::load(
                index,
                flat,
                &[],
                &fetched.over(&*column.storage),
                page,
                &record,
                &mut found,
            )?;
            return conform(&flat::to_array(found)?, data_type);
        }
        if record.is_missing() {
            let num_rows = saturated(record.num_rows);
            return match &column.lacking.column {
                None => Ok(new_null_array(data_type, num_rows)),
                Some(values) => {
                    let which = UInt32Array::from(vec![record.file; num_rows]);
                    conform(&take(values, &which, None)?, data_type)
                }
            };
        }
        let schema = index.schema(record.file);
        let runs = index.read_runs(&fetched.over(&*column.storage), page, true)?;
        let (first_row, num_rows) = (record.first_row_in_group, record.num_rows);
        let array = decode_array(opener, schema, &runs, first_row, num_rows)?;
        // Without lists, rows are what is numbered, and writers' counts of nulls need
        // not be right: old Arrows say 0 for any dictionary of texts.
        if let [leaf] = &schema.leaves[..]
            && leaf.max_repetition > 0
        {
            check_num_values(&record, num_leaf_values(array.as_ref()))?;
        }
        with_defaults(&array, data_type, column.lacking.fields.as_ref())
    };
    read().map_err(|error| column.locate(error, &record))
}

/// Reads the rows of a page, of `column` and of the columns `beside` it in the same
/// files, and numbers them.
pub fn read_columns(
    column: &Indexed,
    beside: &[Indexed],
    opener: &mut PageOpener,
    page: u64,
    fetched: &Fetched,
) -> Result<(Range<u64>, Vec<ArrayRef>)> {
    let index = &column.index;
    let rows = index.rows_of_page(page)?;
    let data_type = index.field().data_type();
    let mut columns = vec![read_array(column, opener, page, fetched, data_type)?];
    for other in beside {
        columns.push(read_rows(other, opener, rows.clone())?);
    }
    Ok((rows, columns))
}

/// Reads rows of a column by their numbers, from all pages that have them.
fn read_rows(column: &Indexed, opener: &mut PageOpener, rows: Range<u64>) -> Result<ArrayRef> {
    let index = &column.index;
    let data_type = index.field().data_type();
    let mut found = vec![new_empty_array(data_type)];
    for slice in column.page_rows(&rows)? {
        let array = read_array(column, opener, slice.page, Fetched::NOTHING, data_type)?;
        found.push(array.slice(slice.rows.start, slice.rows.len()));
    }
    let found: Vec<&dyn Array> = found.iter().map(AsRef::as_ref).collect();
    concat(&found).map_err(|error| Error::limit(error.to_string()))
}

/// Refuses a page whose number of values differs from the index, on which the numbering
/// of all tokens depends.
pub fn check_num_values(record: &PageRecord, found: u64) -> Result<()> {
    if found == record.num_values {
        return Ok(());
    }
    Err(Error::corrupt(format!(
        "the page holds {found} values, its file's metadata promises {}: index the file \
         with page_index=False, or write it again",
        record.num_values
    )))
}

/// Values of the innermost array that are not null, in rows that are not null.
fn num_leaf_values(array: &dyn Array) -> u64 {
    match array.data_type() {
        DataType::List(_) => num_values_in(array.as_list::<i32>()),
        DataType::LargeList(_) => num_values_in(array.as_list::<i64>()),
        DataType::FixedSizeList(_, _) => {
            // Values of a null row exist here, and are not the column's.
            let lists = array.as_fixed_size_list();
            (0..lists.len())
                .filter(|&row| lists.is_valid(row))
                .map(|row| num_leaf_values(lists.value(row).as_ref()))
                .sum()
        }
        DataType::Struct(_) => {
            let fields = array.as_struct();
            fields
                .columns()
                .first()
                .map_or(0, |field| num_visible_values(fields, field.as_ref()))
        }
        _ => (array.len() - array.logical_null_count()) as u64,
    }
}

fn num_values_in<O: OffsetSizeTrait>(lists: &GenericListArray<O>) -> u64 {
    let [first, end] = [0, lists.len()].map(|row| lists.value_offsets()[row].as_usize());
    num_leaf_values(lists.values().slice(first, end - first).as_ref())
}

/// Values of a struct's only field in rows where the struct is not null.
fn num_visible_values(parent: &dyn Array, field: &dyn Array) -> u64 {
    if parent.null_count() == 0 {
        return num_leaf_values(field);
    }
    (0..parent.len())
        .filter(|&row| parent.is_valid(row))
        .map(|row| num_leaf_values(field.slice(row, 1).as_ref()))
        .sum()
}
