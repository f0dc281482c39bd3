//! The module `pagefeed._core`.

use pyo3::prelude::*;

/// The data plane of pagefeed.
#[pymodule]
mod _core {
    use super::*;

    /// Version of the compiled module.
    #[pyfunction]
    fn version() -> &'static str {
        env!("CARGO_PKG_VERSION")
    }
}
