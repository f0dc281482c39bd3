//! Infilling in Python: which documents, and what they hold then.

use std::sync::Arc;

use pagefeed_core::infill::{Infilling, Pending};
use pyo3::buffer::PyBuffer;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::numbers::bytes_of;
use crate::run::detached_if_many;

/// Infilling of the documents of a dataset. Wrapped by `pagefeed.dataset.Infill`.
#[pyclass(frozen, name = "Infilling", module = "pagefeed._core")]
pub struct PyInfilling {
    pub(crate) infilling: Arc<Infilling>,
}

/// First token of a document, number of tokens, and the wanted tokens before it.
type OwnTokens = (u32, u32, u32);

#[pymethods]
impl PyInfilling {
    /// Takes `tokens`, the ids of prefix, suffix, middle and optionally the end; `rate`
    /// and `spm` are shares of 2^32.
    #[new]
    #[pyo3(signature = (*, choice, cuts, rate, spm, tokens, within_sequence))]
    fn new(
        choice: [u64; 2],
        cuts: [u64; 2],
        rate: u64,
        spm: u64,
        tokens: Vec<i64>,
        within_sequence: bool,
    ) -> PyResult<Self> {
        if !(3..=4).contains(&tokens.len()) {
            return Err(PyValueError::new_err("three tokens, or four"));
        }
        let infilling = Infilling {
            choice,
            cuts,
            rate,
            spm,
            tokens,
            within_sequence,
        };
        Ok(Self {
            infilling: Arc::new(infilling),
        })
    }

    /// Returns the number of infilled documents between neighbouring `borders`, rising
    /// int64; as 64-bit integers in native order.
    fn num_chosen<'py>(
        &self,
        py: Python<'py>,
        borders: PyBuffer<i64>,
    ) -> PyResult<Bound<'py, PyBytes>> {
        let borders = borders.to_vec(py)?;
        let [first, end] = [borders.first(), borders.last()].map(|border| border.copied());
        let many = usize::try_from(end.unwrap_or(0) - first.unwrap_or(0)).unwrap_or(0);
        let counts = detached_if_many(py, many, || {
            let count = |pair: &[i64]| {
                let [begin, end] = [pair[0], pair[1]].map(|border| border.max(0).cast_unsigned());
                self.infilling.num_chosen(begin..end)
            };
            Ok(borders.windows(2).map(count).collect::<Vec<u64>>())
        })?;
        Ok(bytes_of(py, counts))
    }

    /// The document's own tokens among those from `start` to `stop` of its row, which
    /// count what was added. `parts` are those of the row that sequences hold, counted
    /// likewise, where each sequence is cut apart.
    #[pyo3(signature = (document, num_tokens, start, stop, *, epoch, parts = None))]
    fn own(
        &self,
        document: u64,
        num_tokens: u32,
        start: u32,
        stop: u32,
        epoch: u32,
        parts: Option<Vec<(u32, u32)>>,
    ) -> Vec<OwnTokens> {
        if !self.infilling.is_chosen(document) {
            return vec![(start, stop.saturating_sub(start), 0)];
        }
        let pending = Pending {
            row: 0,
            draws: self.infilling.draws(document, epoch),
        };
        let arranged = match parts {
            None => self.infilling.arranged(&pending, 0..num_tokens),
            Some(parts) => {
                let parts = parts.iter().map(|&(begin, end)| begin..end);
                self.infilling.arranged_in(&pending, num_tokens, parts)
            }
        };
        let runs = arranged.own(num_tokens, start..stop);
        runs.map(|run| (run.first_token, run.num_tokens, run.offset))
            .collect()
    }
}
