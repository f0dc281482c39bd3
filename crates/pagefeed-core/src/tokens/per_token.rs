//! Numbers of a column for each token, and their form in a batch.

use super::number_type::NumberType;
use super::numbers::Numbers;
use crate::error::{Error, Kind, Result};

/// Numbers that are made at a time.
const RESCALED: usize = 4096;

/// Numbers of a column for each token.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PerToken {
    /// Numbers of a token in a batch.
    pub width: usize,
    /// Whether tokens may have fewer numbers than `width`; batches then say how many.
    pub is_counted: bool,
    /// Tokens at the beginning of each row that have no numbers.
    pub num_without: usize,
    /// Bits of the number that stands for a missing one.
    pub padding: u64,
    /// Factor of 8-bit integers.
    pub scale: Option<f32>,
    /// Whether numbers belong to the next token. Where infilling puts another token next,
    /// numbers are padding.
    pub is_of_next: bool,
}

impl Default for PerToken {
    fn default() -> Self {
        Self {
            width: 1,
            is_counted: false,
            num_without: 0,
            padding: 0,
            scale: None,
            is_of_next: false,
        }
    }
}

/// The numbers of rows, as they were read.
pub struct Given<'a> {
    /// All numbers.
    pub values: &'a Numbers,
    /// First value of each token's list, and the end; `None` for lists of numbers.
    pub starts: Option<&'a [u32]>,
}

impl PerToken {
    /// Returns the type that numbers of this type get in a batch.
    pub fn number(&self, number: NumberType) -> NumberType {
        self.scale.map_or(number, |_| NumberType::F32)
    }

    /// Returns numbers in the form of a batch, if they must be multiplied.
    pub fn rescale(&self, values: &Numbers, number: NumberType) -> Result<Option<Numbers>> {
        let Some(table) = self.scaled(number) else {
            return Ok(None);
        };
        let mut made = Numbers::new(size_of::<f32>(), Numbers::default());
        for start in (0..values.len()).step_by(RESCALED) {
            let end = values.len().min(start + RESCALED);
            let some = values.whole(start..end);
            let scaled = some
                .iter()
                .map(|&bits| table[usize::from(bits as u8)].into());
            made.extend(scaled, values.len() - end)?;
        }
        Ok(Some(made))
    }

    /// Returns the bits in a batch of each 8-bit integer.
    pub fn scaled(&self, number: NumberType) -> Option<[i32; 256]> {
        let scale = self.scale?;
        let is_signed = number == NumberType::I8;
        Some(std::array::from_fn(|bits| {
            let integer = match is_signed {
                true => f32::from(bits as u8 as i8),
                false => f32::from(bits as u8),
            };
            (integer * scale).to_bits().cast_signed()
        }))
    }

    /// Refuses a row that does not have the numbers of its tokens. `lengths` are the
    /// lengths of the tokens' lists, or of the row if `is_flat`.
    pub fn check_row(
        &self,
        row: std::fmt::Arguments<'_>,
        num_tokens: usize,
        is_flat: bool,
        mut lengths: impl ExactSizeIterator<Item = usize>,
    ) -> Result<()> {
        let with = num_tokens.saturating_sub(self.num_without);
        let advice = "correct the row, or leave the column out of aligned";
        let refuse = |message: String| Err(Error::new(Kind::Corrupt, message));
        if is_flat {
            let found = lengths.next().unwrap_or(0);
            if Some(found) == with.checked_mul(self.width) {
                return Ok(());
            }
            let Self { width, .. } = *self;
            return refuse(match width {
                1 => format!(
                    "{row} has {found} values and {num_tokens} tokens: a \
                     column with a value for every token has as many; {advice}"
                ),
                _ => format!(
                    "{row} has {found} values, and {with} tokens with {width} \
                     values each would have {}; {advice}",
                    with.saturating_mul(width)
                ),
            });
        }
        if lengths.len() != with {
            return refuse(format!(
                "{row} has {} lists of values, and {with} tokens that need \
                 one each; {advice}",
                lengths.len()
            ));
        }
        let width = self.width;
        let misfit =
            lengths.position(|length| length > width || (length < width && !self.is_counted));
        let Some(token) = misfit else {
            return Ok(());
        };
        let token = token + self.num_without;
        let less = match self.is_counted {
            true => "at most",
            false => "exactly",
        };
        refuse(format!(
            "token {token} of {row} has not {less} {width} values: give a \
             larger width, name a count where lists are shorter, or correct the row"
        ))
    }

    /// Returns the numbers of rows as batches need them, `width` for each token, and
    /// how many each token has. [`PerToken::check_row`] must have accepted the rows.
    pub fn fill(&self, given: Given<'_>, row_offsets: &[u32]) -> Result<Option<Numbers>> {
        let Given { values, starts } = given;
        let width = self.width;
        let is_full = |starts: &[u32]| {
            starts
                .windows(2)
                .all(|pair| (pair[1] - pair[0]) as usize == width)
        };
        if self.num_without == 0 && starts.is_none_or(is_full) {
            return Ok(None);
        }
        let count = row_offsets.last().map_or(0, |&end| end as usize);
        let mut filled = Numbers::like(values, Numbers::default());
        let (mut number, mut taken) = (0, 0..0);
        let end_of = |number: usize| match starts {
            Some(starts) => starts.get(number + 1).map_or(0, |&end| end as usize),
            None => (number + 1) * width,
        };
        for row in row_offsets.windows(2) {
            for token in 0..(row[1] - row[0]) as usize {
                let end = match token < self.num_without {
                    true => taken.end,
                    false => {
                        number += 1;
                        end_of(number - 1)
                    }
                };
                let missing = width.saturating_sub(end - taken.end);
                taken.end = end;
                if missing > 0 {
                    filled.append(values, taken.clone(), count * width)?;
                    taken.start = end;
                    filled.pad(self.padding, missing, count * width)?;
                }
            }
        }
        filled.append(values, taken, count * width)?;
        Ok(Some(filled))
    }

    /// Returns how many numbers each token of such rows has.
    pub fn counts(&self, starts: Option<&[u32]>, row_offsets: &[u32]) -> Result<Numbers> {
        let (mut number, mut counts) = (0, Numbers::new(size_of::<i32>(), Numbers::default()));
        let mut some = Vec::new();
        let end = row_offsets.last().map_or(0, |&end| end as usize);
        let mut done = 0;
        for row in row_offsets.windows(2) {
            some.clear();
            for token in 0..(row[1] - row[0]) as usize {
                some.push(match starts {
                    _ if token < self.num_without => 0,
                    Some(starts) => {
                        number += 1;
                        i64::from(starts[number] - starts[number - 1])
                    }
                    None => self.width as i64,
                });
            }
            done += some.len();
            counts.extend(some.iter().copied(), end - done)?;
        }
        Ok(counts)
    }
}
