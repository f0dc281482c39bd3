//! Indexes of files without pages.

use std::sync::Arc;

use arrow_schema::DataType;
use pagefeed_core::error::{Error, Result};
use pagefeed_core::index::{FlatFile, FlatPages, Index as CoreIndex, Records};
use pagefeed_core::infill::{arrange_lists, infilled_field};
use pagefeed_core::pages::flat::FlatField as CoreField;
use pagefeed_core::pages::record_column::{RecordColumn as CoreColumn, RecordValues};
use pagefeed_core::pages::row_column::InfilledRows;
use pagefeed_core::pages::stream_spans::{ShardPayloads, StreamSpans};
use pagefeed_core::storage::{Fetched, FileId};
use pagefeed_core::store::Store;
use pagefeed_core::tokens::NumberType;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::arrow::ArrowArray;
use crate::index::Index;
use crate::made::{MadePages, imported};
use crate::numbers::elements;
use crate::run::detached;

/// Numbers of the records of flat files besides their tokens: NumPy's name of their
/// type, the bytes of a record before them, and how many a record has.
#[pyclass(frozen, module = "pagefeed._core")]
pub struct FlatField {
    pub field: CoreField,
}

#[pymethods]
impl FlatField {
    #[new]
    #[pyo3(signature = (dtype, offset, width=1))]
    fn new(dtype: &str, offset: usize, width: usize) -> PyResult<Self> {
        let number = NumberType::from_name(dtype)
            .ok_or_else(|| PyValueError::new_err(format!("{dtype} is not a type of numbers")))?;
        let field = CoreField {
            number,
            offset,
            width,
        };
        Ok(Self { field })
    }

    /// Number of values in a record, if several.
    #[getter]
    fn list_size(&self) -> Option<usize> {
        (self.field.width > 1).then_some(self.field.width)
    }

    /// Type, as NumPy names it.
    #[getter]
    fn number_type(&self) -> &'static str {
        self.field.number.name()
    }
}

/// A column besides the tokens of flat files: a number of their records, or spans,
/// whose payloads these numbers name.
#[pyclass(frozen, module = "pagefeed._core")]
pub struct RecordColumn {
    index: Py<Index>,
    field: CoreField,
    /// For streams: the payloads of each shard.
    shards: Option<Vec<ShardPayloads>>,
    /// Bits of the number that markers get in infilled documents.
    filling: Option<u64>,
}

impl RecordColumn {
    /// Returns the column for the core, with counts of reads at 0.
    pub fn column(&self) -> Result<CoreColumn> {
        let column = self.index.get().indexed(false);
        let values = match self.shards.clone() {
            None => RecordValues::Numbers(self.field),
            Some(shards) => {
                let storage = Arc::clone(&column.storage);
                let spans = StreamSpans::new(&column.index, storage, self.field, shards)?;
                RecordValues::Spans(Arc::new(spans))
            }
        };
        Ok(CoreColumn { column, values })
    }

    /// Returns how its rows are infilled, if they are.
    pub(crate) fn infilled(&self, column: &CoreColumn) -> Option<InfilledRows> {
        let (infilling, _) = self.index.get().infilling.as_ref()?;
        Some(InfilledRows {
            rows: column.column.clone(),
            infilling: Arc::clone(infilling),
            filling: Some(self.filling?),
        })
    }
}

#[pymethods]
impl RecordColumn {
    /// Takes the type of numbers, the bytes before them in each record of the index, and how
    /// many a record has. With `shards` the number names a payload: each shard is a file of
    /// the offsets of its payloads, and a file of the payloads. In infilled documents,
    /// markers get the bits `filling`.
    #[new]
    #[pyo3(signature = (index, dtype, offset, width=1, shards=None, filling=None))]
    fn new(
        py: Python<'_>,
        index: Py<Index>,
        dtype: &str,
        offset: usize,
        width: usize,
        shards: Option<Vec<(String, String)>>,
        filling: Option<u64>,
    ) -> PyResult<Self> {
        let field = FlatField::new(dtype, offset, width)?.field;
        let storage = index.get().indexed(false).storage;
        let located = |path: String| -> Result<FileId> {
            let stamp = storage.sampled(&path)?;
            let path = path.as_str().into();
            Ok(FileId { path, stamp })
        };
        let shard = |(offsets, payloads)| -> Result<_> {
            Ok(ShardPayloads {
                offsets: located(offsets)?,
                payloads: located(payloads)?,
            })
        };
        let all = |shards: Vec<_>| shards.into_iter().map(shard).collect::<Result<_>>();
        let shards = detached(py, || shards.map(all).transpose())?;
        let made = Self {
            index,
            field,
            shards,
            filling,
        };
        detached(py, || made.column().map(drop))?;
        Ok(made)
    }

    /// Bytes of a row in memory, about.
    #[getter]
    fn mean_row_bytes(&self, py: Python<'_>) -> PyResult<u64> {
        detached(py, || self.column().map(|column| column.row_bytes()))
    }

    /// The rows of a page.
    fn read_page(&self, py: Python<'_>, page: u64) -> PyResult<ArrowArray> {
        detached(py, || {
            let column = self.column()?;
            let mut rows = column.read(page, Fetched::NOTHING)?;
            let mut field = column.field(column.column.index.column());
            if let Some(how) = self.infilled(&column) {
                let first = how.rows.index.rows_of_page(page)?.start;
                field = infilled_field(&field)?;
                rows = arrange_lists(&how.infilling, &rows, first, 0, how.filling)?;
            }
            Ok(ArrowArray::new(rows, field.as_ref().clone()))
        })
    }
}

/// Returns the files of an index.
fn files_of(
    paths: Vec<String>,
    digests: Vec<[u8; 16]>,
    file_pages: Vec<usize>,
) -> PyResult<Vec<FlatFile>> {
    if digests.len() != paths.len() || file_pages.len() != paths.len() {
        return Err(PyValueError::new_err(
            "there must be a digest and a number of pages for each file",
        ));
    }
    let files = paths.into_iter().zip(digests).zip(file_pages);
    let files = files.map(|((path, digest), num_pages)| FlatFile {
        path,
        digest: u128::from_le_bytes(digest),
        num_pages,
    });
    Ok(files.collect())
}

/// Indexes rows whose pages a function of Python makes, in files that may be names alone.
/// `like` are the name and an array of the top-level column, None of texts; arrays are those of the core's `FlatPages`.
#[pyfunction]
pub fn made_index(
    storage: &Bound<'_, MadePages>,
    paths: Vec<String>,
    digests: Vec<[u8; 16]>,
    file_pages: Vec<usize>,
    column: String,
    like: (String, Option<Bound<'_, PyAny>>),
    pages: [Bound<'_, PyAny>; 4],
) -> PyResult<Index> {
    let py = storage.py();
    let files = files_of(paths, digests, file_pages)?;
    let pages: PyResult<Vec<Vec<i64>>> = pages.iter().map(|page| elements(py, page)).collect();
    let numbers = pages?;
    let array = like.1.as_ref().map(imported).transpose()?;
    let data_type = array.map_or(DataType::Utf8, |array| array.data_type().clone());
    let storage = MadePages::storage(storage)?;
    detached(py, || {
        let pages = FlatPages {
            offset: &numbers[0],
            size: &numbers[1],
            num_rows: &numbers[2],
            num_values: &numbers[3],
            row_value: Vec::new(),
            row_byte: Vec::new(),
        };
        let like = (&*like.0, &data_type);
        let index = CoreIndex::made(&*storage, &files, &column, like, &pages)?;
        Ok(Index::new(index, storage))
    })
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
    let files = files_of(paths, digests, file_pages)?;
    let pages: PyResult<Vec<Vec<i64>>> = pages.iter().map(|page| elements(py, page)).collect();
    let numbers = pages?;
    let (row_value, row_byte) = (elements(py, &rows[0])?, elements(py, &rows[1])?);
    detached(py, || {
        let store = Arc::new(Store::default());
        let (name, size, offset, borderless) = records;
        let token_type = NumberType::from_name(&name);
        let unknown = || Error::invalid(format!("{name:?} is not a type of tokens"));
        let records = Records {
            number: token_type.ok_or_else(unknown)?,
            size,
            offset,
            borderless,
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
