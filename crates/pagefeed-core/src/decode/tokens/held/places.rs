//! Numbers of which there are few different ones: weights, masks.

use std::ops::Range;

use crate::decode::encodings::indices::{Part, for_each_part};
use crate::decode::tokens::integers::reserve;
use crate::error::Result;

/// As many different numbers as a byte counts.
pub(super) const MOST: usize = 256;

/// Numbers by their places among those that are different.
#[derive(Clone, Debug, Default)]
pub(super) struct Places {
    places: Vec<u8>,
    /// The different numbers, in 64 bits.
    numbers: Vec<i64>,
}

/// The place of each entry of a table.
pub(super) struct Entered([u8; MOST]);

impl Places {
    pub fn len(&self) -> usize {
        self.places.len()
    }

    pub fn num_bytes(&self) -> usize {
        self.places.capacity() + self.numbers.capacity() * size_of::<i64>()
    }

    pub fn clear(&mut self) {
        self.places.clear();
        self.numbers.clear();
    }

    /// Appends a number, the first one.
    pub fn push(&mut self, number: i64) {
        self.places.push(self.numbers.len() as u8);
        self.numbers.push(number);
    }

    /// The different numbers.
    pub fn different(&self) -> &[i64] {
        &self.numbers
    }

    /// All numbers in `range`.
    pub fn all(&self, range: Range<usize>) -> impl ExactSizeIterator<Item = i64> {
        let places = self.places[range].iter();
        places.map(|&place| self.numbers[usize::from(place)])
    }

    /// Finds places for the entries of a table; `None` if they are too many.
    pub fn enter(&mut self, table: impl ExactSizeIterator<Item = i64>) -> Option<Entered> {
        let mut entered = Entered([0; MOST]);
        if table.len() > MOST {
            return None;
        }
        for (number, place) in table.zip(&mut entered.0) {
            let known = self.numbers.iter().position(|&known| known == number);
            let at = known.unwrap_or(self.numbers.len());
            *place = u8::try_from(at).ok()?;
            if known.is_none() {
                self.numbers.push(number);
            }
        }
        Some(entered)
    }

    /// Makes room for `more` numbers.
    pub fn make_room(&mut self, more: usize) -> Result<()> {
        match self.places.capacity() - self.places.len() < more {
            true => reserve(&mut self.places, more),
            false => Ok(()),
        }
    }

    /// Appends the entries of a table of so many that `values` of a page name.
    pub fn look_up(
        &mut self,
        page: &[u8],
        values: Range<usize>,
        num_entries: usize,
        entered: &Entered,
    ) -> Result<()> {
        let places = &mut self.places;
        for_each_part(page, values, num_entries, |part| {
            match part {
                Part::Repeated { index, count } => {
                    places.resize(places.len() + count, entered.of(index));
                }
                Part::Batch(indices) => places.extend(indices.iter().map(|&i| entered.of(i))),
            }
            Ok(())
        })
    }

    /// Appends some of those whose table was entered.
    pub fn append(&mut self, other: &Self, range: Range<usize>, entered: &Entered) {
        let places = other.places[range].iter();
        let places = places.map(|&place| entered.of(place.into()));
        self.places.extend(places);
    }

    /// Writes those from `from` on over all of `target`, if there are as many.
    pub fn write<T: Copy>(
        &self,
        from: usize,
        target: &mut [T],
        cast: impl Fn(i64) -> T,
    ) -> Option<()> {
        let places = self.places.get(from..from + target.len())?;
        let (runs, rest) = places.as_chunks::<RUN>();
        let (targets, last) = target.as_chunks_mut::<RUN>();
        let number = |place: u8| cast(self.numbers[usize::from(place)]);
        for (to, run) in targets.iter_mut().zip(runs) {
            // Mostly: what is said of tokens is said of many in a row.
            if *run == [run[0]; RUN] {
                to.fill(number(run[0]));
                continue;
            }
            for (to, &place) in to.iter_mut().zip(run) {
                *to = number(place);
            }
        }
        for (to, &place) in last.iter_mut().zip(rest) {
            *to = number(place);
        }
        Some(())
    }
}

/// Numbers that are looked at together.
const RUN: usize = 16;

impl Entered {
    #[inline(always)]
    fn of(&self, index: u32) -> u8 {
        self.0[index as usize % MOST]
    }
}
