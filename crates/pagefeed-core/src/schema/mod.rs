//! Leaves that a column name selects, and their Arrow types.

pub mod common;
pub mod converted;
pub mod extension;
pub mod hint;
mod leaf;
pub mod naming;
pub mod rewrite;
pub mod tree;

use std::ops::Range;
use std::sync::Arc;

use arrow_schema::{DataType, Field, Fields};
use parquet::arrow::{
    FieldLevels, ProjectionMask, parquet_to_arrow_field_levels, parquet_to_arrow_schema_by_columns,
};
use parquet::basic::{ConvertedType, Type as PhysicalType};
use parquet::file::metadata::{ParquetMetaData, ParquetMetaDataReader};
use parquet::schema::types::SchemaDescriptor;

use crate::error::{Error, Result, catch_damage};
pub(crate) use leaf::children;
pub use leaf::{Leaf, Node};
use tree::SchemaTree;

/// Key under which the footer of a schema records that pages are padded:
/// see [`Leaf::is_padded`].
pub const PADDED_KEY: &str = "pagefeed.padded";

/// A column as asked for, in one schema: its leaves and its Arrow type.
#[derive(Debug)]
pub struct ColumnSchema {
    /// Footer of an empty file with this schema (and the writer's Arrow schema
    /// if it stored one): what the index keeps of a schema.
    pub footer: Vec<u8>,
    /// Selected leaves in file order; never empty.
    pub leaves: Vec<Leaf>,
    /// The top-level column, pruned to the selected leaves.
    pub field: Arc<Field>,
    /// Levels in the form of the crate's readers.
    pub levels: FieldLevels,
    /// `footer` parsed: the readers ask for it.
    pub metadata: Arc<ParquetMetaData>,
    /// Whether an array must be validated in full before it is handed out: its
    /// Arrow type promises UTF-8 where the reader does not check it.
    pub needs_validation: bool,
}

impl ColumnSchema {
    /// Selects `column` (a top-level name, or the dotted path of a leaf or of an
    /// inner node) in the schema of `footer`.
    ///
    /// INT96 is a time in microseconds, or in nanoseconds where these may matter: see
    /// [`rewrite::timestamp_type`].
    pub fn resolve(footer: &[u8], column: &str, of_table: bool) -> Result<Self> {
        let tree = SchemaTree::of_footer(footer)?;
        let selected = tree.select(column)?;
        // The tree is sound, so that the crate may recurse and allocate by it.
        let decode =
            |footer: &[u8]| catch_damage(|| Ok(ParquetMetaDataReader::decode_metadata(footer)?));
        // Annotations of other columns do not matter here, nor do those that the crate refuses.
        let metadata = decode(footer).or_else(|_| {
            let with =
                |keeps: &dyn Fn(usize) -> bool| decode(&converted::of_leaves(footer, keeps)?);
            let is_sound = |leaf: &usize| with(&|own| own == *leaf).is_ok();
            let sound: Vec<usize> = selected.clone().filter(is_sound).collect();
            with(&|leaf| sound.contains(&leaf))
        })?;
        let descriptor = metadata.file_metadata().schema_descr();
        if descriptor.num_columns() != tree.num_leaves() {
            return Err(Error::corrupt(format!(
                "the schema has {} leaves, {} of them with a type",
                tree.num_leaves(),
                descriptor.num_columns()
            )));
        }
        let is_padded = value_of(&metadata, PADDED_KEY).is_some();
        let leaves: Vec<Leaf> = selected
            .clone()
            .map(|ordinal| Leaf {
                is_padded,
                ..Leaf::new(ordinal, descriptor)
            })
            .collect();
        let (field, levels) = arrow(&metadata, &selected)?;
        if has_nul(&field) {
            return Err(Error::unsupported(format!(
                "a name in column {column:?} holds a NUL, which no Arrow library takes"
            )));
        }
        let hint = hint_of(&metadata);
        let hinted = hint
            .as_ref()
            .and_then(|it| rewrite::hinted(it, field.name()));
        let of_spark = value_of(&metadata, rewrite::SPARK_KEY).is_some();
        let times = rewrite::timestamp_type(of_spark, hinted, of_table);
        let field = extension::annotate(&field, &leaves, &times);
        let needs_validation = has_text(field.data_type())
            && leaves.iter().any(|leaf| {
                leaf.physical == PhysicalType::BYTE_ARRAY
                    && leaf.descriptor.converted_type() != ConvertedType::UTF8
            });
        Ok(Self {
            footer: footer.to_vec(),
            leaves,
            field,
            levels,
            metadata: Arc::new(metadata),
            needs_validation,
        })
    }
}

/// The Arrow field of the selected leaves, with the writer's Arrow schema as advice
/// if the crate takes it.
fn arrow(metadata: &ParquetMetaData, leaves: &Range<usize>) -> Result<(Arc<Field>, FieldLevels)> {
    let schema = metadata.file_metadata().schema_descr();
    let rewritten =
        rewrite::readable(&schema.root_schema_ptr(), leaves)?.map(SchemaDescriptor::new);
    let is_rewritten = rewritten.is_some();
    let schema = rewritten.as_ref().unwrap_or(schema);
    let key_values = metadata.file_metadata().key_value_metadata();
    let hint = hint_of(metadata).filter(|_| !is_rewritten);
    let mask = || ProjectionMask::leaves(schema, leaves.clone());
    let convert = |hinted: bool| {
        catch_damage(|| {
            let hint = hint.as_ref().filter(|_| hinted);
            let key_values = key_values.filter(|_| hinted);
            let levels = parquet_to_arrow_field_levels(schema, mask(), hint)?;
            let fields = parquet_to_arrow_schema_by_columns(schema, mask(), key_values)?.fields;
            match &fields[..] {
                [field] => Ok((field.clone(), levels)),
                _ => Err(Error::corrupt("the column has no Arrow type")),
            }
        })
    };
    match convert(hint.is_some()) {
        Err(_) if hint.is_some() => convert(false),
        converted => converted,
    }
}

/// The Arrow schema that the writer stored.
fn hint_of(metadata: &ParquetMetaData) -> Option<Fields> {
    hint::decode(value_of(metadata, hint::ARROW_SCHEMA_KEY)?)
}

/// Returns the value of a key in the metadata of a footer.
fn value_of<'a>(metadata: &'a ParquetMetaData, key: &str) -> Option<&'a str> {
    let pairs = metadata.file_metadata().key_value_metadata()?;
    pairs.iter().find(|pair| pair.key == key)?.value.as_deref()
}

fn has_nul(field: &Field) -> bool {
    let mut inside = children(field.data_type()).iter();
    field.name().contains('\0') || inside.any(|field| has_nul(field))
}

fn has_text(data_type: &DataType) -> bool {
    let mut inside = children(data_type).iter();
    let is_text = matches!(
        data_type,
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View
    );
    is_text || inside.any(|field| has_text(field.data_type()))
}
