//! Batches as they are put together: their buffers, and what is written into them from
//! pages: tokens ([`scatter`]), the columns aligned with them, what is known of their
//! documents, and cells of rows. Lists in cells become tokens once the batch has all its
//! rows ([`documents`]): how long these are is known only then.

pub(super) mod aligned;
pub(super) mod buffer;
pub(super) mod collect;
mod copies;
mod document_parts;
mod documents;
pub(super) mod gathering;
pub(super) mod list_rows;
pub(super) mod loose;
mod number_lists;
pub(super) mod refusal;
pub(super) mod scatter;

use buffer::Buffer;
use collect::RowCollector;
use gathering::Gathering;
use loose::LooseSlices;

use super::EngineConfig;
use crate::error::{Error, Result};

/// The page of errors that no page has caused.
const NO_PAGE: u64 = u64::MAX;

/// Writes the pages in memory, and segments read without their pages. An error names a
/// page.
pub(super) fn write(
    batch: &Gathering<'_>,
    buffer: &mut Buffer,
    loose: &mut LooseSlices,
) -> Result<(), (u64, Error)> {
    if !batch.config.columns.is_empty() {
        collect::gather(batch, &mut buffer.cells)?;
    }
    if !batch.config.columns.is_empty() && batch.is_last {
        finish(batch.config, buffer).map_err(|error| (NO_PAGE, error))?;
    }
    if batch.config.row_length > 0 {
        scatter::gather(batch, buffer, loose)?;
    }
    Ok(())
}

/// Makes columns of the cells, and rows of tokens of the lists among them.
fn finish(config: &EngineConfig, buffer: &mut Buffer) -> Result<()> {
    let documents = config.layout.documents.as_deref();
    let cells = std::mem::take(&mut buffer.cells);
    if documents.is_some_and(|documents| documents.only_filled) {
        // Up to the last row with a cell, and at least one.
        let filled = cells.iter().map(RowCollector::num_rows).max();
        buffer.num_rows = filled.unwrap_or(0).max(1);
    }
    buffer.columns = collect::finish(cells, &config.columns, buffer.num_rows)?;
    match documents {
        Some(documents) => documents::finish(config, documents, buffer),
        None => Ok(()),
    }
}
