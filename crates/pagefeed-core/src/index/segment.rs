//! The persistent form: one uncompressed Arrow IPC file with a row per leaf, whose
//! lists are the arrays of the tables. Mapped, not read; any Arrow reader opens it.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io::{BufWriter, ErrorKind};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, BinaryArray, RecordBatch};
use arrow_buffer::Buffer;
use arrow_ipc::reader::FileDecoder;
use arrow_ipc::writer::{FileWriter, IpcWriteOptions};
use arrow_ipc::{MetadataVersion, convert::try_fb_to_schema};
use arrow_schema::{DataType, Schema};

use super::columns::{list_array, list_of, list_values, unexpected};
use super::files::{FileNumbers, FileNumbersBuilder, Files};
use super::flat::Flat;
use super::page_index::{Index, Mapped, field_of_all};
use super::seal::{self, COPIED_BYTES, map, truncated};
use super::table::Table;
use crate::error::{Error, Kind, Result, catch_damage};
use crate::schema::ColumnSchema;

/// Metadata that identify a segment among Arrow files.
const FORMAT: (&str, &str) = ("pagefeed.format", "page index");
/// Changes whenever the columns or their meaning change.
const VERSION: (&str, &str) = ("pagefeed.version", "5");
const COLUMN: &str = "pagefeed.column";
const DRIVING_LEAF: &str = "pagefeed.driving_leaf";
const FINGERPRINT: &str = "pagefeed.fingerprint";
/// Whether a table names the column.
const OF_TABLE: &str = "pagefeed.of_table";
/// Metadata key of the records of pages that are not Parquet pages.
const FLAT: &str = "pagefeed.flat";

impl Index {
    /// Writes the index to one file, atomically.
    pub fn save(&self, path: &Path) -> Result<()> {
        let named = |error: Error| error.in_file(&path.to_string_lossy());
        let batch = to_batch(self).map_err(named)?;
        let unique = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .map_or(0, |time| time.as_nanos());
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let temporary = path.with_file_name(format!(".{name}.{}.{unique}", std::process::id()));
        let written = write(&batch, &temporary, self.mode())
            .and_then(|()| Ok(fs::rename(&temporary, path)?))
            .map_err(named);
        if written.is_err() {
            // What is left over is not worth a second error.
            let _ = fs::remove_file(&temporary);
        }
        written
    }

    /// Permissions that the umask may reduce: the address of a file may be a key to it.
    fn mode(&self) -> u32 {
        let mut paths = (0..self.files.len()).map(|file| self.files.path(file));
        let is_web = |path: &str| path.starts_with("https://") || path.starts_with("http://");
        if paths.any(is_web) { 0o600 } else { 0o666 }
    }

    /// Maps an index written by [`Index::save`].
    pub fn open(path: &Path) -> Result<Self> {
        let named = |error: Error| error.in_file(&path.to_string_lossy());
        let file = open_regular(path).map_err(named)?;
        let buffer = map(&file).map_err(named)?;
        let size = buffer.len() as u64;
        let opened = catch_damage(|| from_batch(&decode(&buffer)?)).map_err(|error| {
            let damaged = format!(
                "not a page index of this version, or a damaged one ({}); build the index again",
                error.message()
            );
            named(Error::new(Kind::Corrupt, damaged))
        })?;
        let path = path.to_string_lossy().into_owned();
        let mapped = (size > COPIED_BYTES).then(|| Arc::new(Mapped { file, size, path }));
        Ok(Self { mapped, ..opened })
    }
}

/// Opens a file, and does not wait for a pipe in its place.
fn open_regular(path: &Path) -> Result<File> {
    let mut options = File::options();
    let file = options
        .read(true)
        .custom_flags(libc::O_NONBLOCK)
        .open(path)?;
    if file.metadata()?.is_file() {
        return Ok(file);
    }
    let kind = Kind::Io(ErrorKind::InvalidInput);
    Err(Error::new(kind, "not a regular file"))
}

fn write(batch: &RecordBatch, path: &Path, mode: u32) -> Result<()> {
    let file = File::options()
        .read(true)
        .write(true)
        .create_new(true)
        .mode(mode)
        .open(path)?;
    let options = IpcWriteOptions::try_new(64, false, MetadataVersion::V5)?;
    let mut writer =
        FileWriter::try_new_with_options(BufWriter::new(file), &batch.schema(), options)?;
    writer.write(batch)?;
    writer.write_metadata(seal::CHECKSUM, seal::UNSEALED);
    writer.finish()?;
    let file = writer
        .into_inner()?
        .into_inner()
        .map_err(|error| error.into_error())?;
    seal::seal(&file)?;
    Ok(file.sync_data()?)
}

fn to_batch(index: &Index) -> Result<RecordBatch> {
    let files = &index.files;
    let rows = index.tables.len();
    // Columns of files and schemas fill the first row's list.
    let first = |values: ArrayRef| {
        let lengths = std::iter::once(values.len()).chain(std::iter::repeat(0));
        list_array(values, lengths.take(rows))
    };
    let none = FileNumbersBuilder::default().finish();
    let mut numbers = vec![&none; rows];
    numbers[0] = &files.numbers;
    let footers = BinaryArray::from_iter_values(index.schemas.iter().map(|s| &s.footer));
    let mut fields = vec![
        list_of("path", DataType::Utf8),
        list_of("schema", DataType::Binary),
    ];
    let mut arrays = vec![
        first(Arc::new(files.paths.clone()))?,
        first(Arc::new(footers))?,
    ];
    fields.extend(FileNumbers::fields());
    arrays.extend(FileNumbers::to_arrays(&numbers)?);
    fields.extend(Table::fields());
    arrays.extend(Table::to_arrays(&index.tables.iter().collect::<Vec<_>>())?);
    if let Some(flat) = &index.flat {
        fields.extend(Flat::fields());
        arrays.extend(flat.to_arrays()?);
    }
    let mut metadata = HashMap::from([
        (FORMAT.0.to_string(), FORMAT.1.to_string()),
        (VERSION.0.to_string(), VERSION.1.to_string()),
        (COLUMN.to_string(), index.column.clone()),
        (DRIVING_LEAF.to_string(), index.driving.to_string()),
        (FINGERPRINT.to_string(), index.fingerprint.clone()),
    ]);
    if index.of_table {
        metadata.insert(OF_TABLE.to_string(), "true".to_string());
    }
    if let Some(flat) = &index.flat {
        metadata.insert(FLAT.to_string(), flat.records.to_text());
    }
    let schema = Schema::new_with_metadata(fields, metadata);
    Ok(RecordBatch::try_new(Arc::new(schema), arrays)?)
}

fn decode(buffer: &Buffer) -> Result<RecordBatch> {
    seal::verify(buffer)?;
    let (footer_start, footer) = seal::footer(buffer)?;
    let schema = try_fb_to_schema(footer.schema().ok_or_else(truncated)?)?;
    for (key, expected) in [FORMAT, VERSION] {
        let found = schema.metadata().get(key).map_or("nothing", String::as_str);
        if found != expected {
            return Err(Error::corrupt(format!(
                "{key} should be {expected:?}, found {found:?}"
            )));
        }
    }
    let block = footer
        .recordBatches()
        .filter(|blocks| blocks.len() == 1)
        .map(|blocks| *blocks.get(0))
        .ok_or_else(truncated)?;
    let length = usize::try_from(block.metaDataLength())
        .ok()
        .zip(usize::try_from(block.bodyLength()).ok())
        .and_then(|(metadata, body)| metadata.checked_add(body))
        .ok_or_else(truncated)?;
    let start = usize::try_from(block.offset()).map_err(|_| truncated())?;
    if start
        .checked_add(length)
        .is_none_or(|end| end > footer_start)
    {
        return Err(truncated());
    }
    FileDecoder::new(Arc::new(schema), footer.version())
        .with_require_alignment(true)
        .read_record_batch(&block, &buffer.slice_with_length(start, length))?
        .ok_or_else(truncated)
}

fn from_batch(batch: &RecordBatch) -> Result<Index> {
    let schema = batch.schema();
    let text = |key: &str| {
        schema
            .metadata()
            .get(key)
            .ok_or_else(|| Error::corrupt(format!("{key} is missing")))
    };
    let column = text(COLUMN)?.clone();
    let driving: usize = text(DRIVING_LEAF)?
        .parse()
        .map_err(|_| Error::corrupt("the driving leaf is not a number"))?;
    let tables: Vec<_> = (0..batch.num_rows())
        .map(|row| Table::from_batch(batch, row))
        .collect::<Result<_>>()?;
    let of_table = schema.metadata().contains_key(OF_TABLE);
    let footers = list_values(batch, "schema", 0)?;
    let footers = footers
        .as_binary_opt::<i32>()
        .ok_or_else(|| unexpected("schema"))?;
    let schemas: Vec<_> = footers
        .iter()
        .map(|footer| {
            Ok(Arc::new(ColumnSchema::resolve(
                footer.unwrap_or_default(),
                &column,
                of_table,
            )?))
        })
        .collect::<Result<_>>()?;
    let files = Files::from_batch(batch)?;
    let fits = |table: &Table| {
        table.file_first_span.len() == files.len() + 1 && table.num_rows() == tables[0].num_rows()
    };
    let known = |id: &u32| (*id as usize) < schemas.len();
    if driving >= tables.len()
        || !tables.iter().all(fits)
        || !files.numbers.schema_id.iter().all(known)
        || !schemas
            .iter()
            .all(|schema| (driving + 1..=tables.len()).contains(&schema.leaves.len()))
    {
        return Err(Error::corrupt("its columns differ in length"));
    }
    let flat = schema.metadata().get(FLAT);
    let flat = flat.map(|records| Flat::from_batch(batch, records, &tables[0]));
    Ok(Index {
        flat: flat.transpose()?,
        field: field_of_all(&column, of_table, &files, &schemas)?,
        of_table,
        column,
        files,
        schemas,
        tables,
        driving,
        fingerprint: text(FINGERPRINT)?.clone(),
        compared: None,
        mapped: None,
    })
}
