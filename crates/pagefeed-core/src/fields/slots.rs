//! The memory of a field in a batch, as numbers of the type it has there.

use std::ops::Range;

use crate::error::{Error, Result};
use crate::tokens::Number;

/// Type of the numbers of a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FieldType {
    /// A byte: 0 or 1.
    Bool,
    /// 32-bit signed.
    I32,
    /// 64-bit signed.
    I64,
    /// 32-bit floating point.
    F32,
}

impl FieldType {
    /// The type of a name that NumPy has for it.
    pub fn from_name(name: &str) -> Result<Self> {
        [Self::Bool, Self::I32, Self::I64, Self::F32]
            .into_iter()
            .find(|each| each.name() == name)
            .ok_or_else(|| Error::invalid(format!("no field is of {name:?}")))
    }

    /// Name in NumPy.
    pub fn name(self) -> &'static str {
        match self {
            Self::Bool => "bool",
            Self::I32 => "int32",
            Self::I64 => "int64",
            Self::F32 => "float32",
        }
    }

    /// Bytes of a number.
    pub fn num_bytes(self) -> usize {
        match self {
            Self::Bool => 1,
            Self::I32 | Self::F32 => 4,
            Self::I64 => 8,
        }
    }

    /// Whether a label fits the type.
    pub(super) fn holds(self, label: i64) -> bool {
        match self {
            Self::I32 => i32::try_from(label).is_ok(),
            Self::I64 => true,
            Self::Bool | Self::F32 => false,
        }
    }
}

/// The memory of a field; empty if it is not made.
#[derive(Debug)]
pub enum Slots<'a> {
    /// Memory of a [`FieldType::Bool`].
    Bool(&'a mut [u8]),
    /// Memory of a [`FieldType::I32`].
    I32(&'a mut [i32]),
    /// Memory of a [`FieldType::I64`].
    I64(&'a mut [i64]),
    /// Memory of a [`FieldType::F32`].
    F32(&'a mut [f32]),
}

/// Runs the same code for numbers of any type.
macro_rules! with_numbers {
    ($slots:expr, $numbers:ident => $body:expr) => {
        match $slots {
            Slots::Bool($numbers) => $body,
            Slots::I32($numbers) => $body,
            Slots::I64($numbers) => $body,
            Slots::F32($numbers) => $body,
        }
    };
}

impl Slots<'_> {
    /// Writes one number to all positions in `positions`.
    #[inline(always)]
    pub(super) fn fill(&mut self, positions: Range<usize>, value: i64) {
        with_numbers!(self, numbers => if let Some(numbers) = numbers.get_mut(positions) {
            numbers.fill(Number::of(value));
        });
    }

    /// Writes 0, 1, 2 and so on to `positions`.
    #[inline(always)]
    pub(super) fn count(&mut self, positions: Range<usize>) {
        with_numbers!(self, numbers => if let Some(numbers) = numbers.get_mut(positions) {
            for (to, position) in numbers.iter_mut().zip(0..) {
                *to = Number::of(position);
            }
        });
    }

    /// Writes tokens to `positions`.
    #[inline(always)]
    pub(super) fn copy<T: Number + Into<i64>>(&mut self, positions: Range<usize>, tokens: &[T]) {
        with_numbers!(self, numbers => if let Some(numbers) = numbers.get_mut(positions) {
            for (to, &token) in numbers.iter_mut().zip(tokens) {
                *to = Number::of(token.into());
            }
        });
    }

    /// Writes a flag to each position.
    #[inline(always)]
    pub(crate) fn mark(&mut self, flags: impl Iterator<Item = bool>) {
        with_numbers!(self, numbers => for (to, flag) in numbers.iter_mut().zip(flags) {
            *to = Number::of(flag.into());
        });
    }
}
