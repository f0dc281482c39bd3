//! Tokenizers in Python, and those that are Python.

use std::ops::Range;
use std::sync::Arc;

use arrow_array::{ArrayRef, LargeBinaryArray};
use arrow_buffer::OffsetBuffer;
use arrow_schema::{DataType, Field};
use pagefeed_core::error::{Error, Result};
use pagefeed_core::index::Indexed;
use pagefeed_core::pages::reader::read_columns;
use pagefeed_core::pages::text::{self, RowCounts, Texts, Tokenization, count_tokens};
use pagefeed_core::storage::Fetched;
use pagefeed_core::text::{Encode, EncodeRows, encode_batch};
use pagefeed_tokenizer::{Engine, Tokenizer as Library, Trials};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList, PyString};

use crate::arrow::ArrowArray;
use crate::index::Index;
use crate::numbers::{Held, bytes_of};
use crate::rows::Rows;
use crate::run::detached;
use crate::storage::reading;

/// Texts to ids, without the GIL. Wrapped by `pagefeed.Tokenizer`.
#[pyclass(frozen, module = "pagefeed._core")]
pub struct Tokenizer {
    encoder: Arc<dyn Encode>,
    /// The library's tokenizer with its vocabulary, unless it is a function.
    library: Option<Arc<Library>>,
}

impl Tokenizer {
    /// Returns the encoder for engines.
    pub fn encoder(&self) -> Arc<dyn Encode> {
        Arc::clone(&self.encoder)
    }

    /// Returns the encoder of rows: of texts, or of the result of a function.
    fn rows(&self, py: Python<'_>, rows: Option<Py<PyAny>>) -> PyResult<Arc<dyn EncodeRows>> {
        Ok(match rows {
            None => Arc::new(Texts(self.encoder())),
            Some(function) => Arc::new(Rows::new(py, function)?),
        })
    }

    fn library(&self) -> PyResult<&Library> {
        let library = self.library.as_deref();
        library.ok_or_else(|| PyTypeError::new_err("a function has no vocabulary"))
    }
}

/// A Python function of a text that returns its ids as bytes: uint32 in native order.
struct Function(Py<PyAny>);

impl Encode for Function {
    fn encode_into(&self, text: &str, ids: &mut Vec<u32>) -> Result<()> {
        // While the interpreter shuts down Python can neither be asked nor answer.
        let answer = Python::try_attach(|py| {
            let called = self.0.bind(py).call1((text,));
            let bytes = called.and_then(|answer| Ok(answer.cast_into::<PyBytes>()?));
            bytes.map(|bytes| {
                let (whole, _) = bytes.as_bytes().as_chunks::<4>();
                ids.extend(whole.iter().map(|id| u32::from_ne_bytes(*id)));
            })
        });
        match answer {
            Some(Ok(())) => Ok(()),
            Some(Err(error)) => Err(Error::invalid(format!("the tokenizer failed: {error}"))),
            None => Err(Error::invalid("Python is shutting down")),
        }
    }
}

/// Returns the texts in a field of lines of JSON, as large binary; None if any line is
/// unusual.
#[pyfunction]
pub fn json_texts(
    py: Python<'_>,
    block: Bound<'_, PyBytes>,
    name: String,
) -> PyResult<Option<ArrowArray>> {
    let data: Held<u8> = Held::new(block.into_any())?;
    detached(py, || {
        let Some(texts) = pagefeed_tokenizer::json_texts(data.all(), &name) else {
            return Ok(None);
        };
        let borders = OffsetBuffer::new(texts.offsets.into());
        let array = LargeBinaryArray::try_new(borders, texts.bytes.into(), None)?;
        let field = Field::new(name, DataType::LargeBinary, false);
        Ok(Some(ArrowArray::new(Arc::new(array), field)))
    })
}

#[pymethods]
impl Tokenizer {
    /// Loads the text of a `tokenizer.json`. `trials` returns texts on which engines are
    /// compared, given the added tokens; without it the fast engine is left out.
    #[staticmethod]
    #[pyo3(signature = (json, *, as_text, trials=None))]
    fn from_json(
        py: Python<'_>,
        json: &str,
        as_text: bool,
        trials: Option<Py<PyAny>>,
    ) -> PyResult<Self> {
        let trials = trials.as_ref().map(|trials| {
            move |added: Vec<String>| {
                Python::attach(|py| trials.bind(py).call1((added,))?.extract())
                    .map_err(|error: PyErr| Error::invalid(error.to_string()))
            }
        });
        let library = detached(py, || {
            let trials = trials.as_ref().map(|trials| trials as &Trials<'_>);
            Library::new(json, as_text, trials).map(Arc::new)
        })?;
        Ok(Self {
            encoder: library.clone(),
            library: Some(library),
        })
    }

    /// Wraps a function of a text that returns its ids as bytes.
    #[staticmethod]
    fn from_function(function: Py<PyAny>) -> Self {
        Self {
            encoder: Arc::new(Function(function)),
            library: None,
        }
    }

    /// The ids of a text: uint32 in native order.
    fn encode<'py>(&self, py: Python<'py>, text: &str) -> PyResult<Bound<'py, PyBytes>> {
        let encoder = self.encoder();
        let ids = detached(py, || {
            let mut ids = Vec::new();
            encoder.encode_into(text, &mut ids)?;
            Ok(ids)
        })?;
        Ok(bytes_of(py, ids))
    }

    /// Returns the ids of several texts one after another, and the number of ids of
    /// each.
    fn encode_batch<'py>(
        &self,
        py: Python<'py>,
        texts: &Bound<'py, PyList>,
        num_threads: usize,
    ) -> PyResult<(Bound<'py, PyBytes>, Bound<'py, PyBytes>)> {
        let strings: Vec<Bound<'py, PyString>> = texts.extract()?;
        let texts: Vec<&str> = strings
            .iter()
            .map(|s| s.to_str())
            .collect::<PyResult<_>>()?;
        let encoder = self.encoder();
        let all = detached(py, || encode_batch(encoder.as_ref(), &texts, num_threads))?;
        Ok((bytes_of(py, all.ids), bytes_of(py, all.counts)))
    }

    /// Returns where in a text each token comes from: first byte and end.
    fn offsets(&self, py: Python<'_>, text: &str) -> PyResult<Vec<(usize, usize)>> {
        let library = self.library()?;
        detached(py, || library.offsets(text))
    }

    /// The text of ids, special tokens included.
    fn decode(&self, py: Python<'_>, ids: Vec<u32>) -> PyResult<String> {
        let library = self.library()?;
        detached(py, || library.decode(&ids))
    }

    /// One more than the largest id.
    #[getter]
    fn vocab_size(&self) -> PyResult<u32> {
        Ok(self.library()?.exact().vocab_size())
    }

    /// Returns the id of a token, as written in the vocabulary.
    fn token_to_id(&self, token: &str) -> PyResult<Option<u32>> {
        Ok(self.library()?.exact().token_to_id(token))
    }

    /// The added tokens by their ids, and whether they are special.
    fn added_tokens(&self) -> PyResult<Vec<(u32, String, bool)>> {
        Ok(self.library()?.exact().added_tokens())
    }

    /// Returns everything that decides on ids, in one canonical form.
    fn canonical(&self, py: Python<'_>) -> PyResult<String> {
        let library = self.library()?;
        detached(py, || library.exact().canonical())
    }

    /// An index of texts as one of tokens: engines encode as they load. `counts` (uint32)
    /// are the tokens of every row. `rows` encodes the rows of this column and of those
    /// `beside` it, see [`Rows`]; the index is one of the labels then, if `is_labels`.
    #[pyo3(signature = (
        texts, vocab_size, counts, *, rows=None, beside=Vec::new(), is_labels=false
    ))]
    #[expect(
        clippy::too_many_arguments,
        reason = "all but three are keywords in Python"
    )]
    fn tokenized(
        &self,
        py: Python<'_>,
        texts: &Index,
        vocab_size: u32,
        counts: Bound<'_, PyAny>,
        rows: Option<Py<PyAny>>,
        beside: Vec<Bound<'_, Index>>,
        is_labels: bool,
    ) -> PyResult<Index> {
        Ok(texts.with(Tokenization {
            encoder: self.rows(py, rows)?,
            beside: indexed(&beside, true),
            vocab_size,
            counts: Arc::new(HeldCounts::new(counts)?),
            is_labels,
        }))
    }

    /// Number of tokens of each row of a page of texts, uint32 in native order, and of
    /// rows that have labels; `rows` and `beside` as of `tokenized`.
    #[pyo3(signature = (texts, page, *, verify_checksums, rows=None, beside=Vec::new()))]
    fn count<'py>(
        &self,
        py: Python<'py>,
        texts: &Index,
        page: u64,
        verify_checksums: bool,
        rows: Option<Py<PyAny>>,
        beside: Vec<Bound<'py, Index>>,
    ) -> PyResult<(Bound<'py, PyBytes>, u64)> {
        let (column, encoder) = (texts.indexed(verify_checksums), self.rows(py, rows)?);
        let beside = indexed(&beside, verify_checksums);
        let texts = reading(py, column.clone(), |column| {
            read_texts(&column, &beside, page)
        })?;
        // On this thread, which has seen words like these.
        let counted = detached(py, || {
            count_tokens(&texts, encoder.as_ref()).map_err(|error| column.locate_page(error, page))
        })?;
        Ok((bytes_of(py, counted.tokens), counted.num_learned))
    }

    /// The engine that encodes, and why it does.
    fn engine(&self) -> (&'static str, String) {
        match self.library.as_ref().map(|library| library.engine()) {
            Some((Engine::Fast, reason)) => ("fastokens", reason),
            Some((Engine::Exact, reason)) => ("tokenizers", reason),
            None => ("python", "it is a Python function".into()),
        }
    }
}

/// Returns a page of texts as stored, and the same rows of further columns.
fn read_texts(column: &Indexed, beside: &[Indexed], page: u64) -> Result<Vec<ArrayRef>> {
    let nothing = Fetched::NOTHING;
    let read = |opener: &mut _| read_columns(column, beside, opener, page, nothing);
    Index::opened(read).map(|(_, columns)| columns)
}

fn indexed(beside: &[Bound<'_, Index>], verify_checksums: bool) -> Vec<Indexed> {
    let indexes = beside.iter();
    indexes
        .map(|index| index.get().indexed(verify_checksums))
        .collect()
}

/// The text of a row of a page of texts.
#[pyfunction]
#[pyo3(signature = (texts, page, row, *, verify_checksums))]
pub fn text_of(
    py: Python<'_>,
    texts: &Index,
    page: u64,
    row: usize,
    verify_checksums: bool,
) -> PyResult<String> {
    reading(py, texts.indexed(verify_checksums), |column| {
        let texts = read_texts(&column, &[], page)?;
        text::text_of(&texts[0], row).map_err(|error| column.locate_page(error, page))
    })
}

/// Counts of tokens.
pub type HeldCounts = Held<u32>;

impl RowCounts for HeldCounts {
    fn of(&self, rows: Range<u64>) -> Option<&[u32]> {
        let first = usize::try_from(rows.start).ok()?;
        let end = usize::try_from(rows.end).ok()?;
        self.all().get(first..end)
    }
}
