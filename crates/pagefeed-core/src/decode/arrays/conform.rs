//! Arrays brought to the common type of a dataset, see [`crate::schema::common`].

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{
    ArrowPrimitiveType, ByteArrayType, Date32Type, Decimal128Type, Float16Type, Float32Type,
    Float64Type, Int16Type, Int32Type, Int64Type, LargeBinaryType, LargeUtf8Type, UInt16Type,
    UInt32Type, UInt64Type,
};
use arrow_array::{
    Array, ArrayRef, Decimal128Array, FixedSizeListArray, GenericByteArray, GenericListArray,
    Int64Array, MapArray, OffsetSizeTrait, PrimitiveArray, StructArray, UInt32Array,
    downcast_integer_array, make_array, new_null_array,
};
use arrow_buffer::{ArrowNativeType, NullBuffer, OffsetBuffer, ScalarBuffer};
use arrow_schema::{DataType, FieldRef, Fields, TimeUnit};
use arrow_select::take::take;

use crate::error::{Error, Result};
use crate::lists::list_array;

/// Converts `array` to `target`, a common type of several datasets.
pub fn conform(array: &ArrayRef, target: &DataType) -> Result<ArrayRef> {
    with_defaults(array, target, None)
}

/// Converts `array` to `target`. Fields that structs lack are null, or have the value in
/// `defaults`: one row of structs, in which lists have a field `item` and maps a field
/// `value` for what is inside.
pub fn with_defaults(
    array: &ArrayRef,
    target: &DataType,
    defaults: Option<&ArrayRef>,
) -> Result<ArrayRef> {
    use DataType as T;
    Ok(match (array.data_type(), target) {
        (from, _) if from == target => Arc::clone(array),
        (T::Null, _) => new_null_array(target, array.len()),
        (T::Utf8, T::LargeUtf8) => wide::<_, LargeUtf8Type>(array.as_string::<i32>()),
        (T::Binary, T::LargeBinary) => wide::<_, LargeBinaryType>(array.as_binary::<i32>()),
        (T::Struct(_), T::Struct(fields)) => structs(array.as_struct(), fields, defaults)?,
        (T::Struct(_), T::Binary | T::LargeBinary) => {
            let structs = array.as_struct();
            let field = structs.columns().first();
            let field = field.ok_or_else(|| impossible(array, target))?;
            let nulls = NullBuffer::union(structs.nulls(), field.nulls());
            let field = field.to_data().into_builder().nulls(nulls).build()?;
            conform(&make_array(field), target)?
        }
        (T::Map(..), T::Map(entries, sorted)) => map(array.as_map(), entries, *sorted, defaults)?,
        (_, T::List(item) | T::LargeList(item)) => list(array, item, target, defaults)?,
        (_, T::FixedSizeList(item, size)) => fixed_size_list(array, item, *size)?,
        (T::Decimal128(_, from), T::Decimal128(digits, scale)) => {
            let factor = 10i128.pow(u32::from(scale.saturating_sub(*from).unsigned_abs()));
            let wide = array.as_primitive::<Decimal128Type>();
            let wide = wide.unary::<_, Decimal128Type>(|value| value.wrapping_mul(factor));
            Arc::new(wide.with_precision_and_scale(*digits, *scale)?)
        }
        (T::Timestamp(from, _), T::Timestamp(to, _)) => {
            times(array, *to as u32 - *from as u32, target)?
        }
        (T::Date32, T::Timestamp(unit, None)) => dates(array, *unit, target)?,
        (from, T::Decimal128(digits, scale)) if from.is_integer() => {
            let whole = integers(array, &T::Int64)?;
            let factor = 10i128.pow(u32::from(scale.unsigned_abs()));
            let decimals = whole.as_primitive::<Int64Type>();
            let decimals: Decimal128Array = decimals
                .iter()
                .map(|value| value.map(|value| i128::from(value) * factor))
                .collect();
            Arc::new(decimals.with_precision_and_scale(*digits, *scale)?)
        }
        (from, _) if from.is_integer() => integers(array, target)?,
        (from, _) if from.is_floating() => floats(array, target)?,
        _ => return Err(impossible(array, target)),
    })
}

/// Days as the times at which they begin.
fn dates(array: &ArrayRef, unit: TimeUnit, target: &DataType) -> Result<ArrayRef> {
    let per_day = 86_400 * 1000i64.pow(unit as u32);
    let days = array.as_primitive::<Date32Type>();
    let times = days.try_unary::<_, Int64Type, Error>(|day| {
        let time = i64::from(day).checked_mul(per_day);
        time.ok_or_else(|| Error::unsupported(format!("day {day} does not fit {target}")))
    })?;
    let times = times.into_data().into_builder().data_type(target.clone());
    Ok(make_array(times.build()?))
}

/// Times in a unit that is some thousandths finer.
fn times(array: &ArrayRef, thousandths: u32, target: &DataType) -> Result<ArrayRef> {
    let whole = array.to_data().into_builder().data_type(DataType::Int64);
    let whole = Int64Array::from(whole.build()?);
    let factor = 1000i64.pow(thousandths);
    let fine = whole.try_unary::<_, Int64Type, Error>(|time| {
        time.checked_mul(factor).ok_or_else(|| {
            Error::unsupported(format!(
                "a time of {} does not fit {target}, which other files of the dataset \
                 have: write them in one unit",
                array.data_type()
            ))
        })
    })?;
    let fine = fine.into_data().into_builder().data_type(target.clone());
    Ok(make_array(fine.build()?))
}

fn impossible(array: &ArrayRef, target: &DataType) -> Error {
    let message = format!("{} does not become {target}", array.data_type());
    Error::internal(message)
}

/// Text and bytes with 64-bit offsets.
fn wide<F, T>(array: &GenericByteArray<F>) -> ArrayRef
where
    F: ByteArrayType<Offset = i32>,
    T: ByteArrayType<Offset = i64, Native = F::Native>,
{
    let offsets = wide_offsets(array.offsets());
    let (values, nulls) = (array.values().clone(), array.nulls().cloned());
    // SAFETY: these are the offsets of an array of the same bytes, which hold what they
    // held: text, if it was text.
    Arc::new(unsafe { GenericByteArray::<T>::new_unchecked(offsets, values, nulls) })
}

fn wide_offsets(offsets: &OffsetBuffer<i32>) -> OffsetBuffer<i64> {
    let wide: ScalarBuffer<i64> = offsets.iter().map(|&offset| i64::from(offset)).collect();
    OffsetBuffer::new(wide)
}

fn structs(array: &StructArray, fields: &Fields, defaults: Option<&ArrayRef>) -> Result<ArrayRef> {
    let column = |field: &FieldRef| {
        let default = inside(defaults, field.name());
        match array.column_by_name(field.name()) {
            Some(column) => with_defaults(column, field.data_type(), default),
            None => absent(field, array.len(), default),
        }
    };
    let columns = fields.iter().map(column).collect::<Result<_>>()?;
    let nulls = array.nulls().cloned();
    Ok(Arc::new(StructArray::try_new_with_length(
        fields.clone(),
        columns,
        nulls,
        array.len(),
    )?))
}

/// The defaults inside a column.
fn inside<'a>(defaults: Option<&'a ArrayRef>, name: &str) -> Option<&'a ArrayRef> {
    defaults?.as_struct_opt()?.column_by_name(name)
}

/// Rows of a field that structs lack. Defaults are of values: a struct itself is null.
fn absent(field: &FieldRef, num_rows: usize, default: Option<&ArrayRef>) -> Result<ArrayRef> {
    match default.filter(|default| !default.data_type().is_nested()) {
        Some(default) => {
            let rows = UInt32Array::from(vec![0; num_rows]);
            conform(&take(default, &rows, None)?, field.data_type())
        }
        None if field.is_nullable() => Ok(new_null_array(field.data_type(), num_rows)),
        None => Err(Error::internal(format!("no field {:?}", field.name()))),
    }
}

fn map(
    array: &MapArray,
    entries: &FieldRef,
    sorted: bool,
    defaults: Option<&ArrayRef>,
) -> Result<ArrayRef> {
    let pairs = match entries.data_type() {
        DataType::Struct(both) if both.len() == 2 => StructArray::try_new(
            both.clone(),
            vec![
                conform(array.keys(), both[0].data_type())?,
                with_defaults(
                    array.values(),
                    both[1].data_type(),
                    inside(defaults, "value"),
                )?,
            ],
            array.entries().nulls().cloned(),
        )?,
        other => return Err(Error::internal(format!("{other} has no keys and values"))),
    };
    Ok(Arc::new(MapArray::try_new(
        Arc::clone(entries),
        array.offsets().clone(),
        pairs,
        array.nulls().cloned(),
        sorted,
    )?))
}

/// Any list as one with offsets.
fn list(
    array: &ArrayRef,
    item: &FieldRef,
    target: &DataType,
    defaults: Option<&ArrayRef>,
) -> Result<ArrayRef> {
    let (offsets, values): (Vec<u64>, &ArrayRef) = match array.data_type() {
        DataType::List(_) => offsets_and_values(array.as_list::<i32>()),
        DataType::LargeList(_) => offsets_and_values(array.as_list::<i64>()),
        DataType::FixedSizeList(_, size) => {
            let (lists, size) = (array.as_fixed_size_list(), size.as_usize());
            (
                (0..=lists.len()).map(|row| (row * size) as u64).collect(),
                lists.values(),
            )
        }
        _ => return Err(impossible(array, target)),
    };
    let values = with_defaults(values, item.data_type(), inside(defaults, "item"))?;
    list_array(target, &offsets, values, array.nulls().cloned())
}

fn offsets_and_values<O: OffsetSizeTrait>(lists: &GenericListArray<O>) -> (Vec<u64>, &ArrayRef) {
    let offsets = lists.value_offsets().iter();
    (
        offsets.map(|offset| offset.as_usize() as u64).collect(),
        lists.values(),
    )
}

fn fixed_size_list(array: &ArrayRef, item: &FieldRef, size: i32) -> Result<ArrayRef> {
    let lists = array
        .as_fixed_size_list_opt()
        .ok_or_else(|| impossible(array, &DataType::FixedSizeList(Arc::clone(item), size)))?;
    Ok(Arc::new(FixedSizeListArray::try_new(
        Arc::clone(item),
        size,
        conform(lists.values(), item.data_type())?,
        array.nulls().cloned(),
    )?))
}

/// A wider integer, or the float that is equal.
fn integers(array: &ArrayRef, target: &DataType) -> Result<ArrayRef> {
    let wide: PrimitiveArray<Int64Type> = downcast_integer_array! {
        array => array.try_unary(|value| {
            value.to_i64().ok_or_else(|| unfit(value, &DataType::Int64))
        })?,
        _ => return Err(impossible(array, target)),
    };
    fn narrow<T: ArrowPrimitiveType>(
        array: &PrimitiveArray<Int64Type>,
        fit: impl Fn(i64) -> Option<T::Native>,
    ) -> Result<ArrayRef> {
        let fit = |value| fit(value).ok_or_else(|| unfit(value, &T::DATA_TYPE));
        Ok(Arc::new(array.try_unary::<_, T, _>(fit)?))
    }
    match target {
        DataType::Int64 => Ok(Arc::new(wide)),
        DataType::Int32 => narrow::<Int32Type>(&wide, |value| value.try_into().ok()),
        DataType::Int16 => narrow::<Int16Type>(&wide, |value| value.try_into().ok()),
        DataType::UInt64 => narrow::<UInt64Type>(&wide, |value| value.try_into().ok()),
        DataType::UInt32 => narrow::<UInt32Type>(&wide, |value| value.try_into().ok()),
        DataType::UInt16 => narrow::<UInt16Type>(&wide, |value| value.try_into().ok()),
        DataType::Float64 => narrow::<Float64Type>(&wide, |value| {
            let float = value as f64;
            (float as i128 == i128::from(value)).then_some(float)
        }),
        _ => Err(impossible(array, target)),
    }
}

fn unfit(value: impl std::fmt::Display, target: &DataType) -> Error {
    Error::unsupported(format!(
        "{value} is no {target}, the common type of the column in all files; write the \
         column with one type, or read these files as separate datasets"
    ))
}

fn floats(array: &ArrayRef, target: &DataType) -> Result<ArrayRef> {
    let single = |array: &ArrayRef| -> Option<PrimitiveArray<Float32Type>> {
        match array.as_primitive_opt::<Float16Type>() {
            Some(half) => Some(half.unary(f32::from)),
            None => array.as_primitive_opt::<Float32Type>().cloned(),
        }
    };
    match (single(array), target) {
        (Some(floats), DataType::Float32) => Ok(Arc::new(floats)),
        (Some(floats), DataType::Float64) => {
            Ok(Arc::new(floats.unary::<_, Float64Type>(f64::from)))
        }
        _ => Err(impossible(array, target)),
    }
}
