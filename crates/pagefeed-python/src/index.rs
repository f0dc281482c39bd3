//! The page index in Python.

use std::cell::RefCell;
use std::convert::Infallible;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use pagefeed_core::error::Result;
use pagefeed_core::index::{BuildOptions, FileRange, Index as CoreIndex};
use pagefeed_core::index::{Indexed, Lacking};
use pagefeed_core::infill::{Infilling, arrange_lists, infilled_field};
use pagefeed_core::limits::with_pages_below;
use pagefeed_core::page::PageOpener;
use pagefeed_core::pages::reader::read_array;
use pagefeed_core::pages::row_column::mean_row_bytes;
use pagefeed_core::pages::text::Tokenization;
use pagefeed_core::pages::text_column::TextColumn;
use pagefeed_core::pages::token_column::row_lengths;
use pagefeed_core::storage::{Fetched, Storage};
use pagefeed_core::tokens::NumberType;
use pyo3::buffer::PyBuffer;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyString, PyTuple};

use crate::aligned::{AskedAligned, check_page};
use crate::arrow::ArrowArray;
use crate::infill::PyInfilling;
use crate::made::storage_of;
use crate::naming::PyNaming;
use crate::numbers::{bytes_of, lookup};
use crate::run::{cancellable, detached};
use crate::storage::{PerProcess, reading, stopped_by};
use crate::types::{list_item, list_size, width_of};

thread_local! {
    /// Keeps the codecs' contexts and buffers from one page to the next.
    static OPENER: RefCell<PageOpener> = RefCell::default();
}

/// The page index of one column. Wrapped by `pagefeed.PageIndex`.
#[pyclass(frozen, module = "pagefeed._core")]
pub struct Index {
    pub(crate) index: Arc<CoreIndex>,
    /// Tokenizer of its texts, if they have one.
    pub(crate) tokenization: Option<Tokenization>,
    /// Infilling of its documents, if they are infilled; and the bits of numbers at special
    /// tokens, unless it holds tokens.
    pub(crate) infilling: Option<(Arc<Infilling>, Option<u64>)>,
    /// Values of rows that files lack.
    lacking: Lacking,
    storage: PerProcess<dyn Storage>,
}

impl Index {
    pub(crate) fn new(index: CoreIndex, storage: Arc<dyn Storage>) -> Self {
        Self {
            index: Arc::new(index),
            tokenization: None,
            infilling: None,
            lacking: Lacking::default(),
            storage: PerProcess::new(storage),
        }
    }

    /// Returns the index with its texts tokenized.
    pub(crate) fn with(&self, tokenization: Tokenization) -> Self {
        let mut copy = self.copy();
        (copy.tokenization, copy.infilling) = (Some(tokenization), None);
        copy
    }

    fn copy(&self) -> Self {
        Self {
            index: Arc::clone(&self.index),
            tokenization: self.tokenization.clone(),
            infilling: self.infilling.clone(),
            lacking: self.lacking.clone(),
            storage: PerProcess::new(self.storage()),
        }
    }

    /// Works with what a thread keeps from one page to the next.
    pub(crate) fn opened<T>(work: impl FnOnce(&mut PageOpener) -> Result<T>) -> Result<T> {
        OPENER.with_borrow_mut(work)
    }

    /// Returns the column for an engine.
    pub(crate) fn indexed(&self, verify_checksums: bool) -> Indexed {
        Indexed {
            index: self.index.clone(),
            storage: self.storage(),
            verify_checksums,
            lacking: self.lacking.clone(),
        }
    }

    pub(crate) fn storage(&self) -> Arc<dyn Storage> {
        let Ok(storage) = self
            .storage
            .get(|parent| Ok::<_, Infallible>(parent.for_child()));
        storage
    }
}

#[pymethods]
impl Index {
    /// Reads the footers of `paths` and indexes `column`; serves Ctrl-C, and tells
    /// `advance` from time to time how many more files are done.
    #[staticmethod]
    #[pyo3(signature = (paths, column, *, page_index, verify_checksums, num_threads, by_row_group = false, missing_as_null = false, naming = None, storage = None, advance = None))]
    #[expect(
        clippy::too_many_arguments,
        reason = "all but two are keywords in Python"
    )]
    fn build(
        py: Python<'_>,
        paths: Vec<String>,
        column: String,
        page_index: bool,
        verify_checksums: bool,
        num_threads: usize,
        by_row_group: bool,
        missing_as_null: bool,
        naming: Option<PyRef<'_, PyNaming>>,
        storage: Option<Bound<'_, PyAny>>,
        advance: Option<Bound<'_, PyAny>>,
    ) -> PyResult<Self> {
        let (num_done, mut num_told) = (Arc::new(AtomicUsize::new(0)), 0);
        let tell = || {
            let num_new = num_done.load(Ordering::Relaxed) - num_told;
            num_told += num_new;
            match &advance {
                Some(advance) if num_new > 0 => advance.call1((num_new,)).map(drop),
                _ => Ok(()),
            }
        };
        let naming = naming.map(|naming| Arc::clone(&naming.naming));
        let storage = storage_of(storage.as_ref())?;
        cancellable(py, tell, |cancel| {
            let options = BuildOptions {
                use_page_index: page_index,
                by_row_group,
                missing_as_null,
                naming: naming.clone(),
                verify_checksums,
                num_threads,
                cancel: Arc::clone(cancel),
                num_done: Arc::clone(&num_done),
            };
            let index = {
                let storage = stopped_by(&storage, cancel);
                CoreIndex::build(&*storage, &paths, &column, &options)?
            };
            Ok(Self::new(index, storage))
        })
    }

    /// Concatenates files of several indexes of one column. Each range is the number of an
    /// index, its first file, and one past its last.
    #[staticmethod]
    #[pyo3(signature = (indexes, ranges, *, storage = None))]
    fn concat(
        py: Python<'_>,
        indexes: Vec<PyRef<'_, Self>>,
        ranges: Vec<FileRange>,
        storage: Option<Bound<'_, PyAny>>,
    ) -> PyResult<Self> {
        let storage = storage_of(storage.as_ref())?;
        let indexes: Vec<_> = indexes.iter().map(|one| Arc::clone(&one.index)).collect();
        detached(py, || {
            Ok(Self::new(CoreIndex::concat(&indexes, &ranges)?, storage))
        })
    }

    /// Whether each file is one document, of which each page counts as a row.
    #[getter]
    fn is_borderless(&self) -> bool {
        let flat = self.index.as_flat();
        flat.is_some_and(|flat| flat.records.borderless)
    }

    /// Maps an index written by `save`.
    #[staticmethod]
    #[pyo3(signature = (path, *, storage = None))]
    fn open(py: Python<'_>, path: PathBuf, storage: Option<Bound<'_, PyAny>>) -> PyResult<Self> {
        let storage = storage_of(storage.as_ref())?;
        detached(py, || Ok(Self::new(CoreIndex::open(&path)?, storage)))
    }

    /// Writes the index to one file, atomically.
    fn save(&self, py: Python<'_>, path: PathBuf) -> PyResult<()> {
        detached(py, || self.index.save(&path))
    }

    /// Raises StaleFileError for the first file that changed since it was indexed;
    /// serves Ctrl-C.
    fn check_files(&self, py: Python<'_>) -> PyResult<()> {
        let storage = self.storage();
        let nothing = || Ok(());
        cancellable(py, nothing, |cancel| {
            self.index.check_files(&*stopped_by(&storage, cancel))
        })
    }

    /// The same index, written by others: local files are compared with their footers when
    /// they are first read.
    fn of_others(&self, py: Python<'_>) -> PyResult<Self> {
        let index = detached(py, || self.index.of_others())?;
        let mut copy = self.copy();
        copy.index = Arc::new(index);
        Ok(copy)
    }

    /// Returns the files among these that changed since they were indexed, or are gone; with
    /// `by_footers`, refuses others of which the footer has other pages. Handles Ctrl-C.
    #[pyo3(signature = (files, *, by_footers = false))]
    fn changed_files(
        &self,
        py: Python<'_>,
        files: Vec<usize>,
        by_footers: bool,
    ) -> PyResult<Vec<usize>> {
        let storage = self.storage();
        let nothing = || Ok(());
        cancellable(py, nothing, |cancel| {
            let storage = stopped_by(&storage, cancel);
            self.index.changed_files(&*storage, &files, by_footers)
        })
    }

    /// Name of the column, as it was asked for.
    #[getter]
    fn column(&self) -> &str {
        self.index.column()
    }

    /// Returns the index with its documents infilled. Special tokens are written, or
    /// have the bits `filling` if it holds other numbers.
    #[pyo3(signature = (infilling, filling = None))]
    fn infilled(&self, infilling: &PyInfilling, filling: Option<u64>) -> Self {
        let mut copy = self.copy();
        copy.infilling = Some((Arc::clone(&infilling.infilling), filling));
        copy
    }

    /// Returns the index with the type that a table gives its values: the type of the array
    /// `table`, for the column or, with a dotted path `inside`, for a field of its structs.
    /// `missing` has the value of files that lack the column; `defaults` is a row with the
    /// values of fields that structs lack, see [`Lacking`].
    fn with_type(
        &self,
        table: &ArrowArray,
        inside: Option<&str>,
        missing: Option<&ArrowArray>,
        defaults: Option<&ArrowArray>,
    ) -> Self {
        let mut copy = self.copy();
        let [column, fields] = [missing, defaults].map(|it| it.map(|it| Arc::clone(&it.array)));
        copy.index = Arc::new(self.index.with_type(table.array.data_type(), inside));
        copy.lacking = Lacking { column, fields };
        copy
    }

    /// Files, by their numbers, whose rows have no value as they lack the column.
    fn lacking_files(&self, py: Python<'_>) -> PyResult<Vec<usize>> {
        detached(py, || self.index.lacking_files())
    }

    /// Number of pages.
    #[getter]
    fn num_pages(&self) -> u64 {
        self.index.num_pages()
    }

    /// Number of rows.
    #[getter]
    fn num_rows(&self) -> u64 {
        self.index.num_rows()
    }

    /// Number of values that are not null.
    #[getter]
    fn num_values(&self) -> u64 {
        self.index.num_values()
    }

    /// Bytes of one value in the column's own type; 0 if it is not a number.
    #[getter]
    fn value_bytes(&self) -> usize {
        width_of(self.index.field().data_type())
    }

    /// Type of the numbers in the column or its lists, as NumPy names it; None for
    /// other types.
    #[getter]
    fn number_type(&self) -> Option<&'static str> {
        let field = self.index.field();
        let data_type = match &self.tokenization {
            Some(how) => how.field(field).data_type().clone(),
            None => field.data_type().clone(),
        };
        NumberType::of(&data_type).map(NumberType::name)
    }

    /// Bytes of a row in memory, about.
    #[getter]
    fn mean_row_bytes(&self, py: Python<'_>) -> PyResult<u64> {
        detached(py, || mean_row_bytes(&self.index))
    }

    /// Digest of the contents.
    #[getter]
    fn fingerprint(&self) -> String {
        self.index.fingerprint()
    }

    /// Digest of the states of the files.
    #[getter]
    fn states(&self) -> String {
        self.index.states()
    }

    /// Paths of the files.
    #[getter]
    fn files(&self) -> Vec<&str> {
        let numbers = 0..self.index.num_files();
        numbers.map(|file| self.index.path(file)).collect()
    }

    /// Whether these are the paths of the files.
    fn is_of(&self, files: &Bound<'_, PyTuple>) -> PyResult<bool> {
        if files.len() != self.index.num_files() {
            return Ok(false);
        }
        for (n, file) in files.iter().enumerate() {
            if file.cast::<PyString>()?.to_str()? != self.index.path(n) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// First page of each file, and the number of pages.
    fn file_first_page(&self) -> Vec<u64> {
        self.index.file_first_page()
    }

    /// Looks up each of `numbers` in one of the tables: `stored_bytes`, `first_rows` or
    /// `first_values` of pages, `pages_of_rows` or `pages_of_values`.
    fn look_up(
        &self,
        py: Python<'_>,
        table: &str,
        numbers: PyBuffer<i64>,
        values: PyBuffer<i64>,
    ) -> PyResult<()> {
        lookup(py, &numbers, &values, |from, into| {
            self.index.look_up(table, from, into)
        })
    }

    /// First page of each row group, as 64-bit integers in native order.
    fn row_group_runs<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        let runs = detached(py, || Ok(self.index.row_group_runs()))?;
        Ok(bytes_of(py, runs))
    }

    /// First page of each run of pages worth its dictionary, as 64-bit integers; None
    /// if every page is a run.
    fn dictionary_runs<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyBytes>>> {
        let runs = detached(py, || Ok(self.index.dictionary_runs()))?;
        Ok(runs.map(|runs| bytes_of(py, runs)))
    }

    /// Pages of a column of lists in which a list holds a null, as 64-bit integers.
    fn null_pages<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        let pages = detached(py, || Ok(self.index.null_pages()))?;
        Ok(bytes_of(py, pages))
    }

    /// (file, row_group, page, first_row, num_rows, offset, compressed_size).
    fn locate(&self, py: Python<'_>, page: u64) -> PyResult<(u32, u32, u32, u64, u64, u64, u64)> {
        let record = detached(py, || self.index.page(page))?;
        Ok((
            record.file,
            record.row_group,
            record.page,
            record.first_row,
            record.num_rows,
            record.offset,
            record.compressed_size,
        ))
    }

    /// Tokens of the rows of pages, one page after another: int64.
    #[pyo3(signature = (pages, *, verify_checksums))]
    fn row_lengths<'py>(
        &self,
        py: Python<'py>,
        pages: PyBuffer<u64>,
        verify_checksums: bool,
    ) -> PyResult<Bound<'py, PyBytes>> {
        let pages = pages.to_vec(py)?;
        let lengths = reading(py, self.indexed(verify_checksums), |indexed| {
            row_lengths(&indexed, &pages)
        })?;
        let lengths: Vec<u64> = lengths.into_iter().map(u64::from).collect();
        Ok(bytes_of(py, lengths))
    }

    /// Lists around a number in the rows of a column; 0 if each row is a number.
    #[getter]
    fn list_depth(&self) -> i16 {
        let leaf = (self.index.num_files() > 0).then(|| self.index.schema(0).leaves.first());
        leaf.flatten().map_or(0, |leaf| leaf.max_repetition)
    }

    /// Tokens of each row that is not null, if the schema fixes it.
    #[getter]
    fn row_size(&self) -> Option<i32> {
        list_size(self.index.field().data_type())
    }

    /// Numbers of each inner list, if the schema fixes it.
    #[getter]
    fn list_size(&self) -> Option<i32> {
        list_size(list_item(self.index.field().data_type())?)
    }

    /// Reads a page of tokens with the rows of an aligned column, and refuses rows
    /// without the numbers that `per_token` demands.
    fn check_aligned(
        &self,
        py: Python<'_>,
        page: u64,
        column: &Bound<'_, Self>,
        per_token: AskedAligned,
    ) -> PyResult<()> {
        let other = column.get().indexed(false);
        reading(py, self.indexed(false), |indexed| {
            check_page(indexed, page, other, per_token.per_token())
        })
    }

    /// Reads and decodes one page; its documents are infilled as in epoch 0. A page that
    /// decodes to more than `most_bytes` is refused before it takes them.
    #[pyo3(signature = (page, *, verify_checksums, most_bytes=usize::MAX))]
    fn read_page(
        &self,
        py: Python<'_>,
        page: u64,
        verify_checksums: bool,
        most_bytes: usize,
    ) -> PyResult<ArrowArray> {
        reading(py, self.indexed(verify_checksums), |column| {
            let field = self.index.field();
            let read = |opener: &mut PageOpener| -> Result<_> {
                let Some(how) = self.tokenization.clone() else {
                    let kind = field.data_type();
                    let array = read_array(&column, opener, page, Fetched::NOTHING, kind)?;
                    return Ok((array, Arc::clone(field)));
                };
                let (field, texts) = (how.field(field), TextColumn::new(column, how, None)?);
                Ok((texts.read_lists(opener, page, Fetched::NOTHING)?, field))
            };
            let (mut array, mut field) = with_pages_below(most_bytes, || Self::opened(read))?;
            if let Some((infilling, filling)) = &self.infilling {
                let first = self.index.rows_of_page(page)?.start;
                field = infilled_field(&field)?;
                array = arrange_lists(infilling, &array, first, 0, *filling)?;
            }
            Ok(ArrowArray::new(array, field.as_ref().clone()))
        })
    }
}
