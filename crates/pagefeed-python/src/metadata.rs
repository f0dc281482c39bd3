//! Columns that tell something of the documents in a batch, as Python names them.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use arrow_array::{Int64Array, StringArray};
use arrow_schema::FieldRef;
use pagefeed_core::engine::PageSource;
use pagefeed_core::error::{Error, Result};
use pagefeed_core::index::Indexed;
use pagefeed_core::metadata::TableSchema;
use pagefeed_core::pages::flat::FlatField;
use pagefeed_core::pages::metadata::{Origin, WithMetadata, common_fields};
use pagefeed_core::pages::record_column::RecordValues;
use pagefeed_core::pages::row_column::mean_row_bytes;
use pagefeed_core::pages::row_ranges::SharedPages;
use pyo3::prelude::*;

use crate::error::to_python;
use crate::run::detached;
use crate::storage::stopped_by;
use crate::values::Values;

/// Metadata asked for: names of columns, which of them hold spans, and for each dataset
/// the sources of its columns.
pub type Asked<'py> = (Vec<String>, Vec<bool>, Vec<Vec<Option<Values<'py>>>>);

/// The columns of all datasets.
pub struct Metadata {
    names: Vec<String>,
    are_spans: Vec<bool>,
    origins: Vec<Vec<Origin>>,
}

impl Metadata {
    /// Takes the columns asked for, with a flag for each dataset.
    pub fn new(asked: Asked<'_>, verify_checksums: &[bool]) -> Result<Self> {
        let (names, are_spans, sources) = asked;
        let flags = verify_checksums.iter().chain(std::iter::repeat(&true));
        let of_datasets = sources.into_iter().zip(flags);
        let origins = of_datasets.map(|(sources, &verify)| {
            let sources = sources.into_iter();
            sources.map(|values| origin(values, verify)).collect()
        });
        Ok(Self {
            names,
            are_spans,
            origins: origins.collect::<Result<_>>()?,
        })
    }

    /// For streams: the field of a dataset's records with the number of their payload.
    pub fn payload_field(&self, dataset: usize) -> Option<FlatField> {
        let origins = self.origins.get(dataset)?;
        origins.iter().find_map(|origin| match origin {
            Origin::Spans(spans) => Some(spans.field()),
            _ => None,
        })
    }

    /// Makes reads end soon after `stop` becomes true.
    pub fn stop_by(&mut self, stop: &Arc<AtomicBool>) {
        for origin in self.origins.iter_mut().flatten() {
            if let Origin::Pages(column) = origin {
                column.storage = stopped_by(&column.storage, stop);
            }
        }
    }

    fn fields(&self) -> Result<Vec<FieldRef>> {
        common_fields(&self.names, &self.origins, &self.are_spans)
    }

    /// Returns the columns of the metadata table.
    pub fn schema(&self) -> Result<TableSchema> {
        TableSchema::new(self.fields()?, self.are_spans.clone())
    }

    /// Bytes that the columns take for a token, about, in the dataset where they take
    /// most.
    pub fn token_bytes(&self, tokens: &[&Indexed]) -> Result<f64> {
        const POSITION_BYTES: f64 = 32.0;
        let mut most = 0.0;
        for (origins, tokens) in self.origins.iter().zip(tokens) {
            let mut row = POSITION_BYTES;
            for origin in origins {
                row += match origin {
                    Origin::Pages(column) => mean_row_bytes(&column.index)? as f64,
                    Origin::Spans(spans) => spans.row_bytes() as f64,
                    Origin::Files(_) | Origin::Nothing => 0.0,
                };
            }
            let rows = tokens.index.num_rows() as f64;
            most = f64::max(most, row * rows / tokens.index.num_values().max(1) as f64);
        }
        Ok(most)
    }

    /// Pages of tokens with these columns of their rows.
    pub fn with(
        self,
        sources: Vec<(Arc<dyn PageSource>, Indexed)>,
        shared: &Arc<SharedPages>,
    ) -> Result<Vec<(Arc<dyn PageSource>, Indexed)>> {
        let fields = self.fields()?;
        let spans = &self.are_spans;
        let of_datasets = sources.into_iter().zip(self.origins);
        of_datasets
            .map(|((tokens, rows), origins)| {
                let pages =
                    WithMetadata::new(tokens, rows.clone(), origins, &fields, spans, shared);
                Ok((Arc::new(pages?) as Arc<dyn PageSource>, rows))
            })
            .collect()
    }
}

fn origin(values: Option<Values<'_>>, verify_checksums: bool) -> Result<Origin> {
    Ok(match values {
        Some(Values::Records(records)) => match records.get().column()?.values {
            RecordValues::Spans(spans) => Origin::Spans(spans),
            RecordValues::Numbers(_) => {
                return Err(Error::invalid(
                    "numbers of tokens cannot be metadata of rows",
                ));
            }
        },
        None => Origin::Nothing,
        // For texts that are tokenized as they are read: the texts.
        Some(Values::Index(index)) => Origin::Pages(index.get().indexed(verify_checksums)),
        Some(Values::Array(array)) => Origin::Files(Arc::clone(&array.get().array)),
        Some(Values::Numbers(numbers)) => Origin::Files(Arc::new(Int64Array::from(numbers))),
        Some(Values::Text(text)) => Origin::Files(Arc::new(StringArray::from(text))),
    })
}

/// Refuses columns that no table can have.
#[pyfunction]
pub fn check_metadata(py: Python<'_>, asked: Asked<'_>) -> PyResult<()> {
    let metadata = Metadata::new(asked, &[]).map_err(|error| to_python(py, &error))?;
    detached(py, || metadata.schema().map(drop))
}
