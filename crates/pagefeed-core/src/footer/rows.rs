//! The rows of a footer's row groups, of a file that lacks the column asked for.

use super::Footer;
use super::parse::{check_rows, missing};
use crate::error::Result;
use crate::thrift::{Reader, Wire, read_fields};

impl Footer {
    /// Rows of each row group; their sum must be that of the file, if it is given.
    pub(crate) fn row_counts(footer: &[u8]) -> Result<Vec<u64>> {
        let (mut num_rows, mut rows) = (0, Vec::new());
        let mut reader = Reader::new(footer);
        read_fields!(reader, {
            (3, Wire::I64) => num_rows = reader.count("the number of rows")?,
            (4, Wire::List) => for _ in 0..reader.list_of(Wire::Struct)? {
                rows.push(rows_of_group(reader)?);
            },
        })?;
        check_rows(num_rows, rows.iter().copied())?;
        Ok(rows)
    }
}

fn rows_of_group(reader: &mut Reader<'_>) -> Result<u64> {
    let mut num_rows = None;
    read_fields!(reader, {
        (3, Wire::I64) => num_rows = Some(reader.count("the row group's number of rows")?),
    })?;
    num_rows.ok_or_else(|| missing("a row group's number of rows"))
}
