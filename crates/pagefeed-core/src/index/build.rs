//! Building the index: files in parallel, each from its footer.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::chunk::ChunkPages;
use super::concat::GrowingIndex;
use super::locate::{ChunkReader, Regions, index_ranges, locate, whole};
use super::options::BuildOptions;
use super::page_index::Index;
use super::table::{Table, TableBuilder};
use crate::codec::Codec;
use crate::error::{Error, Kind, Result, catch_panic};
use crate::footer::{Chunk, Footer, RowGroup, read_tail};
use crate::parallel::on_threads;
use crate::schema::ColumnSchema;
use crate::storage::{FileId, Storage};
use crate::sync::{Mutex, PoisonError};

/// Contents of one file.
struct IndexedFile {
    id: FileId,
    digest: u128,
    pages: FilePages,
}

/// The pages of a column in a file.
enum FilePages {
    /// One table per leaf, and rows of its row groups.
    Found(Arc<ColumnSchema>, Vec<Table>, Vec<u64>),
    /// The file lacks the column: rows of its row groups, and the error if all files
    /// lack it.
    Missing(Vec<u64>, Error),
}

struct IndexBuilder<'a> {
    store: &'a dyn Storage,
    column: &'a str,
    options: &'a BuildOptions,
    /// Threads for the row groups of one file.
    num_threads: usize,
    /// Schemas met so far, by their footers.
    schemas: Mutex<HashMap<Vec<u8>, Arc<ColumnSchema>>>,
}

impl Index {
    /// Reads the footers of `paths` (in this order) and indexes `column`.
    pub fn build(
        store: &dyn Storage,
        paths: &[String],
        column: &str,
        options: &BuildOptions,
    ) -> Result<Self> {
        if paths.is_empty() {
            return Err(Error::invalid("no files to index"));
        }
        let builder = IndexBuilder {
            store,
            column,
            options,
            num_threads: (options.num_threads / paths.len()).max(1),
            schemas: Mutex::default(),
        };
        let files = on_threads(options.num_threads, paths.len(), || {
            |number: usize| {
                options.check_cancelled()?;
                let path = &paths[number];
                let file = builder.file(path).map_err(|error| error.in_file(path))?;
                options.num_done.fetch_add(1, Ordering::Relaxed);
                Ok(file)
            }
        })?;
        let mut all = GrowingIndex::default();
        let known = files.iter().find_map(|file| match &file.pages {
            FilePages::Found(schema, ..) => Some(Arc::clone(schema)),
            FilePages::Missing(..) => None,
        });
        let most_leaves = files.iter().map(|file| match &file.pages {
            FilePages::Found(_, tables, _) if options.naming.is_some() => tables.len(),
            _ => 0,
        });
        let most_leaves = most_leaves.max().unwrap_or(0);
        for file in files {
            let (schema, tables) = match (file.pages, &known) {
                (FilePages::Found(schema, mut tables, rows), _) => {
                    // A struct of a table may have got fields since.
                    let num_missing = most_leaves.saturating_sub(tables.len());
                    tables.extend(missing(num_missing, &rows)?);
                    (schema, tables)
                }
                (FilePages::Missing(rows, _), Some(schema)) => {
                    let num_leaves = schema.leaves.len().max(most_leaves);
                    (Arc::clone(schema), missing(num_leaves, &rows)?)
                }
                (FilePages::Missing(_, error), None) => return Err(error),
            };
            let schema = all.schema(&schema);
            let FileId { path, stamp } = &file.id;
            all.files.push(path, *stamp, file.digest, schema)?;
            all.push_tables(&tables, 0..1)
                .map_err(|error| error.in_column(column))?;
        }
        all.finish(column, options.naming.is_some())
    }
}

/// Null rows of a file in some leaves, as many as its row groups have.
fn missing(num_leaves: usize, rows: &[u64]) -> Result<Vec<Table>> {
    let mut table = TableBuilder::new();
    for (number, rows) in (0u32..).zip(rows) {
        table.push_chunk(number, Codec::Uncompressed, &ChunkPages::missing(*rows))?;
    }
    table.end_file();
    Ok(vec![table.finish(); num_leaves])
}

impl IndexBuilder<'_> {
    fn file(&self, path: &str) -> Result<IndexedFile> {
        let file = FileId {
            path: path.into(),
            stamp: self.store.sampled(path)?,
        };
        let tail = read_tail(self.store, &file)?;
        let named = match &self.options.naming {
            Some(naming) => naming.rename(tail.footer())?,
            None => tail.footer().into(),
        };
        let footer = match Footer::parse(&named, tail.footer_start, self.column) {
            Err(error) if self.options.missing_as_null && error.kind() == Kind::ColumnNotFound => {
                let rows = Footer::row_counts(tail.footer())?;
                return Ok(IndexedFile {
                    digest: tail.digest(),
                    id: file,
                    pages: FilePages::Missing(rows, error.in_file(path)),
                });
            }
            found => found?,
        };
        let schema = self.schema(&footer.schema)?;
        let chunks = || footer.row_groups.iter().flat_map(|group| &group.chunks);
        let uses_index = self.options.use_page_index && !self.options.by_row_group;
        let regions = if uses_index {
            let leaves = schema.leaves.iter().cycle();
            let ranges = chunks().zip(leaves).flat_map(|(c, l)| index_ranges(c, l));
            let known = (tail.start, tail.bytes.clone());
            Some(Regions::read(self.store, &file, ranges.collect(), known)?)
        } else {
            None
        };
        let groups = on_threads(self.num_threads, footer.row_groups.len(), || {
            |number: usize| {
                self.options.check_cancelled()?;
                let group = &footer.row_groups[number];
                self.row_group(&file, &schema, number, group, &regions, tail.footer_start)
            }
        })?;
        let mut tables: Vec<_> = schema.leaves.iter().map(|_| TableBuilder::new()).collect();
        for (number, (group, pages)) in (0u32..).zip(footer.row_groups.iter().zip(groups)) {
            for ((table, chunk), pages) in tables.iter_mut().zip(&group.chunks).zip(pages) {
                table.push_chunk(number, chunk.codec, &pages)?;
            }
        }
        tables.iter_mut().for_each(TableBuilder::end_file);
        Ok(IndexedFile {
            digest: tail.digest(),
            id: file,
            pages: FilePages::Found(
                schema,
                tables.into_iter().map(TableBuilder::finish).collect(),
                footer
                    .row_groups
                    .iter()
                    .map(|group| group.num_rows)
                    .collect(),
            ),
        })
    }

    fn row_group(
        &self,
        file: &FileId,
        schema: &ColumnSchema,
        number: usize,
        group: &RowGroup,
        regions: &Option<Regions>,
        footer_start: u64,
    ) -> Result<Vec<ChunkPages>> {
        let pages = |chunk: &Chunk, leaf| {
            if self.options.by_row_group {
                return whole(chunk, leaf, group.num_rows);
            }
            let options = self.options;
            let mut reader = ChunkReader::new(self.store, file, chunk, leaf, footer_start, options);
            locate(&mut reader, regions.as_ref(), chunk, leaf, group.num_rows)
        };
        let chunks = group.chunks.iter().zip(&schema.leaves);
        chunks
            .map(|(chunk, leaf)| {
                let number = u32::try_from(number).unwrap_or(u32::MAX);
                catch_panic(|| pages(chunk, leaf))
                    .map_err(|error| error.in_chunk(number, &leaf.path))
            })
            .collect()
    }

    fn schema(&self, footer: &[u8]) -> Result<Arc<ColumnSchema>> {
        let lock = || self.schemas.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(schema) = lock().get(footer) {
            return Ok(Arc::clone(schema));
        }
        let schema = Arc::new(ColumnSchema::resolve(
            footer,
            self.column,
            self.options.naming.is_some(),
        )?);
        let mut schemas = lock();
        Ok(Arc::clone(schemas.entry(footer.to_vec()).or_insert(schema)))
    }
}
