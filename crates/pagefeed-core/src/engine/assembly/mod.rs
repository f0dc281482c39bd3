//! Batches as they are put together: their buffers, and what is written into them from
//! pages: tokens ([`scatter`]), the columns aligned with them, what is known of their
//! documents, and cells of rows.

pub(super) mod aligned;
pub(super) mod batch;
pub(super) mod collect;
pub(super) mod gathering;
pub(super) mod loose;
mod parts;
pub(super) mod refusal;
pub(super) mod scatter;
