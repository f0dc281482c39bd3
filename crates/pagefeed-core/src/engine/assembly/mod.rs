//! Batches as they are put together: their buffers, and what is written into them from
//! pages: tokens ([`scatter`]), the columns aligned with them, what is known of their
//! documents, and cells of rows.

pub(super) mod aligned;
pub(super) mod buffer;
pub(super) mod collect;
mod copies;
pub(super) mod gathering;
pub(super) mod loose;
mod parts;
pub(super) mod refusal;
pub(super) mod scatter;

use buffer::Buffer;
use gathering::Gathering;
use loose::LooseParts;

use crate::error::Error;

/// Writes the pages in memory, and segments read without their pages. An error names a
/// page.
pub(super) fn write(
    batch: &Gathering<'_>,
    buffer: &mut Buffer,
    loose: &mut LooseParts,
) -> Result<(), (u64, Error)> {
    if batch.config.num_columns > 0 {
        collect::gather(batch, &mut buffer.columns)?;
    }
    if batch.config.row_length > 0 {
        scatter::gather(batch, buffer, loose)?;
    }
    Ok(())
}
