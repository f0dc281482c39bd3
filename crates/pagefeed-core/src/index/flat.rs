//! The contents of flat files, which have no pages, as their index describes them.

use arrow_array::types::UInt32Type;
use arrow_array::{ArrayRef, RecordBatch};
use arrow_buffer::ScalarBuffer;
use arrow_schema::Field;

use super::columns::{list_field, list_row, lists};
use super::table::Table;
use crate::error::{Error, Result};
use crate::tokens::NumberType;

/// Records of a file, one for each token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Records {
    /// Type of the tokens.
    pub number: NumberType,
    /// Bytes of a record.
    pub size: usize,
    /// Bytes of a record before its token.
    pub offset: usize,
    /// Whether documents are unknown: a file is one row, and each page of it is a part
    /// that counts as a row.
    pub borderless: bool,
}

impl Records {
    /// Refuses records that do not hold their token.
    pub(super) fn check(&self) -> Result<()> {
        if !self.number.data_type().is_integer() {
            let name = self.number.name();
            return Err(Error::invalid(format!("tokens cannot be {name:?}")));
        }
        let end = self.offset.checked_add(self.number.num_bytes());
        if end.is_none_or(|end| end > self.size) {
            return Err(Error::invalid(format!(
                "records of {} bytes do not hold a token of {} at {}",
                self.size,
                self.number.name(),
                self.offset
            )));
        }
        Ok(())
    }

    pub(super) fn to_text(self) -> String {
        let borderless = u8::from(self.borderless);
        let name = self.number.name();
        format!("{name} {} {} {borderless}", self.size, self.offset)
    }

    fn from_text(text: &str) -> Result<Self> {
        let bad = || Error::corrupt(format!("{text:?} does not describe records"));
        let parts: Vec<&str> = text.split(' ').collect();
        let [name, size, offset, borderless] = parts[..] else {
            return Err(bad());
        };
        let records = Self {
            number: NumberType::from_name(name).ok_or_else(bad)?,
            size: size.parse().map_err(|_| bad())?,
            offset: offset.parse().map_err(|_| bad())?,
            borderless: borderless == "1",
        };
        records.check().map_err(|_| bad())?;
        Ok(records)
    }
}

/// One file.
pub struct FlatFile {
    /// Path.
    pub path: String,
    /// Digest of the contents, as far as it identifies them.
    pub digest: u128,
    /// Number of its pages.
    pub num_pages: usize,
}

/// The pages of all files, in order; arrays with a number for each page.
pub struct FlatPages<'a> {
    /// Offset in its file.
    pub offset: &'a [i64],
    /// Bytes of the page.
    pub size: &'a [i64],
    /// Rows that begin in it.
    pub num_rows: &'a [i64],
    /// Tokens of each page.
    pub num_values: &'a [i64],
    /// Per row, the tokens of its page before it; none where every page is one row.
    pub row_value: Vec<u32>,
    /// Bytes of the page before each row; empty where rows follow each other closely.
    pub row_byte: Vec<u32>,
}

/// The records and rows of the pages of an index of flat files.
#[derive(Clone, Debug)]
pub struct Flat {
    /// Records of the files.
    pub records: Records,
    pub(super) row_value: ScalarBuffer<u32>,
    pub(super) row_byte: ScalarBuffer<u32>,
}

/// Rows of a page, by where they begin in it.
pub struct FlatRows<'a> {
    /// Tokens before each row; empty for one row.
    pub values: &'a [u32],
    /// Bytes before each row; empty where rows follow each other closely.
    pub bytes: &'a [u32],
}

impl Flat {
    pub(super) fn fields() -> [Field; 2] {
        ["row_value", "row_byte"].map(list_field::<UInt32Type>)
    }

    pub(super) fn to_arrays(&self) -> Result<[ArrayRef; 2]> {
        Ok([
            lists::<UInt32Type>(&[&self.row_value])?,
            lists::<UInt32Type>(&[&self.row_byte])?,
        ])
    }

    pub(super) fn from_batch(batch: &RecordBatch, records: &str, pages: &Table) -> Result<Self> {
        let flat = Self {
            records: Records::from_text(records)?,
            row_value: list_row::<UInt32Type>(batch, "row_value", 0)?,
            row_byte: list_row::<UInt32Type>(batch, "row_byte", 0)?,
        };
        flat.check(pages)?;
        Ok(flat)
    }

    pub(super) fn check(&self, pages: &Table) -> Result<()> {
        let fits = |rows: &[u32]| rows.is_empty() || rows.len() as u64 == pages.num_rows();
        let is_one = !self.row_value.is_empty() || pages.num_rows() == pages.num_pages();
        if fits(&self.row_value) && fits(&self.row_byte) && is_one {
            return Ok(());
        }
        Err(Error::corrupt(
            "the rows of flat pages contradict the pages",
        ))
    }
}
