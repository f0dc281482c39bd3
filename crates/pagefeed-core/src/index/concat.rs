//! Files, and files of other indexes, as one index.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use super::files::FilesBuilder;
use super::page_index::{Index, field_of_all};
use super::table::{Table, TableBuilder};
use crate::error::{Error, Result};
use crate::schema::ColumnSchema;

/// A range of files: the number of their index, the first file, and one past the last.
pub type FileRange = (usize, usize, usize);

/// An index that grows by files.
#[derive(Default)]
pub(super) struct GrowingIndex {
    pub files: FilesBuilder,
    schemas: Vec<Arc<ColumnSchema>>,
    /// Numbers of the schemas, by their footers.
    numbers: HashMap<Vec<u8>, u32>,
    /// One per leaf.
    tables: Vec<TableBuilder>,
}

impl Index {
    /// Concatenates files of several indexes of one column, in the order of `ranges`. The
    /// result equals an index built of these files.
    pub fn concat(indexes: &[Arc<Self>], ranges: &[FileRange]) -> Result<Self> {
        let [first, ..] = indexes else {
            return Err(Error::invalid("no indexes to concatenate"));
        };
        let mut all = GrowingIndex::default();
        for &(number, start, stop) in ranges {
            let index = indexes.get(number).filter(|index| {
                index.column == first.column
                    && index.of_table == first.of_table
                    && index.flat.is_none()
                    && stop <= index.files.len()
            });
            let index = index.filter(|_| start <= stop);
            let index = index.ok_or_else(|| {
                Error::corrupt(
                    "a range of files does not fit the indexes, or they are not of one column",
                )
            })?;
            let schemas: Vec<_> = index.schemas.iter().map(|each| all.schema(each)).collect();
            for file in start..stop {
                let schema = schemas[index.files.numbers.schema_id[file] as usize];
                let (stamp, digest) = (index.files.stamp(file), index.files.digest(file));
                all.files
                    .push(index.files.path(file), stamp, digest, schema)?;
            }
            all.push_tables(&index.tables, start..stop)
                .map_err(|error| error.in_column(&first.column))?;
        }
        let joined = all.finish(&first.column, first.of_table)?;
        match indexes.iter().any(|index| index.compared.is_some()) {
            true => joined.of_others(),
            false => Ok(joined),
        }
    }
}

impl GrowingIndex {
    /// The number of a schema.
    pub fn schema(&mut self, schema: &Arc<ColumnSchema>) -> u32 {
        if let Some(number) = self.numbers.get(&schema.footer) {
            return *number;
        }
        let number = self.schemas.len() as u32;
        self.schemas.push(Arc::clone(schema));
        self.numbers.insert(schema.footer.clone(), number);
        number
    }

    /// Names a leaf that the first schema or the last one has, and the other lacks.
    fn differing_leaf(&self) -> String {
        let [first, .., last] = &self.schemas[..] else {
            return String::new();
        };
        let lacks = |schema: &ColumnSchema, path: &str| {
            schema.leaves.iter().all(|leaf| &*leaf.path != path)
        };
        let more = last.leaves.iter().find(|leaf| lacks(first, &leaf.path));
        let fewer = first.leaves.iter().find(|leaf| lacks(last, &leaf.path));
        match (more, fewer) {
            (Some(leaf), _) => format!(", which lacks {}", leaf.path),
            (None, Some(leaf)) => format!(", as it lacks {}", leaf.path),
            (None, None) => String::new(),
        }
    }

    /// Appends the pages of the files that were pushed last.
    pub fn push_tables(&mut self, tables: &[Table], files: Range<usize>) -> Result<()> {
        if self.tables.is_empty() {
            self.tables = tables.iter().map(|_| TableBuilder::new()).collect();
        }
        if tables.len() != self.tables.len() {
            let differing = self.differing_leaf();
            let all = std::mem::take(&mut self.files).finish();
            return Err(Error::unsupported(format!(
                "the column has another number of fields than in {}{differing}: read such files \
                 with missing=\"null\", or make a dataset of each kind of files",
                all.path(0),
            ))
            .in_file(all.path(all.len() - files.len().max(1))));
        }
        let mut pairs = self.tables.iter_mut().zip(tables);
        pairs.try_for_each(|(into, table)| into.append(table, files.clone()))
    }

    pub fn finish(self, column: &str, of_table: bool) -> Result<Index> {
        // Schemas in the order of the files, of those that files have.
        let mut order: HashMap<u32, u32> = HashMap::new();
        let mut schemas = Vec::new();
        let mut files = self.files;
        for id in &mut files.numbers.schema_id {
            *id = *order.entry(*id).or_insert_with(|| {
                schemas.push(Arc::clone(&self.schemas[*id as usize]));
                schemas.len() as u32 - 1
            });
        }
        let files = files.finish();
        let field = field_of_all(column, of_table, &files, &schemas)?;
        let tables: Vec<_> = self.tables.into_iter().map(TableBuilder::finish).collect();
        let cost = |leaf: &usize| {
            let table = &tables[*leaf];
            (table.splits_records(), u64::MAX - table.stored_bytes())
        };
        // Leaves that all files have.
        let leaves = schemas.iter().map(|schema| schema.leaves.len()).min();
        let driving = (0..leaves.unwrap_or(0)).min_by_key(cost).unwrap_or(0);
        let column = (column.to_string(), of_table);
        Ok(Index::new(column, field, files, schemas, tables, driving))
    }
}
