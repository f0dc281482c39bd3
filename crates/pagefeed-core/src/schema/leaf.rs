//! Leaves of a schema, and what lies inside a type.

use std::sync::Arc;

use arrow_schema::{DataType, FieldRef};
use parquet::basic::{Repetition, Type as PhysicalType};
use parquet::schema::types::{ColumnDescPtr, ColumnDescriptor, SchemaDescriptor, Type};

/// A leaf of the schema, which is stored as a column chunk.
#[derive(Clone, Debug)]
pub struct Leaf {
    /// Number of the leaf among all leaves of the file.
    pub ordinal: usize,
    /// Dotted path.
    pub path: Arc<str>,
    /// Physical type.
    pub physical: PhysicalType,
    /// Repetition level of an element that continues the innermost list.
    pub max_repetition: i16,
    /// Definition level of a value.
    pub max_definition: i16,
    /// Definition level from which on the outermost list has an element; 0 without lists.
    pub element_definition: i16,
    /// The crate's own description.
    pub descriptor: ColumnDescPtr,
}

impl Leaf {
    /// Leaf number `ordinal` of a schema.
    pub fn new(ordinal: usize, schema: &SchemaDescriptor) -> Self {
        let descriptor = schema.column(ordinal);
        Self {
            ordinal,
            path: descriptor.path().string().into(),
            physical: descriptor.physical_type(),
            max_repetition: descriptor.max_rep_level(),
            max_definition: descriptor.max_def_level(),
            element_definition: element_definition(schema.root_schema(), &descriptor),
            descriptor,
        }
    }
}

/// Definition level at which the outermost list on the path of a leaf has an element.
fn element_definition(root: &Type, leaf: &ColumnDescriptor) -> i16 {
    let (mut node, mut level) = (root, 0);
    for name in leaf.path().parts() {
        if !node.is_group() {
            break;
        }
        let Some(child) = node.get_fields().iter().find(|field| field.name() == name) else {
            break;
        };
        match child.get_basic_info().repetition() {
            Repetition::REPEATED => return level + 1,
            Repetition::OPTIONAL => level += 1,
            Repetition::REQUIRED => {}
        }
        node = child;
    }
    0
}

/// The fields inside a type: the item of a list, the entries of a map, the fields of a struct.
pub(crate) fn children(data_type: &DataType) -> &[FieldRef] {
    match data_type {
        DataType::List(item)
        | DataType::LargeList(item)
        | DataType::FixedSizeList(item, _)
        | DataType::Map(item, _) => std::slice::from_ref(item),
        DataType::Struct(fields) => fields,
        _ => &[],
    }
}
