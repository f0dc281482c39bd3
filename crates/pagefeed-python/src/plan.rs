//! Plans in Python: tables whose columns are taken by name.

use pagefeed_core::engine::{Bundles, Destinations, Plan};
use pyo3::prelude::*;

use crate::error::to_python;
use crate::numbers::elements;

/// The `BatchPlan` of `pagefeed.core.batches`: segments of consecutive batches.
#[derive(FromPyObject)]
pub struct AskedPlan<'py> {
    num_batches: usize,
    segments: AskedSegments<'py>,
    /// Epoch of each segment, uint32; None if all are 0.
    epoch: Option<Bound<'py, PyAny>>,
    bundles: Option<AskedBundles<'py>>,
    /// Rows of each batch, if not the number in the engine's settings.
    batch_rows: Option<usize>,
    /// Rows of a batch that each sequence gives.
    row_parts: usize,
}

/// The `Segments` of `pagefeed.core.sequences`, one element for each segment: `sequence`, the
/// row among those of all the batches, and `page` int64, the rest uint32.
#[derive(FromPyObject)]
struct AskedSegments<'py> {
    sequence: Bound<'py, PyAny>,
    page: Bound<'py, PyAny>,
    row: Bound<'py, PyAny>,
    first_token: Bound<'py, PyAny>,
    num_tokens: Bound<'py, PyAny>,
    offset: Bound<'py, PyAny>,
}

/// The `Bundles` of `pagefeed.core.sequences`: `key` and `slice_page` int64, the rest uint32.
#[derive(FromPyObject)]
struct AskedBundles<'py> {
    key: Bound<'py, PyAny>,
    num_sequences: Bound<'py, PyAny>,
    slice_offsets: Bound<'py, PyAny>,
    slice_page: Bound<'py, PyAny>,
    slice_row: Bound<'py, PyAny>,
    slice_rows: Bound<'py, PyAny>,
    erased_offsets: Bound<'py, PyAny>,
    erased_first: Bound<'py, PyAny>,
    erased_end: Bound<'py, PyAny>,
}

impl AskedPlan<'_> {
    /// The plan as the engine takes it, whose batches have `batch_rows` rows if it does not
    /// say.
    pub fn plan(&self, py: Python<'_>, batch_rows: usize) -> PyResult<Plan> {
        let segments = &self.segments;
        let destination: Vec<i64> = elements(py, &segments.sequence)?;
        let batch_rows = self.batch_rows.unwrap_or(batch_rows);
        let destinations = Destinations::new(&destination, self.num_batches, batch_rows)
            .map_err(|error| to_python(py, &error))?;
        Ok(Plan {
            batch_offsets: destinations.batch_offsets,
            row: elements(py, &segments.row)?,
            first_token: elements(py, &segments.first_token)?,
            num_tokens: elements(py, &segments.num_tokens)?,
            destination_row: destinations.rows,
            destination_offset: elements(py, &segments.offset)?,
            page: numbers(py, &segments.page)?,
            epoch: match &self.epoch {
                None => Vec::new(),
                Some(epoch) => elements(py, epoch)?,
            },
            bundles: match &self.bundles {
                None => Bundles::default(),
                Some(bundles) => bundles.bundles(py)?,
            },
            batch_rows: self.batch_rows,
            row_parts: self.row_parts,
        })
    }
}

impl AskedBundles<'_> {
    fn bundles(&self, py: Python<'_>) -> PyResult<Bundles> {
        Ok(Bundles {
            key: numbers(py, &self.key)?,
            num_sequences: elements(py, &self.num_sequences)?,
            slice_offsets: elements(py, &self.slice_offsets)?,
            slice_page: numbers(py, &self.slice_page)?,
            slice_row: elements(py, &self.slice_row)?,
            slice_rows: elements(py, &self.slice_rows)?,
            erased_offsets: elements(py, &self.erased_offsets)?,
            erased_first: elements(py, &self.erased_first)?,
            erased_end: elements(py, &self.erased_end)?,
        })
    }
}

/// Returns numbers of pages or bundles, none negative, from an array of int64.
fn numbers(py: Python<'_>, array: &Bound<'_, PyAny>) -> PyResult<Vec<u64>> {
    let numbers: Vec<i64> = elements(py, array)?;
    Ok(numbers.into_iter().map(i64::cast_unsigned).collect())
}
