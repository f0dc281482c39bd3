//! Integers in memory, in as few bytes as they came in: dictionaries, and the rows of
//! pages.

use std::ops::Range;

use crate::error::Error;

/// Runs `$what` with the `$values`, of any type.
macro_rules! with_values {
    ($tokens:expr, $values:ident => $what:expr) => {
        match $tokens {
            $crate::tokens::Tokens::U16($values) => $what,
            $crate::tokens::Tokens::I32($values) => $what,
            $crate::tokens::Tokens::U32($values) => $what,
            $crate::tokens::Tokens::I64($values) => $what,
        }
    };
}
pub(crate) use with_values;

/// Integers in the narrowest type that needed no conversion.
#[derive(Clone, Debug)]
pub enum Tokens {
    /// Values of a dictionary whose entries all fit.
    U16(Vec<u16>),
    /// 32-bit columns.
    I32(Vec<i32>),
    /// 32-bit unsigned columns.
    U32(Vec<u32>),
    /// 64-bit columns.
    I64(Vec<i64>),
}

impl Tokens {
    /// Number of tokens.
    pub fn len(&self) -> usize {
        with_values!(self, values => values.len())
    }

    /// Whether there are no integers.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Bytes of memory, as allocated.
    pub fn num_bytes(&self) -> usize {
        with_values!(self, values => vec_bytes(values))
    }

    pub(crate) fn clear(&mut self) {
        with_values!(self, values => values.clear());
    }

    /// Drops the tokens in `range`.
    pub(crate) fn drop(&mut self, range: Range<usize>) {
        with_values!(self, values => drop(values.drain(range)));
    }

    /// Changes the type to that of `empty`; drops the integers if the types differ.
    pub(crate) fn retype(&mut self, empty: Self) {
        if std::mem::discriminant(self) != std::mem::discriminant(&empty) {
            *self = empty;
        }
    }

    /// Returns no integers, in the type of these.
    pub(crate) fn empty(&self) -> Self {
        match self {
            Self::U16(_) => Self::U16(Vec::new()),
            Self::I32(_) => Self::I32(Vec::new()),
            Self::U32(_) => Self::U32(Vec::new()),
            Self::I64(_) => Self::I64(Vec::new()),
        }
    }

    /// Returns the tokens in `range` as 64-bit integers.
    pub(crate) fn wide(&self, range: Range<usize>) -> Vec<i64> {
        with_values!(self, values => widened(&values[range]))
    }
}

fn widened<T: Copy + Into<i64>>(values: &[T]) -> Vec<i64> {
    values.iter().map(|&value| value.into()).collect()
}

fn vec_bytes<T>(values: &Vec<T>) -> usize {
    values.capacity() * size_of::<T>()
}

impl Default for Tokens {
    fn default() -> Self {
        Self::U16(Vec::new())
    }
}

pub(crate) fn mismatch() -> Error {
    Error::internal("the dictionary is of another type than its column")
}
