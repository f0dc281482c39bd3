//! Files of token lists, written from Python.

use bytes::Bytes;
use pagefeed_core::codec::Codec;
use pagefeed_core::error::Error;
use pagefeed_core::text::encode_concatenated;
use pagefeed_core::write::ListFile as Library;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::error::to_python;
use crate::numbers::Held;
use crate::run::detached;
use crate::tokenizer::Tokenizer;

/// A Parquet file whose first columns are lists of tokens; its bytes can be taken while
/// it is written. All work is done without the GIL.
#[pyclass(module = "pagefeed._core")]
pub struct ListFile {
    file: Library,
}

#[pymethods]
impl ListFile {
    /// Begins a file with the schema of `empty`, a Parquet file without rows, of which
    /// the first `num_lists` columns are lists. Tokens of the first are below `vocab_size`.
    #[new]
    fn new(
        py: Python<'_>,
        empty: &[u8],
        num_lists: usize,
        compression: &str,
        page_bytes: usize,
        vocab_size: u32,
    ) -> PyResult<Self> {
        let codec = match compression {
            "none" => Codec::Uncompressed,
            "snappy" => Codec::Snappy,
            "lz4" => Codec::Lz4Raw,
            "zstd" => Codec::Zstd,
            _ => {
                let error = Error::invalid(format!("{compression:?} is not a codec for pages"));
                return Err(to_python(py, &error));
            }
        };
        let empty = Bytes::copy_from_slice(empty);
        let file = detached(py, || {
            Library::new(empty, num_lists, codec, page_bytes, vocab_size)
        })?;
        Ok(Self { file })
    }

    /// Appends texts to the first column: they lie one after the other in `data` (uint8),
    /// each from one of `offsets` (int64) to the next. Returns the number of tokens, the
    /// largest, and the numbers of texts that are not UTF-8, which are left out.
    fn encode(
        &mut self,
        py: Python<'_>,
        tokenizer: &Tokenizer,
        data: Bound<'_, PyAny>,
        offsets: Bound<'_, PyAny>,
        num_threads: usize,
    ) -> PyResult<(usize, u32, Vec<usize>)> {
        let (data, offsets): (Held<u8>, Held<i64>) = (Held::new(data)?, Held::new(offsets)?);
        let encoder = tokenizer.encoder();
        let file = &mut self.file;
        detached(py, || {
            let (mut num_tokens, mut largest) = (0, 0);
            let (data, offsets) = (data.all(), offsets.all());
            let wrong =
                encode_concatenated(encoder.as_ref(), data, offsets, num_threads, &mut |some| {
                    num_tokens += some.ids.len();
                    largest = largest.max(some.largest());
                    file.append(0, &some.ids, &some.counts, num_threads)
                })?;
            Ok((num_tokens, largest, wrong))
        })
    }

    /// Appends rows to a column: `values` (uint32) of all rows, and the number of
    /// values of each row (uint32).
    #[pyo3(signature = (column, values, counts, num_threads = 1))]
    fn append(
        &mut self,
        py: Python<'_>,
        column: usize,
        values: Bound<'_, PyAny>,
        counts: Bound<'_, PyAny>,
        num_threads: usize,
    ) -> PyResult<()> {
        let (values, counts): (Held<u32>, Held<u32>) = (Held::new(values)?, Held::new(counts)?);
        detached(py, || {
            self.file
                .append(column, values.all(), counts.all(), num_threads)
        })
    }

    /// Values and rows of the lists since the last row group.
    #[getter]
    fn num_waiting(&self) -> usize {
        self.file.num_levels()
    }

    /// Ends a row group; `others` is a Parquet file of the further columns of its rows.
    #[pyo3(signature = (others=None))]
    fn end_group(&mut self, py: Python<'_>, others: Option<&[u8]>) -> PyResult<()> {
        let others = others.map(Bytes::copy_from_slice);
        detached(py, || self.file.end_group(others))
    }

    /// Ends the file.
    fn end(&mut self, py: Python<'_>) -> PyResult<()> {
        detached(py, || self.file.end())
    }

    /// Returns the bytes of the file that were not taken yet.
    fn take<'py>(&mut self, py: Python<'py>) -> Bound<'py, PyBytes> {
        self.file.take(|bytes| PyBytes::new(py, bytes))
    }
}
