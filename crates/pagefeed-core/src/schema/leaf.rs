//! Leaves of a schema, and what lies inside a type.

use std::sync::Arc;

use arrow_schema::{DataType, FieldRef};
use parquet::basic::{Repetition, Type as PhysicalType};
use parquet::schema::types::{ColumnDescPtr, SchemaDescriptor, Type};

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
    /// Nodes on the path, from the column to the leaf.
    pub nodes: Vec<Node>,
    /// The crate's own description.
    pub descriptor: ColumnDescPtr,
    /// Whether fastparquet wrote the pages: those of version 1 end with eight zeros.
    pub is_padded: bool,
}

/// Levels of a node of the schema.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Node {
    /// Repetition level of a further element of the innermost list.
    pub repetition: i16,
    /// Definition level from which on the node is there.
    pub definition: i16,
    /// Number of its first leaf, by which nodes of one depth differ.
    first_leaf: usize,
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
            nodes: nodes(schema.root_schema(), ordinal),
            descriptor,
            is_padded: false,
        }
    }

    /// Definition level from which on the list whose elements repeat at `repetition` has one.
    pub fn element_definition(&self, repetition: i16) -> i16 {
        let list = self.nodes.iter().find(|node| node.repetition == repetition);
        list.map_or(0, |node| node.definition)
    }

    /// The innermost node that leaves share.
    pub fn shared_node(&self, other: &Self) -> Node {
        let both = self.nodes.iter().zip(&other.nodes);
        let shared = both.take_while(|(own, other)| own == other).last();
        shared.map(|(node, _)| *node).unwrap_or_default()
    }
}

/// The nodes above leaf number `ordinal`, and the leaf.
fn nodes(root: &Type, ordinal: usize) -> Vec<Node> {
    let (mut fields, mut last, mut nodes) = (root.get_fields(), Node::default(), Vec::new());
    while let Some(child) = fields.iter().find(|child| {
        let behind = last.first_leaf + num_leaves(child);
        let is_inside = ordinal < behind;
        last.first_leaf = if is_inside { last.first_leaf } else { behind };
        is_inside
    }) {
        let repetition = child.get_basic_info().repetition();
        last.repetition += i16::from(repetition == Repetition::REPEATED);
        last.definition += i16::from(repetition != Repetition::REQUIRED);
        nodes.push(last);
        fields = if child.is_group() {
            child.get_fields()
        } else {
            &[]
        };
    }
    nodes
}

fn num_leaves(node: &Type) -> usize {
    match node.is_group() {
        true => node.get_fields().iter().map(|node| num_leaves(node)).sum(),
        false => 1,
    }
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
