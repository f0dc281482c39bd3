//! Bits of numbers as they are stored, and in how many of them they are held.

/// What 0 stands for in 16 bits that hold wider numbers: labels without loss are
/// negative, and ids are below 65,000, mostly.
const FIRST: i32 = -256;

/// In how many bits numbers are held.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Size {
    Bits16,
    Bits32,
    Bits64,
}

/// Bits of numbers as they are stored.
pub(crate) trait Bits: Copy {
    /// The fewest bits that hold all of `numbers`.
    fn size_of_all(numbers: &[Self]) -> Size;
    /// As it is held in 16 bits, in which it fits.
    fn short(self) -> u16;
    /// In 32 bits, likewise.
    fn half(self) -> i32;
    /// In 64 bits.
    fn whole(self) -> i64;
}

/// Numbers of columns that have no more: held as they are.
impl Bits for u16 {
    fn size_of_all(_: &[Self]) -> Size {
        Size::Bits16
    }

    #[inline(always)]
    fn short(self) -> u16 {
        self
    }

    #[inline(always)]
    fn half(self) -> i32 {
        i32::from(self)
    }

    #[inline(always)]
    fn whole(self) -> i64 {
        i64::from(self)
    }
}

impl Bits for i32 {
    #[inline]
    fn size_of_all(numbers: &[Self]) -> Size {
        let place = |number: i32| number.wrapping_sub(FIRST).cast_unsigned();
        match numbers.iter().fold(0, |all, &number| all | place(number)) >> 16 {
            0 => Size::Bits16,
            _ => Size::Bits32,
        }
    }

    #[inline(always)]
    fn short(self) -> u16 {
        self.wrapping_sub(FIRST) as u16
    }

    #[inline(always)]
    fn half(self) -> i32 {
        self
    }

    #[inline(always)]
    fn whole(self) -> i64 {
        i64::from(self)
    }
}

impl Bits for i64 {
    #[inline]
    fn size_of_all(numbers: &[Self]) -> Size {
        let place = |number: i64| number.wrapping_sub(FIRST.into()).cast_unsigned();
        if numbers.iter().fold(0, |all, &number| all | place(number)) >> 16 == 0 {
            return Size::Bits16;
        }
        let excess = |number: i64| number ^ i64::from(number as i32);
        match numbers.iter().fold(0, |all, &number| all | excess(number)) {
            0 => Size::Bits32,
            _ => Size::Bits64,
        }
    }

    #[inline(always)]
    fn short(self) -> u16 {
        self.wrapping_sub(FIRST.into()) as u16
    }

    #[inline(always)]
    fn half(self) -> i32 {
        self as i32
    }

    #[inline(always)]
    fn whole(self) -> i64 {
        self
    }
}

/// A number of more than 16 bits that is held in 16.
#[inline(always)]
pub(super) fn half_of(short: u16) -> i32 {
    i32::from(short) + FIRST
}

/// The same in 64 bits.
#[inline(always)]
pub(super) fn whole_of(short: u16) -> i64 {
    i64::from(half_of(short))
}
