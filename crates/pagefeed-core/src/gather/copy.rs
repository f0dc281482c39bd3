//! Copies of tokens: plain loops that the compiler vectorises, compiled again for AVX2
//! and chosen at run time. Whether every value fits is one OR per value, left out where
//! the types prove it.

use std::ops::BitOr;

use crate::prefetch::fetch;
use crate::simd::vectorized;
use crate::tokens::{Number, TokenPage, Tokens, with_values};

/// A type that tokens can be delivered in.
pub trait BatchToken: Number + Into<i64> + Send + Sync + 'static {
    /// Name in messages.
    const NAME: &'static str;
    /// The value in this type, if it fits.
    fn from_i64(value: i64) -> Option<Self>;
    /// Copies `tokens[start..start + target.len()]`, which must be in bounds, and
    /// prefetches `ahead`. Returns a value that does not fit.
    fn copy(tokens: &Tokens, start: usize, target: &mut [Self], ahead: Ahead) -> Result<(), i64>;
}

/// Tokens that are copied next, to be prefetched into the cache.
#[derive(Clone, Copy, Debug)]
pub struct Ahead {
    start: *const u8,
    /// Lines of the cache to fetch; after many, the processor fetches the next by itself.
    num_lines: usize,
}

impl Ahead {
    /// Nothing to fetch.
    pub const NONE: Self = Self {
        start: std::ptr::null(),
        num_lines: 0,
    };

    /// Memory of `num_tokens` tokens of `page`, from token `first_token` of row `row`
    /// on.
    pub fn new(page: &TokenPage, row: u32, first_token: u32, num_tokens: usize) -> Self {
        let Some(&offset) = page.row_offsets.get(row as usize) else {
            return Self::NONE;
        };
        let start = (offset as usize + first_token as usize).saturating_sub(page.skipped as usize);
        with_values!(&page.tokens, all => Self::of(all, start, num_tokens))
    }

    #[inline(always)]
    fn of<T>(tokens: &[T], start: usize, num_tokens: usize) -> Self {
        // They begin anywhere in a line.
        let num_lines = (num_tokens * size_of::<T>()).div_ceil(LINE_BYTES) + 1;
        Self {
            start: tokens.as_ptr().wrapping_add(start).cast(),
            num_lines: num_lines.min(FIRST_LINES),
        }
    }

    /// Fetches the first tokens. The processor sees by itself that the rest follows.
    pub fn fetch(self) {
        (0..self.num_lines).for_each(|line| self.fetch_line(line));
    }

    #[inline(always)]
    fn fetch_line(self, line: usize) {
        fetch(self.start.wrapping_add(line * LINE_BYTES));
    }
}

/// Bytes of a line of the cache.
const LINE_BYTES: usize = 64;
/// Cache lines after which the processor predicts the next ones itself.
const FIRST_LINES: usize = 8;

/// Converts value by value. Returns false if the OR of all `excess` is not zero: then
/// some value does not fit. Prefetches a line of `ahead` for every line it reads.
#[inline(always)]
fn convert_loop<S: Copy, T, E: Copy + Default + PartialEq + BitOr<Output = E>>(
    source: &[S],
    target: &mut [T],
    ahead: Ahead,
    cast: impl Fn(S) -> T,
    excess: impl Fn(S) -> E,
) -> bool {
    let mut all = E::default();
    let mut each = |target: &mut [T], source: &[S]| {
        for (to, &from) in target.iter_mut().zip(source) {
            *to = cast(from);
            all = all | excess(from);
        }
    };
    let per_line = LINE_BYTES / size_of::<S>();
    let (mut targets, mut sources) = (
        target.chunks_exact_mut(per_line),
        source.chunks_exact(per_line),
    );
    for (line, (target, source)) in targets.by_ref().zip(sources.by_ref()).enumerate() {
        ahead.fetch_line(line);
        each(target, source);
    }
    each(targets.into_remainder(), sources.remainder());
    all == E::default()
}

fn convert<S: Copy, T, E: Copy + Default + PartialEq + BitOr<Output = E>>(
    source: &[S],
    target: &mut [T],
    ahead: Ahead,
    cast: impl Fn(S) -> T,
    excess: impl Fn(S) -> E,
) -> bool {
    let mut ahead = ahead;
    if ahead.num_lines < FIRST_LINES || size_of_val(source) < FIRST_LINES * LINE_BYTES {
        ahead.fetch();
        ahead = Ahead::of(source, 0, source.len()); // Nothing is left to be fetched.
    }
    vectorized(source, target, |source, target| {
        convert_loop(source, target, ahead, cast, excess)
    })
}

/// Values that are delivered as `T`.
trait Deliver<T>: Sized {
    /// Copies the values and prefetches `ahead`; returns a value that does not fit.
    fn deliver(source: &[Self], target: &mut [T], ahead: Ahead) -> Result<(), i64>;
}

impl<T: BatchToken> Deliver<T> for T {
    fn deliver(source: &[T], target: &mut [T], ahead: Ahead) -> Result<(), i64> {
        ahead.fetch();
        target.copy_from_slice(source);
        Ok(())
    }
}

/// Pairs of types, and the bits of a value that must not be set if it is to fit.
macro_rules! deliver {
    ($($from:ty => $to:ty, $excess:expr;)*) => {$(
        impl Deliver<$to> for $from {
            fn deliver(source: &[$from], target: &mut [$to], ahead: Ahead) -> Result<(), i64> {
                if convert(source, target, ahead, |value| value as $to, $excess) {
                    return Ok(());
                }
                Err(first_misfit::<_, $to>(source))
            }
        }
    )*};
}

deliver! {
    u16 => i64, |_| 0u8;
    i32 => i64, |_| 0u8;
    u32 => i64, |_| 0u8;
    u16 => i32, |_| 0u8;
    u32 => i32, |value| value >> 31;
    i64 => i32, |value| value ^ i64::from(value as i32);
    i32 => u16, |value| value >> 16;
    u32 => u16, |value| value >> 16;
    i64 => u16, |value| value >> 16;
}

/// Returns the first value that does not fit, after a check has found one.
fn first_misfit<S: Copy + Into<i64>, T: BatchToken>(source: &[S]) -> i64 {
    let mut values = source.iter().map(|&value| value.into());
    values
        .find(|&value| T::from_i64(value).is_none())
        .unwrap_or_default()
}

macro_rules! batch_tokens {
    ($($type:ty, $name:literal;)*) => {$(
        impl BatchToken for $type {
            const NAME: &'static str = $name;

            fn from_i64(value: i64) -> Option<Self> {
                value.try_into().ok()
            }

            fn copy(
                tokens: &Tokens,
                start: usize,
                target: &mut [Self],
                ahead: Ahead,
            ) -> Result<(), i64> {
                let range = start..start + target.len();
                with_values!(tokens, all => Deliver::deliver(&all[range], target, ahead))
            }
        }
    )*};
}

batch_tokens! {
    i64, "int64";
    i32, "int32";
    u16, "uint16";
}
