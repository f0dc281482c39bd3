//! The module `pagefeed._core`: a thin layer between Python and the data plane.
//!
//! Every call that may block goes through [`run::detached`] or
//! [`run::interruptible`]; every error through [`error::to_python`].

// The pymodule macro expands to items that carry no documentation.
#![allow(missing_docs)]

mod aligned;
mod arrow;
mod asked;
mod buffer;
mod columns;
mod documents;
mod engine;
mod error;
mod expansion;
mod fields;
mod flat;
mod index;
mod infill;
mod list_file;
mod made;
mod metadata;
mod naming;
mod numbers;
mod order;
mod packing;
mod pad;
mod plan;
mod ranges;
mod rows;
mod run;
mod storage;
mod tokenizer;
mod types;
mod values;
mod view;

use pyo3::prelude::*;

/// The data plane of pagefeed.
#[pymodule(gil_used = false)]
mod _core {
    use pyo3::prelude::*;

    #[pymodule_export]
    use crate::arrow::ArrowArray;
    #[pymodule_export]
    use crate::arrow::table::ArrowTable;
    #[pymodule_export]
    use crate::buffer::Buffer;
    #[pymodule_export]
    use crate::engine::Engine;
    #[pymodule_export]
    use crate::fields::field_table;
    #[pymodule_export]
    use crate::flat::{FlatField, RecordColumn, flat_index, made_index};
    #[pymodule_export]
    use crate::index::Index;
    #[pymodule_export]
    use crate::infill::PyInfilling;
    #[pymodule_export]
    use crate::list_file::ListFile;
    #[pymodule_export]
    use crate::metadata::check_metadata;
    #[pymodule_export]
    use crate::naming::PyNaming;
    #[pymodule_export]
    use crate::tokenizer::{Tokenizer, json_texts, text_of};

    #[pymodule_export]
    use crate::expansion::expansion;
    #[pymodule_export]
    use crate::made::MadePages;
    #[pymodule_export]
    use crate::order::{deal, mix, permute};
    #[pymodule_export]
    use crate::packing::pack;
    #[pymodule_export]
    use crate::pad::token_rows;
    #[pymodule_export]
    use crate::ranges::{cut_tokens, find_ranges, list_pages};
    #[cfg(feature = "remote")]
    #[pymodule_export]
    use crate::storage::remote::Remote;
    #[pymodule_export]
    use crate::storage::{local_versions, reads_of_files};

    /// Label that carries no loss.
    #[pymodule_export]
    const IGNORED: i64 = pagefeed_core::fields::IGNORED;

    /// Version of the compiled module.
    #[pyfunction]
    fn version() -> &'static str {
        env!("CARGO_PKG_VERSION")
    }

    /// Returns the value of a key in the metadata of a footer.
    #[pyfunction]
    fn footer_value(py: Python<'_>, footer: &[u8], key: &str) -> PyResult<Option<String>> {
        let find = || pagefeed_core::footer::value_of(footer, key).map(|v| v.map(str::to_owned));
        crate::run::detached(py, find)
    }
}
