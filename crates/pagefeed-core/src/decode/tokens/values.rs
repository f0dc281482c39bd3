//! Values of one page by the `parquet` crate's decoders, levels left aside.

use std::sync::Arc;

use bytes::Bytes;
use parquet::basic::{Encoding, Repetition};
use parquet::column::page::{Page, PageReader};
use parquet::column::reader::ColumnReaderImpl;
use parquet::data_type::DataType;
use parquet::schema::types::{ColumnDescriptor, ColumnPath, Type};

use crate::buffers::RecycledBuffer;
use crate::decode::steps::StepReader;
use crate::error::{Error, Result, catch_damage};
use crate::page::DataPage;
use crate::schema::Leaf;

/// Values decoded at once; the crate allocates memory for all that it is asked for.
const CHUNK: usize = 4096;

/// Decodes the first `num_values` values of a page in any encoding without a
/// dictionary, as a column without levels. Calls `each` with a chunk at a time.
pub(crate) fn decode_values<D: DataType>(
    page: &DataPage<'_>,
    num_values: usize,
    leaf: &Leaf,
    mut each: impl FnMut(&[D::T]) -> Result<()>,
) -> Result<()> {
    let encoding = page
        .header
        .encoding()
        .filter(|encoding| *encoding != Encoding::RLE_DICTIONARY)
        .ok_or_else(|| Error::invalid("a page with a dictionary needs its dictionary"))?;
    let too_many = |_| {
        Error::limit(format!(
            "{num_values} values in a page are more than 32 bits count"
        ))
    };
    let pages: Box<dyn PageReader> = Box::new(StepReader::of_one(Page::DataPage {
        buf: Bytes::from_owner(RecycledBuffer::concat(&[page.values])?),
        num_values: u32::try_from(num_values).map_err(too_many)?,
        encoding,
        def_level_encoding: Encoding::RLE,
        rep_level_encoding: Encoding::RLE,
        statistics: None,
    }));
    let name = leaf.descriptor.name();
    let flat = Type::primitive_type_builder(name, leaf.physical)
        .with_repetition(Repetition::REQUIRED)
        .with_length(leaf.descriptor.type_length())
        .build()?;
    let path = ColumnPath::new(vec![name.to_string()]);
    let descriptor = Arc::new(ColumnDescriptor::new(Arc::new(flat), 0, 0, path));
    catch_damage(|| {
        let mut reader = ColumnReaderImpl::<D>::new(descriptor, pages);
        let (mut values, mut done) = (Vec::with_capacity(CHUNK.min(num_values)), 0);
        while done < num_values {
            values.clear();
            let wanted = CHUNK.min(num_values - done);
            let (_, read, _) = reader.read_records(wanted, None, None, &mut values)?;
            done += read;
            if read != wanted || values.len() != wanted {
                return Err(Error::corrupt(format!(
                    "{num_values} values were expected, the page holds {done}"
                )));
            }
            each(&values)?;
        }
        Ok(())
    })
}
