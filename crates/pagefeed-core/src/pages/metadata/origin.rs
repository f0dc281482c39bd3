//! Origin of the metadata of rows.

use std::sync::Arc;

use arrow_array::{ArrayRef, UInt32Array, new_null_array};
use arrow_schema::{DataType, Field, FieldRef};
use arrow_select::take::take;

use crate::decode::conform;
use crate::error::{Error, Result};
use crate::index::Indexed;
use crate::metadata::{inner, spans};
use crate::pages::stream_spans::{StreamSpans, spans_type};
use crate::schema::common::common_field;
use crate::tokens::TokenPage;

/// Source of a column of one dataset.
pub enum Origin {
    /// The pages of an index.
    Pages(Indexed),
    /// One value a file.
    Files(ArrayRef),
    /// The spans of streams.
    Spans(Arc<StreamSpans>),
    /// The dataset has none.
    Nothing,
}

impl Origin {
    /// Returns name and type of the column, at the end of its path through structs.
    fn field(&self, name: &str) -> Field {
        let data_type = match self {
            Self::Pages(column) => {
                let field = column.index.field();
                inner(field, column.index.column()).data_type().clone()
            }
            Self::Files(values) => values.data_type().clone(),
            Self::Spans(_) => spans_type(),
            Self::Nothing => DataType::Null,
        };
        Field::new(name, data_type, true)
    }
}

/// Returns the columns of all datasets by name, of one type for all. `origins` has the
/// columns of each dataset; `are_spans` says which hold spans.
pub fn common_fields(
    names: &[String],
    origins: &[Vec<Origin>],
    are_spans: &[bool],
) -> Result<Vec<FieldRef>> {
    let named = names.iter().zip(are_spans).enumerate();
    let field = |(number, (name, &are_spans)): (usize, (&String, &bool))| {
        let mut common: FieldRef = Arc::new(Field::new(name, DataType::Null, true));
        for origin in origins.iter().filter_map(|origins| origins.get(number)) {
            let mut field = origin.field(name);
            if are_spans && !matches!(origin, Origin::Nothing) {
                field = spans::span_field(&field)?;
            }
            common = common_field(&common, &field).ok_or_else(|| {
                Error::unsupported(format!(
                    "it is {} in one dataset and {} in another, and a batch has one column \
                     for both: leave it out of one, or write it anew",
                    common.data_type(),
                    field.data_type()
                ))
                .in_column(name)
            })?;
        }
        Ok(common)
    };
    named.map(field).collect()
}

/// A column of one dataset.
pub(super) struct Column {
    pub origin: Origin,
    pub data_type: DataType,
    pub are_spans: bool,
    /// Bytes that a row takes, about.
    pub row_bytes: u64,
}

impl Column {
    /// Returns metadata of the rows of `pages`, or of parts of some, that is not in
    /// pages. Each page belongs to the file with its number. An error names one of
    /// them.
    pub fn told(&self, pages: &[(u32, &TokenPage)]) -> Result<ArrayRef, (u32, Error)> {
        let first = pages.first().map_or(0, |(file, _)| *file);
        let rows = |page: &TokenPage| page.row_offsets.len().saturating_sub(1);
        let told = match &self.origin {
            Origin::Spans(spans) => spans.of_pages(pages)?,
            Origin::Files(values) => {
                let of_page = |(file, page): &(u32, &TokenPage)| vec![*file; rows(page)];
                let files: Vec<u32> = pages.iter().flat_map(of_page).collect();
                take(values, &UInt32Array::from(files), None).map_err(|e| (first, e.into()))?
            }
            Origin::Nothing | Origin::Pages(_) => {
                let count = pages.iter().map(|(_, page)| rows(page)).sum();
                return Ok(new_null_array(&self.data_type, count));
            }
        };
        conform(&told, &self.data_type).map_err(|error| (first, error))
    }
}
