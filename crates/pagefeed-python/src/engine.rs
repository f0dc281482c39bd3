//! The engine in Python.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use pagefeed_core::engine::{Engine as CoreEngine, EngineConfig, Layout, TokenType};
use pagefeed_core::pages::token_ids::TokenIds;
use pyo3::buffer::{Element, PyBuffer};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{IntoPyDict, PyDict};

use crate::buffer::{BatchColumns, Buffer};
use crate::columns::{AskedAligned, Beside, Columns, Values};
use crate::error::to_python;
use crate::fields::AskedFields;
use crate::index::Index;
use crate::metadata::Asked;
use crate::packing::AskedPacking;
use crate::plan::AskedPlan;
use crate::run::{detached, interruptible};

/// Executes plans on its own threads; see `pagefeed.core.loader` for the plans.
#[pyclass(frozen, weakref, module = "pagefeed._core")]
pub struct Engine {
    engine: CoreEngine,
    columns: Arc<BatchColumns>,
    /// Rows of a batch whose plan does not say.
    batch_rows: usize,
    /// Ends reads that wait for a remote storage.
    stop: Arc<AtomicBool>,
}

impl Drop for Engine {
    /// Closes it, the GIL released: its threads may wait for that to call Python.
    fn drop(&mut self) {
        Python::try_attach(|py| self.close(py));
    }
}

/// The elements of a contiguous array of exactly this type.
pub fn elements<T: Element + Copy>(py: Python<'_>, array: &Bound<'_, PyAny>) -> PyResult<Vec<T>> {
    PyBuffer::<T>::get(array)?.to_vec(py)
}

pub fn token_type(name: &str) -> PyResult<TokenType> {
    match name {
        "int64" => Ok(TokenType::I64),
        "int32" => Ok(TokenType::I32),
        "uint16" => Ok(TokenType::U16),
        _ => Err(PyValueError::new_err(format!(
            "dtype is one of int64, int32, uint16, not {name}"
        ))),
    }
}

#[pymethods]
impl Engine {
    /// Starts the threads. `tokens` is the token column of each dataset, `columns` those
    /// that come as rows by `names`, dataset after dataset: indexes, or lists of values,
    /// each of which is one page. Pages are numbered through all, in order;
    /// `verify_checksums` has a flag for each. `has_tokens` says that the first of
    /// `columns` of each dataset holds token ids. `aligned` is for each dataset the columns
    /// with numbers for each token, which are like `per_token` says; None of one that it
    /// lacks, for which its tokens have padding;
    /// `loss_column` is the one of these that the mask of losses follows. `metadata` is
    /// what is told of the documents in a batch, see [`Asked`].
    #[new]
    #[pyo3(signature = (
        tokens, *, num_threads, memory, batch_rows, verify_checksums, columns=Vec::new(),
        names=Vec::new(), has_tokens=false, aligned=Vec::new(), per_token=Vec::new(),
        loss_column=None, dtype="int64", row_length=0, padding=0, bos=None,
        eos=None, packing=None, fields=None,
        vocab_size=None, metadata=None
    ))]
    #[expect(
        clippy::too_many_arguments,
        reason = "keyword arguments of one constructor"
    )]
    fn new(
        py: Python<'_>,
        tokens: Vec<Bound<'_, Index>>,
        num_threads: usize,
        memory: usize,
        batch_rows: usize,
        verify_checksums: Vec<bool>,
        columns: Vec<Values<'_>>,
        names: Vec<String>,
        has_tokens: bool,
        aligned: Vec<Vec<Option<Beside<'_>>>>,
        per_token: Vec<AskedAligned>,
        loss_column: Option<usize>,
        dtype: &str,
        row_length: usize,
        padding: i64,
        bos: Option<i64>,
        eos: Option<i64>,
        packing: Option<AskedPacking>,
        fields: Option<AskedFields>,
        vocab_size: Option<u64>,
        metadata: Option<Asked<'_>>,
    ) -> PyResult<Self> {
        let token_type = token_type(dtype)?;
        let num_columns = names.len();
        let token_ids = TokenIds::new(vocab_size);
        let columns = Columns::new(
            &tokens,
            &aligned,
            metadata,
            columns,
            names,
            &verify_checksums,
            has_tokens,
            token_ids,
        );
        let columns = columns.map_err(|error| to_python(py, &error))?;
        let (metadata, metadata_token_bytes) = detached(py, || columns.metadata())?;
        let mut asked_fields = AskedFields::parse(fields).map_err(|error| to_python(py, &error))?;
        asked_fields.are_columns_shifted = per_token.iter().any(AskedAligned::is_shifted);
        let packing = packing.map(|asked| asked.rule()).transpose()?;
        let multiple_of = packing.map_or(1, |rule| rule.multiple_of);
        let layout = Layout {
            bos,
            eos,
            packing,
            fields: asked_fields.with_multiple_of(multiple_of),
            aligned: detached(py, || columns.aligned(&per_token))?,
            loss_column,
            metadata,
            metadata_token_bytes,
        };
        let fillings = layout
            .aligned
            .iter()
            .map(|column| column.per_token)
            .collect();
        let stop = Arc::default();
        let columns = columns.stopped_by(&stop);
        detached(py, || {
            let config = EngineConfig {
                num_threads,
                budget: memory,
                token_type,
                batch_rows,
                row_length,
                num_columns,
                row_payload: columns.row_payload()?,
                padding,
                layout,
            };
            let (pages, fields) = columns.numbered(memory, &per_token, fillings)?;
            let engine = CoreEngine::new(Arc::new(pages), config)?;
            let columns = Arc::new(BatchColumns { fields });
            Ok(Self {
                engine,
                columns,
                batch_rows,
                stop,
            })
        })
    }

    /// Appends the batches of a plan to the work.
    fn submit(&self, py: Python<'_>, plan: AskedPlan<'_>) -> PyResult<()> {
        let plan = plan.plan(py, self.batch_rows)?;
        detached(py, || self.engine.submit(plan))
    }

    /// The next batch in plan order; waits for it, serving Ctrl-C.
    fn next_batch(&self, py: Python<'_>) -> PyResult<Buffer> {
        let batch = interruptible(py, |timeout| self.engine.next_batch(timeout))?;
        Ok(Buffer::new(batch, Arc::clone(&self.columns)))
    }

    /// Forgets all batches that were submitted and not taken. With `keep_pages` their pages
    /// stay as long as there is room: plans to come may need them.
    #[pyo3(signature = (*, keep_pages=false))]
    fn clear(&self, py: Python<'_>, keep_pages: bool) -> PyResult<()> {
        detached(py, || match keep_pages {
            true => self.engine.clear_keeping_pages(),
            false => self.engine.clear(),
        })
    }

    /// Stops the threads and waits for them: what they read from afar ends soon, a page
    /// that is decoded is finished. Who waits for a batch, or asks for more, is refused.
    fn close(&self, py: Python<'_>) {
        self.stop.store(true, Ordering::Relaxed);
        py.detach(|| self.engine.close());
    }

    /// Batches submitted and not yet taken.
    #[getter]
    fn num_pending(&self) -> usize {
        self.engine.num_pending()
    }

    /// Bytes of plans submitted and not yet taken.
    #[getter]
    fn plan_bytes(&self) -> usize {
        self.engine.plan_bytes()
    }

    /// Counters since the start.
    fn stats<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let stats = detached(py, || self.engine.stats())?;
        let dict = stats.counts().into_py_dict(py)?;
        dict.set_item("wait_seconds", stats.wait.as_secs_f64())?;
        Ok(dict)
    }
}
