//! The Arrow schema that Arrow writers store in the footer, made safe: it only ever
//! refines types, and never brings dictionaries, run-end encoding, views or extension
//! types along.

use std::sync::Arc;

use arrow_schema::{DataType, Field, FieldRef, Fields, Schema};
use base64::Engine;
use base64::prelude::BASE64_STANDARD;

use crate::error::catch_panic;

/// Key under which Arrow writers store their schema.
pub const ARROW_SCHEMA_KEY: &str = "ARROW:schema";

/// Decodes the stored value; `None` when it is not a schema (it is advice only).
pub fn decode(value: &str) -> Option<Fields> {
    let bytes = BASE64_STANDARD.decode(value).ok()?;
    // Newer writers put a continuation marker and a length before the message.
    let message = match bytes.strip_prefix(&[0xff; 4]) {
        Some(rest) => rest.get(4..)?,
        None => &bytes,
    };
    let schema = catch_panic(|| {
        let message = arrow_ipc::root_as_message(message)
            .map_err(|error| crate::Error::corrupt(error.to_string()))?;
        let schema = message
            .header_as_schema()
            .ok_or_else(|| crate::Error::corrupt("not a schema"))?;
        Ok(arrow_ipc::convert::try_fb_to_schema(schema)?)
    })
    .ok()?;
    schema.fields().iter().map(plain_field).collect()
}

/// Encodes fields the way [`decode`] reads them. Equal fields give equal text.
pub fn encode(fields: &Fields) -> String {
    parquet::arrow::encode_arrow_schema(&Schema::new(fields.clone()))
}

/// The field without metadata, its type reduced; `None` if it can be no hint.
fn plain_field(field: &FieldRef) -> Option<FieldRef> {
    let data_type = plain_type(field.data_type())?;
    Some(Arc::new(Field::new(
        field.name(),
        data_type,
        field.is_nullable(),
    )))
}

fn plain_type(data_type: &DataType) -> Option<DataType> {
    Some(match data_type {
        DataType::Dictionary(_, value) => plain_type(value)?,
        DataType::RunEndEncoded(_, value) => plain_type(value.data_type())?,
        DataType::Utf8View => DataType::Utf8,
        DataType::BinaryView => DataType::Binary,
        // Stored as days; other readers leave it at that.
        DataType::Date64 => DataType::Date32,
        DataType::List(item) | DataType::ListView(item) => DataType::List(plain_field(item)?),
        DataType::LargeList(item) | DataType::LargeListView(item) => {
            DataType::LargeList(plain_field(item)?)
        }
        DataType::FixedSizeList(item, size) if *size >= 0 => {
            DataType::FixedSizeList(plain_field(item)?, *size)
        }
        DataType::Struct(fields) => {
            DataType::Struct(fields.iter().map(plain_field).collect::<Option<_>>()?)
        }
        DataType::Map(entries, sorted) => DataType::Map(plain_field(entries)?, *sorted),
        DataType::Union(..) | DataType::FixedSizeList(..) => return None,
        other => other.clone(),
    })
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;

    #[test]
    fn encodings_views_and_metadata_are_dropped() {
        let item = Arc::new(Field::new("item", DataType::Utf8View, true));
        let fields = Fields::from(vec![
            Field::new(
                "d",
                DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::LargeUtf8)),
                true,
            )
            .with_metadata(HashMap::from([(
                "ARROW:extension:name".to_string(),
                "evil".to_string(),
            )])),
            Field::new("l", DataType::LargeListView(item), false),
            Field::new("t", DataType::UInt16, false),
        ]);
        let decoded = decode(&encode(&fields)).unwrap();
        let plain_item = Arc::new(Field::new("item", DataType::Utf8, true));
        assert_eq!(
            decoded,
            Fields::from(vec![
                Field::new("d", DataType::LargeUtf8, true),
                Field::new("l", DataType::LargeList(plain_item), false),
                Field::new("t", DataType::UInt16, false),
            ])
        );
        assert_eq!(decode(&encode(&decoded)).unwrap(), decoded);
    }

    #[test]
    fn garbage_is_no_hint() {
        for value in ["", "????", "/////wAA", &BASE64_STANDARD.encode([0u8; 64])] {
            assert!(decode(value).is_none());
        }
    }
}
