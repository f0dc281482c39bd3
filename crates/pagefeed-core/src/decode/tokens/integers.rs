//! Values of integer columns, appended page by page in the narrowest type.

use std::ops::Range;

use parquet::basic::{ConvertedType, Encoding, LogicalType, Type as PhysicalType};
use parquet::data_type::{DataType, Int32Type, Int64Type};

use super::narrow::check_declared;
use super::values::decode_values;
use crate::buffers::{collect, reserve};
use crate::codec::Codec;
use crate::decode::bounds::damaged_plain;
use crate::decode::cursor::missing_dictionary;
use crate::encodings::indices::{append_indices, look_up};
use crate::error::{Error, Kind, Result};
use crate::page::{DataPage, PageOpener};
use crate::schema::Leaf;
use crate::tokens::{Dictionary, Tokens, mismatch, with_values};

/// Physical storage of integers in a leaf.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Storage {
    I32,
    U32,
    I64,
    /// As `I64`, but a negative number means one above `i64::MAX`.
    U64,
}

impl Storage {
    /// Storage of an integer leaf; refuses every other type.
    pub(crate) fn of(leaf: &Leaf) -> Result<Self> {
        let info = leaf.descriptor.get_basic_info();
        let signed = match (info.logical_type_ref(), info.converted_type()) {
            (Some(LogicalType::Integer(integer)), _) => integer.is_signed,
            (None | Some(LogicalType::Unknown), converted) => match converted {
                ConvertedType::UINT_8
                | ConvertedType::UINT_16
                | ConvertedType::UINT_32
                | ConvertedType::UINT_64 => false,
                ConvertedType::NONE
                | ConvertedType::INT_8
                | ConvertedType::INT_16
                | ConvertedType::INT_32
                | ConvertedType::INT_64 => true,
                other => return Err(not_integers(leaf, &other)),
            },
            (Some(other), _) => return Err(not_integers(leaf, other)),
        };
        match (leaf.physical, signed) {
            (PhysicalType::INT32, true) => Ok(Self::I32),
            (PhysicalType::INT32, false) => Ok(Self::U32),
            (PhysicalType::INT64, true) => Ok(Self::I64),
            (PhysicalType::INT64, false) => Ok(Self::U64),
            (other, _) => Err(not_integers(leaf, &other)),
        }
    }

    fn check(self, values: &[i64]) -> Result<()> {
        if self == Self::U64 && values.iter().fold(0, |all, value| all | value) < 0 {
            return Err(Error::new(
                Kind::TokenRange,
                "a token does not fit 63 bits; tokens are non-negative 64-bit integers at most",
            ));
        }
        Ok(())
    }

    fn empty(self) -> Tokens {
        match self {
            Self::I32 => Tokens::I32(Vec::new()),
            Self::U32 => Tokens::U32(Vec::new()),
            Self::I64 | Self::U64 => Tokens::I64(Vec::new()),
        }
    }
}

fn not_integers(leaf: &Leaf, found: &dyn std::fmt::Debug) -> Error {
    Error::unsupported(format!(
        "tokens must be integers; column {} holds {found:?} stored as {}",
        leaf.path, leaf.physical
    ))
}

/// Reads a range of the numbers in `bytes`.
pub(super) fn plain<const SIZE: usize, T>(
    bytes: &[u8],
    values: Range<usize>,
    parse: impl Fn([u8; SIZE]) -> T + Clone,
) -> Result<impl ExactSizeIterator<Item = T> + Clone> {
    let (numbers, _) = bytes.as_chunks::<SIZE>();
    let end = values.end;
    let numbers = numbers
        .get(values)
        .ok_or_else(|| damaged_plain(end, bytes.len()))?;
    Ok(numbers.iter().map(move |number| parse(*number)))
}

/// Decodes the dictionary page of an integer leaf.
pub fn decode_dictionary(
    opener: &mut PageOpener,
    page: &[u8],
    codec: Codec,
    leaf: &Leaf,
) -> Result<Dictionary> {
    read_dictionary(opener, page, codec, leaf, Storage::of(leaf)?)
}

pub(crate) fn read_dictionary(
    opener: &mut PageOpener,
    page: &[u8],
    codec: Codec,
    leaf: &Leaf,
    storage: Storage,
) -> Result<Dictionary> {
    let (num_values, bytes) = opener.dictionary_page(page, codec)?;
    let entries = match storage {
        Storage::I32 => {
            let values = collect(plain(bytes, 0..num_values, i32::from_le_bytes)?)?;
            check_declared(leaf, values.iter().copied())?;
            narrowed(&values)?.unwrap_or(Tokens::I32(values))
        }
        Storage::U32 => {
            let values = collect(plain(bytes, 0..num_values, u32::from_le_bytes)?)?;
            check_declared(leaf, values.iter().copied())?;
            narrowed(&values)?.unwrap_or(Tokens::U32(values))
        }
        Storage::I64 | Storage::U64 => {
            let values = collect(plain(bytes, 0..num_values, i64::from_le_bytes)?)?;
            storage.check(&values)?;
            narrowed(&values)?.unwrap_or(Tokens::I64(values))
        }
    };
    Ok(Dictionary::new(entries))
}

fn narrowed<T: Copy + TryInto<u16>>(values: &[T]) -> Result<Option<Tokens>> {
    let mut narrow = Vec::new();
    for &value in values {
        let Ok(value) = value.try_into() else {
            return Ok(None);
        };
        if narrow.is_empty() {
            reserve(&mut narrow, values.len())?;
        }
        narrow.push(value);
    }
    Ok(Some(Tokens::U16(narrow)))
}

/// Appends the values of pages to [`Tokens`], widening them when it must.
pub(crate) struct IntegerReader<'a> {
    pub(crate) leaf: &'a Leaf,
    pub(crate) storage: Storage,
    /// Use 16 bits where a dictionary allows it.
    pub(crate) narrow: bool,
}

impl IntegerReader<'_> {
    /// Empties `tokens` and gives them the type that the first page asks for.
    pub(crate) fn prepare(&self, tokens: &mut Tokens, dictionary: Option<&Dictionary>) {
        tokens.retype(match dictionary.map(Dictionary::entries) {
            Some(Tokens::U16(_)) if self.narrow => Tokens::U16(Vec::new()),
            _ => self.storage.empty(),
        });
        tokens.clear();
    }

    /// Appends the first `num_values` values of a page.
    pub(crate) fn append(
        &self,
        page: &DataPage<'_>,
        num_values: usize,
        dictionary: Option<&Dictionary>,
        tokens: &mut Tokens,
    ) -> Result<()> {
        let encoding = page
            .header
            .encoding()
            .ok_or_else(|| Error::corrupt("a data page was expected"))?;
        if encoding == Encoding::RLE_DICTIONARY {
            let dictionary = dictionary.ok_or_else(missing_dictionary)?;
            if !matches!(dictionary.entries(), Tokens::U16(_)) {
                tokens.widen(self.storage)?;
            }
            return append_entries(page.values, num_values, dictionary, tokens);
        }
        tokens.widen(self.storage)?;
        reserve_tokens(tokens, num_values)?;
        let start = tokens.len();
        let leaf = self.leaf;
        match tokens {
            Tokens::I32(out) => {
                let same = |out: &mut Vec<_>, values: &[_]| out.extend_from_slice(values);
                append::<Int32Type, _, _>(page, leaf, num_values, out, i32::from_le_bytes, same)?;
                check_declared(leaf, out[start..].iter().copied())
            }
            Tokens::U32(out) => {
                let cast = |out: &mut Vec<u32>, values: &[i32]| {
                    out.extend(values.iter().map(|value| value.cast_unsigned()));
                };
                append::<Int32Type, _, _>(page, leaf, num_values, out, u32::from_le_bytes, cast)?;
                check_declared(leaf, out[start..].iter().copied())
            }
            Tokens::I64(out) => {
                let same = |out: &mut Vec<_>, values: &[_]| out.extend_from_slice(values);
                append::<Int64Type, _, _>(page, leaf, num_values, out, i64::from_le_bytes, same)?;
                self.storage.check(&out[start..])
            }
            Tokens::U16(_) => Err(mismatch()),
        }
    }
}
/// Appends the first `num_values` values of a page that has no dictionary: `parse` takes the
/// bytes of a plain one, `extend` what the `parquet` crate decodes.
fn append<D: DataType, T, const SIZE: usize>(
    page: &DataPage<'_>,
    leaf: &Leaf,
    num_values: usize,
    out: &mut Vec<T>,
    parse: impl Fn([u8; SIZE]) -> T + Clone,
    extend: impl Fn(&mut Vec<T>, &[D::T]),
) -> Result<()> {
    if page.header.encoding() == Some(Encoding::PLAIN) {
        out.extend(plain(page.values, 0..num_values, parse)?);
        return Ok(());
    }
    decode_values::<D>(page, num_values, leaf, |values| {
        extend(out, values);
        Ok(())
    })
}

fn append_entries(
    bytes: &[u8],
    num_values: usize,
    dictionary: &Dictionary,
    tokens: &mut Tokens,
) -> Result<()> {
    reserve_tokens(tokens, num_values)?;
    let values = 0..num_values;
    if let Some(num_entries) = dictionary.num_indices() {
        return with_values!(tokens, out => append_indices(bytes, values, num_entries, out));
    }
    match (dictionary.entries(), tokens) {
        (Tokens::U16(table), Tokens::U16(out)) => look_up(bytes, values, table, out),
        (Tokens::U16(table), Tokens::I32(out)) => look_up(bytes, values, table, out),
        (Tokens::U16(table), Tokens::U32(out)) => look_up(bytes, values, table, out),
        (Tokens::U16(table), Tokens::I64(out)) => look_up(bytes, values, table, out),
        (Tokens::I32(table), Tokens::I32(out)) => look_up(bytes, values, table, out),
        (Tokens::U32(table), Tokens::U32(out)) => look_up(bytes, values, table, out),
        (Tokens::I64(table), Tokens::I64(out)) => look_up(bytes, values, table, out),
        _ => Err(mismatch()),
    }
}

/// Makes room for `additional` tokens, within the limit and the available memory.
fn reserve_tokens(tokens: &mut Tokens, additional: usize) -> Result<()> {
    with_values!(tokens, values => reserve(values, additional))
}

impl Tokens {
    /// Converts 16-bit tokens to the type of the column.
    fn widen(&mut self, storage: Storage) -> Result<()> {
        if let Self::U16(values) = self {
            let values = values.iter();
            *self = match storage {
                Storage::I32 => Self::I32(collect(values.map(|&value| value.into()))?),
                Storage::U32 => Self::U32(collect(values.map(|&value| value.into()))?),
                Storage::I64 | Storage::U64 => {
                    Self::I64(collect(values.map(|&value| value.into()))?)
                }
            };
        }
        Ok(())
    }
}
