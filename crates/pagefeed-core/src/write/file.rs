//! Whole files: row groups of lists, and of columns that another writer made.

use std::io::{self, Read, Repeat, Take, Write};
use std::sync::Arc;

use bytes::Bytes;
use parquet::column::writer::ColumnCloseResult;
use parquet::errors::ParquetError;
use parquet::file::metadata::{
    PageIndexPolicy, ParquetMetaData, ParquetMetaDataOptions, ParquetMetaDataReader,
};
use parquet::file::properties::{WriterProperties, WriterVersion};
use parquet::file::reader::{ChunkReader, Length};
use parquet::file::writer::SerializedFileWriter;

use super::column::ListColumn;
use crate::codec::Codec;
use crate::error::{Error, Result};

const WRITTEN_BY: &str = concat!("pagefeed version ", env!("CARGO_PKG_VERSION"));

/// Writes a file whose first columns are lists; its bytes can be taken while it is
/// written.
pub struct ListFile {
    writer: SerializedFileWriter<Output>,
    lists: Vec<ListColumn>,
    /// Pages of the lists since the last row group, except the first list's, which are
    /// in the output already.
    pages: Vec<Vec<u8>>,
}

impl ListFile {
    /// Begins a file with the schema and metadata of `empty`, a Parquet file without
    /// rows. Pages are complete at `page_bytes` of plain values. Nearly all values of
    /// the first list are below `num_values`, if that is not 0.
    pub fn new(
        empty: Bytes,
        num_lists: usize,
        codec: Codec,
        page_bytes: usize,
        num_values: u32,
    ) -> Result<Self> {
        let found = ParquetMetaDataReader::new().parse_and_finish(&empty)?;
        let found = found.file_metadata();
        let properties = WriterProperties::builder()
            .set_created_by(WRITTEN_BY.to_string())
            .set_writer_version(WriterVersion::PARQUET_2_0)
            .set_key_value_metadata(found.key_value_metadata().cloned())
            .build();
        let schema = found.schema_descr();
        let columns = schema.columns().get(..num_lists);
        let columns = columns.ok_or_else(|| Error::invalid("there are fewer columns"))?;
        let lists = columns
            .iter()
            .zip([num_values].into_iter().chain(std::iter::repeat(0)))
            .map(|(column, most)| ListColumn::new(Arc::clone(column), codec, page_bytes, most))
            .collect::<Result<_>>()?;
        let mut writer = SerializedFileWriter::new(
            Output::default(),
            schema.root_schema_ptr(),
            Arc::new(properties),
        )?;
        writer.flush()?;
        Ok(Self {
            writer,
            lists,
            pages: vec![Vec::new(); num_lists],
        })
    }

    /// Appends rows to one of the lists: their values, and the number of values of
    /// each.
    pub fn append(
        &mut self,
        list: usize,
        values: &[u32],
        counts: &[u32],
        num_threads: usize,
    ) -> Result<()> {
        let absent = || Error::invalid("there is no such list");
        let column = self.lists.get_mut(list).ok_or_else(absent)?;
        let output = match list {
            0 => &mut self.writer.inner_mut().bytes,
            _ => &mut self.pages[list],
        };
        column.append(values, counts, num_threads, output)
    }

    /// Values and rows of the lists since the last row group.
    pub fn num_levels(&self) -> usize {
        self.lists.iter().map(ListColumn::num_levels).sum()
    }

    /// Ends a row group. `others` is a Parquet file with one row group that has further
    /// columns of the same rows.
    pub fn end_group(&mut self, others: Option<Bytes>) -> Result<()> {
        let mut closed = Vec::new();
        for (number, (list, pages)) in self.lists.iter_mut().zip(&mut self.pages).enumerate() {
            closed.push(match number {
                0 => list.close(&mut self.writer.inner_mut().bytes)?,
                _ => list.close(pages)?,
            });
        }
        let ahead = closed.first().map_or(0, |first| first.bytes_written);
        self.writer.inner_mut().num_ahead = ahead;
        let mut group = self.writer.next_row_group()?;
        for (number, (closed, pages)) in closed.into_iter().zip(&mut self.pages).enumerate() {
            match number {
                0 => group.append_column(&Ahead(ahead), closed)?,
                _ => group.append_column(&Bytes::from(std::mem::take(pages)), closed)?,
            }
        }
        if let Some(others) = others {
            let options = ParquetMetaDataOptions::new().with_encoding_stats_as_mask(false);
            let metadata = ParquetMetaDataReader::new()
                .with_page_index_policy(PageIndexPolicy::Required)
                .with_metadata_options(Some(options))
                .parse_and_finish(&others)?;
            for closed in columns_of(&metadata)? {
                group.append_column(&others, closed)?;
            }
        }
        group.close()?;
        Ok(self.writer.flush()?)
    }

    /// Ends the file.
    pub fn end(&mut self) -> Result<()> {
        self.writer.finish()?;
        Ok(self.writer.flush()?)
    }

    /// Calls `take` with the bytes of the file that were not taken yet; their memory is
    /// reused.
    pub fn take<T>(&mut self, take: impl FnOnce(&[u8]) -> T) -> T {
        let bytes = &mut self.writer.inner_mut().bytes;
        let taken = take(bytes);
        bytes.clear();
        taken
    }
}

/// Bytes that are written and not taken yet.
#[derive(Default)]
struct Output {
    bytes: Vec<u8>,
    /// Bytes that were counted ahead, before they are written.
    num_ahead: u64,
}

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let known = usize::try_from(self.num_ahead).map_or(bytes.len(), |n| n.min(bytes.len()));
        self.num_ahead -= known as u64;
        self.bytes.extend_from_slice(&bytes[known..]);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Stands for as many bytes of pages that are in the output already.
struct Ahead(u64);

impl Length for Ahead {
    fn len(&self) -> u64 {
        self.0
    }
}

impl ChunkReader for Ahead {
    type T = Take<Repeat>;

    fn get_read(&self, _: u64) -> Result<Self::T, ParquetError> {
        Ok(io::repeat(0).take(self.0))
    }

    fn get_bytes(&self, _: u64, _: usize) -> Result<Bytes, ParquetError> {
        Err(ParquetError::General("these bytes are only counted".into()))
    }
}

/// The columns of the only row group of a file, as their writer closed them.
fn columns_of(file: &ParquetMetaData) -> Result<Vec<ColumnCloseResult>> {
    let [group] = file.row_groups() else {
        let count = file.num_row_groups();
        return Err(Error::invalid(format!(
            "expected one row group, found {count}"
        )));
    };
    let pages = file.page_index_for_row_group(0);
    let closed = group
        .columns()
        .iter()
        .enumerate()
        .map(|(number, column)| ColumnCloseResult {
            bytes_written: column.compressed_size().unsigned_abs(),
            rows_written: group.num_rows().unsigned_abs(),
            metadata: column.clone(),
            bloom_filter: None,
            column_index: pages.column_index(number).cloned(),
            offset_index: pages.offset_index(number).cloned(),
        });
    Ok(closed.collect())
}
