//! Settings that Python gives as a dict, typed in the stub.

use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::PyDict;

/// Defines settings that are extracted from a dict; those with a default may be
/// missing.
macro_rules! asked {
    ($(#[$doc:meta])* $vis:vis struct $name:ident$(<$life:lifetime>)? {
        $($(#[$about:meta])* $field:ident: $type:ty $(= $default:expr)?,)*
    }) => {
        $(#[$doc])*
        #[derive(FromPyObject)]
        #[pyo3(from_item_all)]
        $vis struct $name$(<$life>)? {
            $($(#[$about])* $(#[pyo3(default = $default)])? $field: $type,)*
        }

        impl$(<$life>)? $name$(<$life>)? {
            /// All names.
            pub const NAMES: &'static [&'static str] = &[$(stringify!($field)),*];
        }
    };
}
pub(crate) use asked;

/// Refuses an unknown setting.
pub fn check_names(asked: &Bound<'_, PyDict>, names: &[&[&str]]) -> PyResult<()> {
    let settings = names.concat();
    for name in asked.keys() {
        let name: String = name.extract()?;
        if !settings.contains(&name.as_str()) {
            return Err(PyTypeError::new_err(format!(
                "there is no setting {name:?}"
            )));
        }
    }
    Ok(())
}
