//! The engine in Python.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use pagefeed_core::engine::{Documents, Engine as CoreEngine, EngineConfig, Layout};
use pyo3::prelude::*;
use pyo3::types::{IntoPyDict, PyDict};

use crate::asked::{asked, check_names};
use crate::buffer::{BatchColumns, Buffer};
use crate::columns::{AskedColumns, Columns};
use crate::documents::AskedDocuments;
use crate::error::to_python;
use crate::fields::AskedFields;
use crate::numbers::token_type;
use crate::packing::AskedPacking;
use crate::plan::AskedPlan;
use crate::run::{detached, interruptible};

/// Executes plans on its own threads; see `pagefeed.core.loader` for the plans.
#[pyclass(frozen, weakref, module = "pagefeed._core")]
pub struct Engine {
    engine: CoreEngine,
    columns: Arc<BatchColumns>,
    /// Rows of a batch, for plans without a number of rows.
    batch_rows: usize,
    /// Ends reads that wait for a remote storage.
    stop: Arc<AtomicBool>,
}

impl Drop for Engine {
    /// Closes the engine without the GIL: its threads may wait for the GIL to call Python.
    fn drop(&mut self) {
        Python::try_attach(|py| self.close(py));
    }
}

asked! {
    /// Settings of batches.
    struct AskedBatches {
        num_threads: usize,
        /// Bytes for pages and batches.
        memory: usize,
        /// Rows of a batch, for plans without a number of rows.
        batch_rows: usize,
        /// Tokens of a row; 0 without tokens.
        row_length: usize = 0,
        /// Type of tokens.
        dtype: String = "int64".to_owned(),
        padding: i64 = 0,
        bos: Option<i64> = None,
        eos: Option<i64> = None,
        packing: Option<AskedPacking> = None,
        fields: Option<AskedFields> = None,
        /// The aligned column that decides on the loss mask.
        loss_column: Option<usize> = None,
        /// Padding and types of the lists in the columns of rows.
        documents: Option<AskedDocuments> = None,
        /// Read nothing: count what would be read and held.
        rehearses: bool = false,
    }
}

#[pymethods]
impl Engine {
    /// Starts the threads; the stub documents the settings. Page numbers run through
    /// all token columns, then through all columns of rows, where each value of a list
    /// is a page.
    #[new]
    fn new(py: Python<'_>, config: &Bound<'_, PyDict>) -> PyResult<Self> {
        check_names(config, &[AskedColumns::NAMES, AskedBatches::NAMES])?;
        let asked: AskedBatches = config.extract()?;
        let columns = Columns::new(config.extract()?).map_err(|error| to_python(py, &error))?;
        let (metadata, metadata_token_bytes) = detached(py, || columns.metadata())?;
        let mut fields = AskedFields::parse(asked.fields).map_err(|error| to_python(py, &error))?;
        let documents = asked.documents.map(AskedDocuments::parse).transpose();
        let documents = documents.map_err(|error| to_python(py, &error))?;
        let of_documents = documents.as_ref().is_some_and(Documents::need_borders);
        fields.are_for_columns = columns.need_borders() || of_documents;
        let packing = asked.packing.map(|asked| asked.rule()).transpose()?;
        let multiple_of = packing.map_or(1, |rule| rule.multiple_of);
        let layout = Layout {
            bos: asked.bos,
            eos: asked.eos,
            packing,
            row_parts: 0,
            fields: fields.with_multiple_of(multiple_of),
            aligned: detached(py, || columns.aligned())?,
            loss_column: asked.loss_column,
            metadata,
            metadata_token_bytes,
            documents: documents.map(Arc::new),
        };
        let token_type = token_type(&asked.dtype)?;
        let stop = Arc::default();
        let columns = columns.stopped_by(&stop);
        detached(py, || {
            let row_payload = columns.row_payload()?;
            let (pages, fields) = columns.numbered(asked.memory)?;
            let handed_out = layout.documents.as_ref();
            let handed_out = fields
                .iter()
                .enumerate()
                .filter(|&(column, _)| handed_out.is_none_or(|documents| documents.keeps(column)));
            let columns = BatchColumns {
                fields: handed_out.map(|(_, field)| field.clone()).collect(),
            };
            let config = EngineConfig {
                num_threads: asked.num_threads,
                budget: asked.memory,
                token_type,
                batch_rows: asked.batch_rows,
                row_length: asked.row_length,
                columns: fields,
                row_payload,
                padding: asked.padding,
                layout,
            };
            let engine = match asked.rehearses {
                true => CoreEngine::rehearsing(Arc::new(pages), config)?,
                false => CoreEngine::new(Arc::new(pages), config)?,
            };
            Ok(Self {
                engine,
                columns: Arc::new(columns),
                batch_rows: asked.batch_rows,
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

    /// Drops all batches that were submitted and not taken. With `keep_pages`, their
    /// pages stay while there is room, since later plans may need them.
    #[pyo3(signature = (*, keep_pages=false))]
    fn clear(&self, py: Python<'_>, keep_pages: bool) -> PyResult<()> {
        detached(py, || match keep_pages {
            true => self.engine.clear_keeping_pages(),
            false => self.engine.clear(),
        })
    }

    /// Keeps pages of rows after their last use, while there is room.
    fn keep_pages(&self, py: Python<'_>) -> PyResult<()> {
        detached(py, || self.engine.keep_pages())
    }

    /// Stops the threads and waits for them: remote reads end soon, and pages that are being
    /// decoded are finished. A call that waits for a batch fails, and so do later calls.
    fn close(&self, py: Python<'_>) {
        self.stop.store(true, Ordering::Relaxed);
        py.detach(|| self.engine.close());
    }

    /// Returns what the next batch waits for, and what the threads do.
    fn awaited<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let awaited = detached(py, || self.engine.awaited())?;
        let dict = PyDict::new(py);
        let places = awaited.places.iter().map(|place| {
            let (file, column) = (place.file.as_deref(), place.column.as_deref());
            (file, place.row_group, column, place.page)
        });
        dict.set_item("places", places.collect::<Vec<_>>())?;
        dict.set_item("num_pages", awaited.num_pages)?;
        dict.set_item("num_bytes", awaited.num_bytes)?;
        dict.set_item("workers", awaited.workers)?;
        dict.set_item("fetches", awaited.fetches)?;
        Ok(dict)
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

    /// The account of a rehearsal since the last call: pages in the order of their
    /// loads; pages by uses, and their bytes.
    fn take_rehearsed(&self) -> (Vec<u64>, Vec<u64>, Vec<usize>) {
        let rehearsed = self.engine.take_rehearsed();
        let (pages, bytes) = rehearsed.uses.into_iter().unzip();
        (rehearsed.loaded, pages, bytes)
    }

    /// Counters since the start.
    fn stats<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let stats = detached(py, || self.engine.stats())?;
        let dict = stats.counts().into_py_dict(py)?;
        dict.set_item("wait_seconds", stats.wait.as_secs_f64())?;
        Ok(dict)
    }
}
