//! The schema as the footer stores it: a preorder list of elements, checked here
//! before the `parquet` crate (which recurses and trusts counts) sees it.

use std::ops::Range;

use crate::error::{Error, Kind, Result};
use crate::limits::{MAX_SCHEMA_DEPTH, MAX_SCHEMA_ELEMENTS};
use crate::thrift::{Reader, Wire, read_fields};

/// Columns named in an error message.
const MAX_NAMES_SHOWN: usize = 20;

/// One node of the schema below the root.
#[derive(Debug)]
struct Node {
    /// Dotted path.
    path: String,
    /// 1 for a top-level column.
    depth: usize,
    /// Leaves in the subtree.
    leaves: Range<usize>,
    /// Physical type of a leaf, `None` for a group.
    physical: Option<i32>,
}

/// The nodes of a schema, whose depth and counts were checked.
#[derive(Debug)]
pub struct SchemaTree {
    nodes: Vec<Node>,
    physical: Vec<i32>,
}

/// The fields of a schema element that are used.
struct Element<'a> {
    name: &'a str,
    num_children: usize,
    physical: Option<i32>,
}

impl<'a> Element<'a> {
    fn parse(reader: &mut Reader<'a>) -> Result<Self> {
        let (mut name, mut num_children, mut physical) = (None, 0, None);
        read_fields!(reader, {
            (1, Wire::I32) => physical = Some(reader.i32()?),
            (4, Wire::Binary) => name = Some(reader.string()?),
            (5, Wire::I32) => num_children = reader.size("a schema element's child count")?,
        })?;
        Ok(Self {
            name: name.ok_or_else(|| Error::corrupt("a schema element has no name"))?,
            num_children,
            physical,
        })
    }
}

impl SchemaTree {
    /// The schema in a footer.
    pub fn of_footer(footer: &[u8]) -> Result<Self> {
        let mut tree = None;
        let mut reader = Reader::new(footer);
        read_fields!(reader, {
            (2, Wire::List) => tree = Some(Self::parse(reader)?),
        })?;
        tree.ok_or_else(|| Error::corrupt("the footer lacks a schema"))
    }

    /// Parses the list of schema elements at the position of `reader`.
    pub fn parse(reader: &mut Reader<'_>) -> Result<Self> {
        let count = reader.list_of(Wire::Struct)?;
        if count == 0 {
            return Err(Error::corrupt("the schema is empty"));
        }
        if count > MAX_SCHEMA_ELEMENTS {
            return Err(Error::limit(format!(
                "the schema has {count} elements, the limit is {MAX_SCHEMA_ELEMENTS}"
            )));
        }
        let root = Element::parse(reader)?;
        let mut tree = Self {
            nodes: Vec::with_capacity(count - 1),
            physical: Vec::new(),
        };
        // Groups that still wait for children: (node, children to come).
        let mut open: Vec<(Option<usize>, usize)> = vec![(None, root.num_children)];
        for index in 1..count {
            tree.close_groups(&mut open);
            let Some((parent, waiting)) = open.last_mut() else {
                return Err(Error::corrupt(format!(
                    "the schema lists {count} elements, its tree ends after {index}"
                )));
            };
            *waiting -= 1;
            let element = Element::parse(reader)?;
            // The crate allocates for the children before it reads them.
            if element.num_children > count - index - 1 {
                return Err(Error::corrupt(format!(
                    "schema element {} claims {} children with {} elements left",
                    element.name,
                    element.num_children,
                    count - index - 1
                )));
            }
            let parent = *parent;
            let node = tree.push(parent, &element, open.len())?;
            if element.num_children > 0 {
                open.push((Some(node), element.num_children));
            }
        }
        tree.close_groups(&mut open);
        if !open.is_empty() {
            return Err(Error::corrupt("the schema ends in the middle of a group"));
        }
        Ok(tree)
    }

    fn push(
        &mut self,
        parent: Option<usize>,
        element: &Element<'_>,
        depth: usize,
    ) -> Result<usize> {
        if depth > MAX_SCHEMA_DEPTH {
            return Err(Error::limit(format!(
                "the schema is nested deeper than {MAX_SCHEMA_DEPTH} levels"
            )));
        }
        let path = match parent {
            None => element.name.to_string(),
            Some(parent) => format!("{}.{}", self.nodes[parent].path, element.name),
        };
        let first = self.physical.len();
        let physical = element.physical.filter(|_| element.num_children == 0);
        self.physical.extend(physical);
        self.nodes.push(Node {
            path,
            depth,
            leaves: first..self.physical.len(),
            physical,
        });
        Ok(self.nodes.len() - 1)
    }

    /// Pops the groups that have all their children.
    fn close_groups(&mut self, open: &mut Vec<(Option<usize>, usize)>) {
        while let Some((node, 0)) = open.last() {
            if let Some(node) = *node {
                self.nodes[node].leaves.end = self.physical.len();
            }
            open.pop();
        }
    }

    /// Number of leaves: column chunks of every row group.
    pub fn num_leaves(&self) -> usize {
        self.physical.len()
    }

    /// Physical type of a leaf, by its number in the format.
    pub fn physical_type(&self, leaf: usize) -> Option<i32> {
        self.physical.get(leaf).copied()
    }

    /// Leaves that `column` names: a top-level column, else a leaf by its dotted
    /// path, else an inner node by its dotted path.
    pub fn select(&self, column: &str) -> Result<Range<usize>> {
        let named = |node: &&Node| node.path == column;
        let choices: [&dyn Fn(&&Node) -> bool; 3] = [
            &|node| named(node) && node.depth == 1,
            &|node| named(node) && node.physical.is_some(),
            &named,
        ];
        for choice in choices {
            let mut matches = self.nodes.iter().filter(choice);
            let Some(node) = matches.next() else { continue };
            if matches.next().is_some() {
                return Err(Error::new(
                    Kind::ColumnNotFound,
                    format!("the schema has more than one column {column:?}; rename one of them"),
                ));
            }
            if node.leaves.is_empty() {
                return Err(Error::unsupported(format!(
                    "column {column:?} is a group without any leaf"
                )));
            }
            return Ok(node.leaves.clone());
        }
        Err(self.not_found(column))
    }

    fn not_found(&self, column: &str) -> Error {
        let names: Vec<&str> = self
            .nodes
            .iter()
            .filter(|node| node.depth == 1)
            .map(|node| node.path.as_str())
            .collect();
        let nearest = self
            .nodes
            .iter()
            .take(1000)
            .map(|node| (edit_distance(&node.path, column), node.path.as_str()))
            .min()
            .filter(|(distance, _)| *distance <= 1 + column.len() / 3);
        let mut message = format!("there is no column {column:?}");
        if let Some((_, nearest)) = nearest {
            message.push_str(&format!("; did you mean {nearest:?}?"));
        }
        let shown = names.len().min(MAX_NAMES_SHOWN);
        message.push_str(&format!("; the columns are {}", names[..shown].join(", ")));
        if names.len() > shown {
            message.push_str(&format!(" and {} more", names.len() - shown));
        }
        Error::new(Kind::ColumnNotFound, message)
    }
}

/// Levenshtein distance of the first 64 characters.
fn edit_distance(left: &str, right: &str) -> usize {
    let right: Vec<char> = right.chars().take(64).collect();
    let mut row: Vec<usize> = (0..=right.len()).collect();
    for (i, a) in left.chars().take(64).enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, b) in right.iter().enumerate() {
            let substituted = diagonal + usize::from(a != *b);
            diagonal = row[j + 1];
            row[j + 1] = substituted.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[right.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `(name, children, has a type)` as a compact-protocol list of elements.
    fn schema(elements: &[(&str, u8, bool)]) -> Vec<u8> {
        let mut bytes = vec![0xfc, elements.len() as u8];
        for (name, children, leaf) in elements {
            if *leaf {
                bytes.extend([0x15, 2, 0x38]);
            } else {
                bytes.push(0x48);
            }
            bytes.push(name.len() as u8);
            bytes.extend(name.as_bytes());
            if *children > 0 {
                bytes.extend([0x15, children * 2]);
            }
            bytes.push(0);
        }
        bytes
    }

    fn parse(elements: &[(&str, u8, bool)]) -> Result<SchemaTree> {
        SchemaTree::parse(&mut Reader::new(&schema(elements)))
    }

    #[test]
    fn names_select_top_level_then_leaf_then_inner_node() {
        let tree = parse(&[
            ("root", 3, false),
            ("a", 1, false),
            ("list", 2, false),
            ("x", 0, true),
            ("y", 0, true),
            ("a.list.x", 0, true),
            ("empty", 0, false),
        ])
        .unwrap();
        assert_eq!(tree.num_leaves(), 3);
        assert_eq!(tree.select("a").unwrap(), 0..2);
        assert_eq!(tree.select("a.list").unwrap(), 0..2);
        assert_eq!(tree.select("a.list.y").unwrap(), 1..2);
        assert_eq!(tree.select("a.list.x").unwrap(), 2..3, "top level wins");
        assert_eq!(tree.select("empty").unwrap_err().kind(), Kind::Unsupported);
    }

    #[test]
    fn a_missing_column_names_the_nearest_and_all() {
        let tree = parse(&[
            ("root", 2, false),
            ("input_ids", 0, true),
            ("text", 0, true),
        ])
        .unwrap();
        let error = tree.select("inputids").unwrap_err();
        assert_eq!(error.kind(), Kind::ColumnNotFound);
        assert_eq!(
            error.message(),
            "there is no column \"inputids\"; did you mean \"input_ids\"?; \
             the columns are input_ids, text"
        );
    }

    #[test]
    fn two_columns_of_one_name_are_ambiguous() {
        let tree = parse(&[("root", 2, false), ("a", 0, true), ("a", 0, true)]).unwrap();
        assert_eq!(tree.select("a").unwrap_err().kind(), Kind::ColumnNotFound);
    }

    #[test]
    fn trees_that_do_not_add_up_are_refused() {
        for elements in [
            &[("root", 1, false), ("a", 0, true), ("b", 0, true)][..],
            &[("root", 2, false), ("a", 0, true)],
            &[("root", 1, false), ("a", 9, false), ("b", 0, true)],
        ] {
            assert_eq!(parse(elements).unwrap_err().kind(), Kind::Corrupt);
        }
    }

    #[test]
    fn deep_schemas_are_refused() {
        let mut elements = vec![("n", 1, false); MAX_SCHEMA_DEPTH + 2];
        elements.push(("leaf", 0, true));
        assert_eq!(parse(&elements).unwrap_err().kind(), Kind::Limit);
    }
}
