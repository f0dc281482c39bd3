//! Packing in Python: the same as the engine's.

use pagefeed_core::Error;
use pagefeed_core::packing::{self, Method, Rule};
use pyo3::buffer::PyBuffer;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::numbers::bytes_of;
use crate::run::detached;

/// Settings of packing, as Python gives them.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub struct AskedPacking {
    method: String,
    never_split: bool,
    multiple_of: u32,
    repeats_bos: bool,
}

impl AskedPacking {
    /// Returns the packing rule with these names.
    pub fn rule(&self) -> PyResult<Rule> {
        let method = match self.method.as_str() {
            "best_fit" => Method::BestFit,
            "first_fit" => Method::FirstFit,
            "greedy" => Method::Greedy,
            method => {
                return Err(PyValueError::new_err(format!(
                    "method is one of best_fit, first_fit, greedy, not {method}"
                )));
            }
        };
        Ok(Rule {
            method,
            never_split: self.never_split,
            multiple_of: self.multiple_of,
            repeats_bos: self.repeats_bos,
        })
    }
}

/// Packs documents of `lengths` tokens (int64) into sequences of `length`. Returns
/// int64 [parts, 5] in native order: sequence, document, its first token, number of
/// tokens, position in the sequence.
#[pyfunction]
pub fn pack<'py>(
    py: Python<'py>,
    lengths: PyBuffer<i64>,
    length: u32,
    packing: AskedPacking,
) -> PyResult<Bound<'py, PyBytes>> {
    let rule = packing.rule()?;
    let lengths = lengths.to_vec(py)?;
    let numbers = detached(py, || {
        let too_long = |tokens: &i64| {
            u32::try_from(*tokens).map_err(|_| {
                Error::invalid(format!(
                    "a document has 0 to 2**32 - 1 tokens, found {tokens}"
                ))
            })
        };
        let lengths: Vec<u32> = lengths.iter().map(too_long).collect::<Result<_, _>>()?;
        let packing = packing::pack(&lengths, length, rule)?;
        let mut numbers: Vec<i64> = Vec::new();
        for sequence in 0..packing.num_sequences() {
            for part in packing.sequence(sequence).unwrap_or_default() {
                numbers.push(sequence as i64);
                let of_part = [part.row, part.first_token, part.num_tokens, part.offset];
                numbers.extend(of_part.map(i64::from));
            }
        }
        Ok(numbers)
    })?;
    Ok(bytes_of(py, numbers))
}
