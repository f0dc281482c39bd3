//! Files of a table, whose columns are found by field ids, or by names that only files
//! know: their footers, with the names of the table in place of those of the files.
//!
//! A reader of such a footer finds the columns of the table, and no others.

use std::borrow::Cow;
use std::ops::Range;
use std::sync::Arc;

use arrow_schema::{DataType, Field, FieldRef, Fields};

use super::common::common_type;
use super::leaf::children;
use super::tree::SchemaTree;
use crate::error::{Error, Result};
use crate::thrift::{Reader, Wire, put_varint, read_fields};

/// Suffix of names that are not in the table, in a renamed footer.
const UNKNOWN: &str = ", not in the table)";
/// Repetition of a repeated field, as Thrift has it.
const REPEATED: i32 = 2;

/// A column of a table, or a field in one.
#[derive(Clone, Debug)]
pub struct TableField {
    /// Name in the table.
    pub name: String,
    /// Field id.
    pub id: Option<i32>,
    /// Names in files without field ids.
    pub names: Vec<String>,
    /// Type of the column.
    pub kind: TableKind,
}

/// Type of a column of a table.
#[derive(Clone, Debug)]
pub enum TableKind {
    /// One value.
    Value,
    /// Fields by name.
    Struct(Vec<TableField>),
    /// A list of what this holds.
    List(Box<TableKind>),
    /// Keys and values.
    Map(Box<[TableKind; 2]>),
}

/// Names of the columns of a table in its files.
#[derive(Clone, Debug)]
pub struct Naming {
    /// The columns.
    pub fields: Vec<TableField>,
    /// Whether field ids decide, in files that have any.
    pub by_id: bool,
    /// Whether columns without field ids are found by name.
    pub by_name: bool,
}

/// A node of a file's schema.
struct Node<'a> {
    name: &'a str,
    /// Range of the name in the footer, including its length.
    at: Range<usize>,
    id: Option<i32>,
    is_repeated: bool,
    children: Vec<Node<'a>>,
}

/// Range of each name to change, and the new name.
type Changes = Vec<(Range<usize>, String)>;

impl Naming {
    /// Returns a footer with the names of the table.
    pub fn rename<'a>(&self, footer: &'a [u8]) -> Result<Cow<'a, [u8]>> {
        SchemaTree::of_footer(footer)?; // Which refuses what is not sound.
        let root = schema_of(footer)?;
        let by_id = self.by_id && root.children.iter().any(has_id);
        if !by_id && !self.by_name {
            return Err(Error::unsupported(
                "the table finds columns by field ids, and the file has none: give the \
                 table a name mapping (schema.name-mapping.default), or write the file again",
            ));
        }
        let mut changes = Vec::new();
        rename_fields(&root.children, &self.fields, by_id, &mut changes);
        if changes.is_empty() {
            return Ok(Cow::Borrowed(footer));
        }
        let (mut renamed, mut at) = (Vec::with_capacity(footer.len()), 0);
        for (range, name) in changes {
            renamed.extend_from_slice(&footer[at..range.start]);
            put_varint(&mut renamed, name.len() as u64);
            renamed.extend_from_slice(name.as_bytes());
            at = range.end;
        }
        renamed.extend_from_slice(&footer[at..]);
        Ok(Cow::Owned(renamed))
    }
}

fn has_id(node: &Node<'_>) -> bool {
    node.id.is_some() || node.children.iter().any(has_id)
}

fn rename_fields(nodes: &[Node<'_>], fields: &[TableField], by_id: bool, changes: &mut Changes) {
    for node in nodes {
        let field = fields.iter().find(|field| match by_id {
            true => node.id.is_some() && field.id == node.id,
            false => field.names.iter().any(|name| name == node.name),
        });
        let name = match (field, node.id) {
            (Some(field), _) => field.name.clone(),
            (None, Some(id)) => format!("{} (field id {id}{UNKNOWN}", node.name),
            (None, None) => format!("{} (no field id{UNKNOWN}", node.name),
        };
        if name != node.name {
            changes.push((node.at.clone(), name));
        }
        if let Some(field) = field {
            rename_inside(node, &field.kind, by_id, changes);
        }
    }
}

/// Renames fields of structs inside a column. Items of lists, and keys and values of
/// maps, are found by position: writers name them differently.
fn rename_inside(node: &Node<'_>, kind: &TableKind, by_id: bool, changes: &mut Changes) {
    match kind {
        TableKind::Value => {}
        TableKind::Struct(fields) => rename_fields(&node.children, fields, by_id, changes),
        TableKind::List(item) => {
            if let Some(child) = item_of(node) {
                rename_inside(child, item, by_id, changes);
            }
        }
        TableKind::Map(both) => {
            if let [entries] = &node.children[..] {
                for (child, kind) in entries.children.iter().zip(both.iter()) {
                    rename_inside(child, kind, by_id, changes);
                }
            }
        }
    }
}

/// The item of a list, by the rules of the format for old writers.
fn item_of<'a, 'b>(list: &'a Node<'b>) -> Option<&'a Node<'b>> {
    let [repeated] = &list.children[..] else {
        return None;
    };
    let is_item = repeated.name == "array" || repeated.name == format!("{}_tuple", list.name);
    match &repeated.children[..] {
        [item] if repeated.is_repeated && !is_item => Some(item),
        _ => Some(repeated),
    }
}

fn schema_of(footer: &[u8]) -> Result<Node<'_>> {
    let mut root = None;
    let mut reader = Reader::new(footer);
    read_fields!(reader, {
        (2, Wire::List) => {
            reader.list_of(Wire::Struct)?;
            root = Some(node_of(reader)?);
        },
    })?;
    root.ok_or_else(|| Error::corrupt("the footer lacks a schema"))
}

/// Reads a node and the nodes below it, of a valid tree.
fn node_of<'a>(reader: &mut Reader<'a>) -> Result<Node<'a>> {
    let mut num_children = 0;
    let mut node = Node {
        name: "",
        at: 0..0,
        id: None,
        is_repeated: false,
        children: Vec::new(),
    };
    read_fields!(reader, {
        (3, Wire::I32) => node.is_repeated = reader.i32()? == REPEATED,
        (4, Wire::Binary) => {
            let start = reader.position();
            node.name = reader.string()?;
            node.at = start..reader.position();
        },
        (5, Wire::I32) => num_children = reader.size("a schema element's child count")?,
        (9, Wire::I32) => node.id = Some(reader.i32()?),
    })?;
    for _ in 0..num_children {
        node.children.push(node_of(reader)?);
    }
    Ok(node)
}

/// A field without what the table does not have.
pub fn known(field: &FieldRef) -> FieldRef {
    map_structs(field, &|fields| {
        let known = fields
            .iter()
            .filter(|inner| !inner.name().ends_with(UNKNOWN));
        known.cloned().collect()
    })
}

/// Returns a field with the inner fields of `other` added as nullable, and its time zone
/// where it has none.
pub fn widened(field: &FieldRef, other: &FieldRef) -> FieldRef {
    use arrow_schema::DataType as T;
    let inside = |item: &FieldRef, other: &FieldRef| widened(item, other);
    let data_type = match (field.data_type(), other.data_type()) {
        (T::Struct(fields), T::Struct(others)) => T::Struct(all_fields(fields, others)),
        (T::List(item), T::List(other) | T::LargeList(other)) => T::List(inside(item, other)),
        (T::LargeList(item), T::List(other) | T::LargeList(other)) => {
            T::LargeList(inside(item, other))
        }
        (T::Map(entries, sorted), T::Map(other, _)) => T::Map(inside(entries, other), *sorted),
        (T::Timestamp(unit, None), T::Timestamp(_, Some(zone))) => {
            T::Timestamp(*unit, Some(Arc::clone(zone)))
        }
        (other, _) => other.clone(),
    };
    retyped(field, data_type)
}

/// A field with the type that the table gives it, where that type takes the values of the
/// files: wider numbers, a type in place of null, and fields that no file has.
pub fn typed(field: &FieldRef, table: &DataType) -> FieldRef {
    use DataType as T;
    let data_type = match (field.data_type(), table) {
        (T::Struct(fields), T::Struct(others)) => T::Struct(typed_fields(fields, others)),
        (T::List(item), T::List(other)) => T::List(typed(item, other.data_type())),
        (T::LargeList(item), T::List(other)) => T::LargeList(typed(item, other.data_type())),
        (T::Map(entries, sorted), T::Map(other, _)) => {
            T::Map(typed(entries, other.data_type()), *sorted)
        }
        // Old writers did not say that their times are in UTC.
        (T::Timestamp(unit, _), T::Timestamp(other, zone)) => {
            T::Timestamp(*unit.max(other), zone.clone())
        }
        (own, _) if children(own).is_empty() => {
            common_type(own, table).unwrap_or_else(|| own.clone())
        }
        (own, _) => own.clone(),
    };
    retyped(field, data_type)
}

/// A column with only those fields of its structs that the table's type names. Files may
/// lack them; values have the type that the table gives.
pub fn narrowed(field: &FieldRef, table: &DataType) -> FieldRef {
    let (DataType::Struct(fields), DataType::Struct(named)) = (field.data_type(), table) else {
        return typed(field, table);
    };
    let chosen = named.iter().map(|other| match fields.find(other.name()) {
        Some((_, own)) => narrowed(own, other.data_type()),
        None => nullable(other),
    });
    retyped(field, DataType::Struct(chosen.collect()))
}

/// Those of a file in the types of the table, then those of the table alone.
fn typed_fields(fields: &Fields, others: &Fields) -> Fields {
    let own = fields.iter().map(|field| match others.find(field.name()) {
        Some((_, other)) => typed(field, other.data_type()),
        None => Arc::clone(field),
    });
    let new = others
        .iter()
        .filter(|other| fields.find(other.name()).is_none());
    own.chain(new.map(nullable)).collect()
}

fn all_fields(fields: &Fields, others: &Fields) -> Fields {
    let own = fields.iter().map(|field| match others.find(field.name()) {
        Some((_, other)) => widened(field, other),
        None => nullable(field),
    });
    let new = others
        .iter()
        .filter(|other| fields.find(other.name()).is_none());
    own.chain(new.map(nullable)).collect()
}

fn nullable(field: &FieldRef) -> FieldRef {
    Field::clone(field).with_nullable(true).into()
}

fn map_structs(field: &FieldRef, change: &dyn Fn(&Fields) -> Fields) -> FieldRef {
    use arrow_schema::DataType as T;
    let inside = |item: &FieldRef| map_structs(item, change);
    let data_type = match field.data_type() {
        T::Struct(fields) => T::Struct(change(fields).iter().map(inside).collect()),
        T::List(item) => T::List(inside(item)),
        T::LargeList(item) => T::LargeList(inside(item)),
        T::FixedSizeList(item, size) => T::FixedSizeList(inside(item), *size),
        T::Map(entries, sorted) => T::Map(inside(entries), *sorted),
        other => other.clone(),
    };
    retyped(field, data_type)
}

fn retyped(field: &FieldRef, data_type: DataType) -> FieldRef {
    Field::clone(field).with_data_type(data_type).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A footer of leaves, by names and ids.
    fn footer(leaves: &[(&str, Option<u8>)]) -> Vec<u8> {
        let mut bytes = vec![0x15, 2, 0x19, 0xfc, leaves.len() as u8 + 1];
        bytes.extend([0x48, 4, b'r', b'o', b'o', b't', 0x15]);
        bytes.extend([leaves.len() as u8 * 2, 0]);
        for (name, id) in leaves {
            bytes.extend([0x15, 2, 0x38, name.len() as u8]);
            bytes.extend(name.as_bytes());
            bytes.extend(id.iter().flat_map(|id| [0x55, id * 2]));
            bytes.push(0);
        }
        bytes.push(0);
        bytes
    }

    fn naming(by_id: bool, by_name: bool) -> Naming {
        let field = |name: &str, id, called: &str| TableField {
            name: name.into(),
            id: Some(id),
            names: vec![called.into()],
            kind: TableKind::Value,
        };
        Naming {
            fields: vec![field("a", 1, "x"), field("b", 2, "a")],
            by_id,
            by_name,
        }
    }

    fn names(naming: &Naming, leaves: &[(&str, Option<u8>)]) -> Vec<String> {
        let footer = footer(leaves);
        let renamed = naming.rename(&footer).unwrap();
        let root = schema_of(&renamed).unwrap();
        root.children.iter().map(|n| n.name.to_string()).collect()
    }

    #[test]
    fn ids_decide_and_names_where_there_are_none() {
        let with = [("b", Some(1)), ("a", Some(2)), ("old", Some(9))];
        let unknown = "old (field id 9, not in the table)";
        for naming in [naming(true, true), naming(true, false)] {
            assert_eq!(names(&naming, &with), ["a", "b", unknown]);
        }
        let without = [("a", None), ("x", None), ("b", None)];
        let unknown = "b (no field id, not in the table)";
        for naming in [naming(true, true), naming(false, true)] {
            assert_eq!(names(&naming, &without), ["b", "a", unknown]);
        }
        let refused = naming(true, false).rename(&footer(&without)).unwrap_err();
        assert!(refused.message().contains("name mapping"));
    }
}
