//! Rows of a column as Arrow lists, written with their markers.

use std::sync::Arc;

use arrow_array::{
    Array, ArrayRef, ArrowPrimitiveType, PrimitiveArray, downcast_integer, make_array,
};
use arrow_buffer::Buffer;
use arrow_data::ArrayData;
use arrow_data::transform::MutableArrayData;
use arrow_schema::{DataType, Field, FieldRef};

use super::{Infilling, Run};
use crate::error::{Error, Result};
use crate::lists::{bounds, items, list_array};

/// Type of a column of lists after infilling: lists of any length.
pub fn infilled_field(field: &FieldRef) -> Result<FieldRef> {
    match field.data_type() {
        DataType::List(_) | DataType::LargeList(_) => Ok(Arc::clone(field)),
        DataType::FixedSizeList(item, _) => {
            let list = DataType::List(Arc::clone(item));
            Ok(Arc::new(Field::new(field.name(), list, true)))
        }
        other => Err(Error::unsupported(format!(
            "documents of {:?} cannot be infilled as rows, since it is {other} and no list: cut it by \
             Windows or Packed",
            field.name()
        ))),
    }
}

/// Writes lists, with rows infilled from document `first` on. Special tokens are
/// written, or have the bits `filling`.
pub fn arrange_lists(
    infilling: &Infilling,
    lists: &ArrayRef,
    first: u64,
    epoch: u32,
    filling: Option<u64>,
) -> Result<ArrayRef> {
    let values = items(lists).ok_or_else(|| Error::internal("infilled rows must be lists"))?;
    let markers = markers(infilling, values.data_type(), filling)?.to_data();
    let own = values.to_data();
    let capacity = own.len() + lists.len() * infilling.tokens.len();
    let mut written = MutableArrayData::new(vec![&own, &markers], false, capacity);
    let mut offsets = Vec::with_capacity(lists.len() + 1);
    offsets.push(0u64);
    let mut pending = infilling
        .pending(first, lists.len(), epoch)
        .into_iter()
        .peekable();
    let mut validity = Vec::with_capacity(lists.len());
    for row in 0..lists.len() {
        let own = bounds(lists, row);
        let (begin, end) = own.unwrap_or((0, 0));
        let chosen = pending.next_if(|pending| pending.row == row);
        validity.push(own.is_some() || chosen.is_some());
        match chosen {
            None => written.try_extend(0, begin, end)?,
            Some(chosen) => {
                let count = (end - begin) as u32;
                for run in infilling.arranged(&chosen, 0..count).runs(count) {
                    match run {
                        Run::Own(own) => {
                            let [from, to] = [own.start, own.end].map(|own| begin + own as usize);
                            written.try_extend(0, from, to)?;
                        }
                        Run::Marker(marker) => {
                            written.try_extend(1, marker as usize, marker as usize + 1)?;
                        }
                    }
                }
            }
        }
        offsets.push(written.len() as u64);
    }
    let values = make_array(written.freeze());
    let nulls = Some(validity.into()).filter(|_| lists.null_count() > 0);
    list_array(lists.data_type(), &offsets, values, nulls)
}

/// The markers as an array of the type of the tokens, or of an aligned column.
fn markers(infilling: &Infilling, item: &DataType, filling: Option<u64>) -> Result<ArrayRef> {
    if let Some(bits) = filling {
        let width = item.primitive_width().unwrap_or(8);
        let value = &bits.to_le_bytes()[..width];
        let count = infilling.tokens.len();
        let data = ArrayData::builder(item.clone())
            .len(count)
            .add_buffer(Buffer::from_vec(value.repeat(count)))
            .align_buffers(true)
            .build()?;
        return Ok(make_array(data));
    }
    let tokens = &infilling.tokens;
    macro_rules! as_type {
        ($type:ty) => {
            narrowed::<$type>(tokens)
        };
    }
    downcast_integer! {
        item => (as_type),
        other => Err(Error::unsupported(format!(
            "documents of {other} are not infilled"
        ))),
    }
}

fn narrowed<T: ArrowPrimitiveType<Native: TryFrom<i64>>>(tokens: &[i64]) -> Result<ArrayRef> {
    let narrow = |&token: &i64| {
        T::Native::try_from(token).map_err(|_| {
            Error::unsupported(format!(
                "the column holds {}, and the special token {token} of Infill does not fit: cut \
                 it by Windows or Packed, or write it in a wider type",
                T::DATA_TYPE
            ))
        })
    };
    let tokens: Vec<T::Native> = tokens.iter().map(narrow).collect::<Result<_>>()?;
    Ok(Arc::new(PrimitiveArray::<T>::from_iter_values(tokens)))
}
