//! Indexes of files that have no pages of their own.

use std::sync::Arc;

use pagefeed_core::decode::NumberType;
use pagefeed_core::index::{FlatFile, FlatPages, Index as CoreIndex, Number, Records};
use pagefeed_core::pages::flat::FlatField as CoreField;
use pagefeed_core::store::Store;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::engine::elements;
use crate::index::Index;
use crate::run::detached;

/// A number of the records of flat files that comes with their tokens: its type, by the
/// name of NumPy, and the bytes of a record before it.
#[pyclass(frozen, module = "pagefeed._core")]
pub struct FlatField {
    pub field: CoreField,
}

#[pymethods]
impl FlatField {
    #[new]
    fn new(dtype: &str, offset: usize) -> PyResult<Self> {
        let number = NumberType::from_name(dtype)
            .ok_or_else(|| PyValueError::new_err(format!("{dtype} is no type of numbers")))?;
        let field = CoreField { number, offset };
        Ok(Self { field })
    }

    /// Its type, as NumPy has it.
    #[getter]
    fn number_type(&self) -> &'static str {
        self.field.number.name()
    }
}

/// Indexes flat files. Arrays are those of the core's `FlatPages`, int64 of pages and
/// uint32 of rows; `records` are type of tokens, bytes of a record, those before its
/// token, and whether files are one row each.
#[pyfunction]
#[expect(
    clippy::too_many_arguments,
    reason = "one array per column of the index"
)]
pub fn flat_index(
    py: Python<'_>,
    paths: Vec<String>,
    digests: Vec<[u8; 16]>,
    file_pages: Vec<usize>,
    column: String,
    records: (String, usize, usize, bool),
    pages: [Bound<'_, PyAny>; 4],
    rows: [Bound<'_, PyAny>; 2],
) -> PyResult<Index> {
    if digests.len() != paths.len() || file_pages.len() != paths.len() {
        return Err(PyValueError::new_err("a digest and a number a file"));
    }
    let files: Vec<FlatFile> = (paths.into_iter().zip(digests).zip(file_pages))
        .map(|((path, digest), num_pages)| FlatFile {
            path,
            digest: u128::from_le_bytes(digest),
            num_pages,
        })
        .collect();
    let pages: PyResult<Vec<Vec<i64>>> = pages.iter().map(|page| elements(py, page)).collect();
    let numbers = pages?;
    let (row_value, row_byte) = (elements(py, &rows[0])?, elements(py, &rows[1])?);
    detached(py, || {
        let store = Arc::new(Store::default());
        let (name, size, offset, joined) = records;
        let number = Number::from_name(&name)?;
        let records = Records {
            number,
            size,
            offset,
            joined,
        };
        let pages = FlatPages {
            offset: &numbers[0],
            size: &numbers[1],
            num_rows: &numbers[2],
            num_values: &numbers[3],
            row_value,
            row_byte,
        };
        let index = CoreIndex::flat(&*store, &files, &column, records, pages)?;
        Ok(Index::new(index, store))
    })
}
