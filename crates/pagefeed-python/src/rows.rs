//! The engine of rows in Python.

use std::sync::Arc;

use arrow_array::{Int64Array, StringArray};
use arrow_schema::{DataType, Field};
use pagefeed_core::engine::{Bundles, Engine, EngineConfig, Layout, Plan, RowPage, TokenType};
use pagefeed_core::pages::row_source::{Column, RowSource, mean_row_bytes};
use pagefeed_core::pages::token_ids::TokenIds;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::arrow::ArrowArray;
use crate::engine::{counters, elements, flag_each};
use crate::index::Index;
use crate::run::{detached, interruptible};

/// What a column of a dataset is made of.
#[derive(FromPyObject)]
enum Values<'py> {
    Index(Bound<'py, Index>),
    Numbers(Vec<Option<i64>>),
    Text(Vec<Option<String>>),
}

impl Values<'_> {
    fn into_column(self, verify_checksums: bool) -> Column {
        match self {
            Self::Index(index) => Column::Pages(index.get().indexed(verify_checksums)),
            Self::Numbers(numbers) => Column::Values(Arc::new(Int64Array::from(numbers))),
            Self::Text(text) => Column::Values(Arc::new(StringArray::from(text))),
        }
    }
}

/// Executes plans of rows on its own threads: a batch has one Arrow array a column.
#[pyclass(frozen, module = "pagefeed._core")]
pub struct RowEngine {
    engine: Engine<RowPage>,
    batch_rows: usize,
    columns: Vec<Field>,
}

#[pymethods]
impl RowEngine {
    /// Starts the threads. `columns` are those of a first dataset, of a second one, and
    /// so on: indexes, or lists of values. Pages are numbered through all indexes, and
    /// then through the lists, each of which is a page. `has_tokens` says that the first
    /// column of each dataset holds token ids; `verify_checksums` has a flag a column.
    #[new]
    #[pyo3(signature = (
        columns, *, names, num_threads, memory, batch_rows, verify_checksums,
        has_tokens=false, vocab_size=None
    ))]
    #[expect(
        clippy::too_many_arguments,
        reason = "keyword arguments of one constructor"
    )]
    fn new(
        py: Python<'_>,
        columns: Vec<Values<'_>>,
        names: Vec<String>,
        num_threads: usize,
        memory: usize,
        batch_rows: usize,
        verify_checksums: Vec<bool>,
        has_tokens: bool,
        vocab_size: Option<u64>,
    ) -> PyResult<Self> {
        let flags = flag_each(verify_checksums, columns.len())?;
        let columns = columns.into_iter().zip(flags);
        let columns: Vec<Column> = columns
            .map(|(values, flag)| values.into_column(flag))
            .collect();
        let num_columns = names.len();
        detached(py, || {
            let mut row_payload = 0usize;
            for column in columns.iter().take(num_columns) {
                if let Column::Pages(pages) = column {
                    let bytes =
                        usize::try_from(mean_row_bytes(&pages.index)?).unwrap_or(usize::MAX);
                    row_payload = row_payload.saturating_add(bytes);
                }
            }
            let (mut source, fields) = RowSource::new(columns, &names)?;
            if has_tokens {
                source = source.only(TokenIds::new(vocab_size));
            }
            // A row that a batch lacks is null.
            let columns = fields
                .iter()
                .map(|field| field.as_ref().clone().with_nullable(true))
                .collect();
            let config = EngineConfig {
                num_threads,
                budget: memory,
                token_type: TokenType::I64,
                batch_rows,
                row_length: num_columns,
                row_payload,
                padding: 0,
                layout: Layout::default(),
            };
            let engine = Engine::new(Arc::new(source), config)?;
            Ok(Self {
                engine,
                batch_rows,
                columns,
            })
        })
    }

    /// Appends batches to the work: cells of consecutive batches, sorted by batch.
    /// `page` is uint64, the rest uint32.
    fn submit(
        &self,
        py: Python<'_>,
        batch_offsets: &Bound<'_, PyAny>,
        page: &Bound<'_, PyAny>,
        row: &Bound<'_, PyAny>,
        destination_row: &Bound<'_, PyAny>,
        column: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        let page: Vec<u64> = elements(py, page)?;
        let plan = Plan {
            batch_offsets: elements(py, batch_offsets)?,
            row: elements(py, row)?,
            first_token: vec![0; page.len()],
            num_tokens: vec![1; page.len()],
            destination_row: elements(py, destination_row)?,
            destination_offset: elements(py, column)?,
            page,
            bundles: Bundles::default(),
        };
        detached(py, || self.engine.submit(plan))
    }

    /// The next batch in plan order: an array a column, null where the plan has no
    /// cell. Waits for it, serving Ctrl-C.
    fn next_batch(&self, py: Python<'_>) -> PyResult<Vec<ArrowArray>> {
        let batch = interruptible(py, |timeout| self.engine.next_batch(timeout))?;
        let types = self.columns.iter().map(|field| field.data_type().clone());
        let types: Vec<DataType> = types.collect();
        let arrays = detached(py, || batch.into_columns(&types, self.batch_rows))?;
        let named = arrays.into_iter().zip(&self.columns);
        Ok(named
            .map(|(array, field)| {
                let data_type = array.data_type().clone();
                ArrowArray::new(array, field.clone().with_data_type(data_type))
            })
            .collect())
    }

    /// Forgets all batches that were submitted and not taken.
    fn clear(&self, py: Python<'_>) -> PyResult<()> {
        detached(py, || self.engine.clear())
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
        counters(py, &detached(py, || self.engine.stats())?)
    }
}
