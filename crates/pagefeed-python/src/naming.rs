//! Names of a table's columns in its files, as Python gives them.

use std::sync::Arc;

use pagefeed_core::schema::naming::{Naming, TableField, TableKind};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::run::detached;

/// A column of a table: name, field id, names in files, type.
#[derive(FromPyObject)]
struct AskedField(String, Option<i32>, Vec<String>, AskedKind);

/// Type of a column: a value, a struct, a list or a map, and the types inside.
#[derive(FromPyObject)]
struct AskedKind(String, Vec<AskedField>, Vec<AskedKind>);

impl AskedField {
    fn into_field(self) -> PyResult<TableField> {
        let Self(name, id, names, kind) = self;
        let kind = kind.into_kind()?;
        Ok(TableField {
            name,
            id,
            names,
            kind,
        })
    }
}

impl AskedKind {
    fn into_kind(self) -> PyResult<TableKind> {
        let Self(kind, fields, inside) = self;
        let mut inside = inside.into_iter().map(Self::into_kind);
        let mut next = || {
            let nothing = || PyValueError::new_err("a list or map needs the type of its items");
            inside.next().ok_or_else(nothing)?
        };
        Ok(match kind.as_str() {
            "struct" => TableKind::Struct(all(fields)?),
            "list" => TableKind::List(Box::new(next()?)),
            "map" => TableKind::Map(Box::new([next()?, next()?])),
            _ => TableKind::Value,
        })
    }
}

fn all(fields: Vec<AskedField>) -> PyResult<Vec<TableField>> {
    fields.into_iter().map(AskedField::into_field).collect()
}

/// Names of a table's columns in its files.
#[pyclass(frozen, name = "Naming", module = "pagefeed._core")]
pub struct PyNaming {
    pub naming: Arc<Naming>,
}

#[pymethods]
impl PyNaming {
    /// Takes the columns of a table, which are found by field ids, by names in the
    /// files, or by other names in files without ids.
    #[new]
    fn new(fields: Vec<AskedField>, by_id: bool, by_name: bool) -> PyResult<Self> {
        let naming = Naming {
            fields: all(fields)?,
            by_id,
            by_name,
        };
        let naming = Arc::new(naming);
        Ok(Self { naming })
    }

    /// The footer of a file, with the names of the table.
    fn rename<'py>(&self, py: Python<'py>, footer: &[u8]) -> PyResult<Bound<'py, PyBytes>> {
        let renamed = detached(py, || self.naming.rename(footer))?;
        Ok(PyBytes::new(py, &renamed))
    }
}
