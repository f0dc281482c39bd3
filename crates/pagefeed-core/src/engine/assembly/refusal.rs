//! Errors of tokens that do not fit, or are not there.

use crate::error::{Error, Kind};
use crate::gather::{BatchToken, Misfit};

/// The error of a row of a page of the index.
pub(super) fn describe<T: BatchToken>(misfit: Misfit, page: u64, row: u32) -> Error {
    match misfit {
        Misfit::Token(value) => Error::new(
            Kind::TokenRange,
            format!(
                "token {value} in page {page} of the index does not fit {}; \
                 ask for a wider dtype",
                T::NAME
            ),
        ),
        Misfit::PageTooShort {
            num_tokens,
            needed: Some(needed),
            ..
        } => Error::corrupt(format!(
            "page {page} of the index holds {num_tokens} tokens, the plan needs {needed}; \
             the file does not hold what the index promises"
        )),
        Misfit::Columns => Error::internal("the columns of a page are not those of the batch"),
        Misfit::PageTooShort { num_rows, .. } => Error::corrupt(format!(
            "page {page} of the index holds {num_rows} rows, the plan needs row {row} of it; \
             the file does not hold what the index promises"
        )),
    }
}
