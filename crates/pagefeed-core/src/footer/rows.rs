//! The rows of a footer's row groups, of a file that lacks the column asked for.

use crate::error::{Error, Result};
use crate::thrift::{Reader, Wire};

/// Rows of each row group; they add up to those of the file, where it says these.
pub(super) fn row_counts(footer: &[u8]) -> Result<Vec<u64>> {
    let (mut num_rows, mut rows) = (0, Vec::new());
    Reader::new(footer).fields(|id, wire, reader| {
        match (id, wire) {
            (3, Wire::I64) => num_rows = reader.count("the number of rows")?,
            (4, Wire::List) => {
                for _ in 0..reader.list_of(Wire::Struct)? {
                    rows.push(rows_of_group(reader)?);
                }
            }
            _ => reader.skip(wire)?,
        }
        Ok(())
    })?;
    let sum = rows
        .iter()
        .try_fold(0u64, |sum, rows| sum.checked_add(*rows));
    match sum {
        Some(sum) if num_rows == 0 || sum == num_rows => Ok(rows),
        _ => Err(Error::corrupt(format!(
            "the footer promises {num_rows} rows, its row groups hold others"
        ))),
    }
}

fn rows_of_group(reader: &mut Reader<'_>) -> Result<u64> {
    let mut num_rows = None;
    reader.fields(|id, wire, reader| {
        match (id, wire) {
            (3, Wire::I64) => num_rows = Some(reader.count("the row group's number of rows")?),
            _ => reader.skip(wire)?,
        }
        Ok(())
    })?;
    num_rows.ok_or_else(|| Error::corrupt("the footer lacks a row group's number of rows"))
}
