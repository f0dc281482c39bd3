//! Infilling: documents as prefix, suffix and middle, after Bavarian et al., "Efficient
//! Training of Language Models to Fill in the Middle" (2022).
//!
//! Which documents are infilled depends on their numbers alone, so that their lengths are
//! known without reading them; where they are cut, and in which order their parts come,
//! on the epoch too. [`Infilling`] decides by keyed hashes, [`Arranged`] says what a row
//! then holds.

mod lists;
#[cfg(test)]
mod tests;

use std::ops::Range;
use std::sync::Arc;

use crate::order::mix;

pub use lists::{arrange_lists, infilled_field};

/// Tokens written between the parts of a document.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Marker {
    /// Before the prefix.
    Prefix,
    /// Before the suffix.
    Suffix,
    /// Before the middle.
    Middle,
    /// After the middle.
    End,
}

/// Infilling of the documents of a dataset.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Infilling {
    /// Key that chooses the infilled documents.
    pub choice: [u64; 2],
    /// Key that decides where they are cut, and the order of their parts.
    pub cuts: [u64; 2],
    /// Infilled documents in 2^32.
    pub rate: u64,
    /// Infilled documents with their suffix first, in 2^32.
    pub spm: u64,
    /// Tokens of the markers, as [`Marker`] orders them: three, or four with an end.
    pub tokens: Vec<i64>,
    /// Whether each sequence cuts its part of a document, in place of the whole document.
    pub within_sequence: bool,
}

/// Hash of a document and an epoch: 32 bits each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Draws {
    cuts: [u32; 2],
    order: u32,
    pick: u32,
}

/// A row whose tokens `within` are infilled; the tokens before and after stay.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Arranged {
    /// Row of the page.
    pub row: usize,
    /// Tokens that are infilled.
    pub within: Range<u32>,
    /// The middle.
    pub middle: Range<u32>,
    /// Whether the suffix comes first.
    pub is_spm: bool,
    /// Whether a marker ends the middle.
    pub has_end: bool,
}

/// A row to be infilled once it is known which of its tokens are cut.
#[derive(Clone, Copy, Debug)]
pub struct Pending {
    /// Row of the page.
    pub row: usize,
    /// The hash that decides.
    pub draws: Draws,
}

/// Rows of a page that are infilled once they are packed.
#[derive(Clone, Debug)]
pub struct Postponed {
    /// Settings of infilling.
    pub infilling: Arc<Infilling>,
    /// The rows, in their order.
    pub rows: Vec<Pending>,
}

impl Postponed {
    /// Memory it takes.
    pub fn num_bytes(&self) -> usize {
        self.rows.capacity() * size_of::<Pending>()
    }

    /// Tokens that are added to a row.
    pub fn added(&self, row: usize) -> u32 {
        let is_there = self.rows.binary_search_by_key(&row, |pending| pending.row);
        is_there.map_or(0, |_| self.infilling.num_added())
    }
}

/// Parts of an infilled row, in its order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Run {
    /// A marker.
    Marker(Marker),
    /// Tokens of the document.
    Own(Range<u32>),
}

impl Infilling {
    /// Tokens by which an infilled document is longer.
    pub fn num_added(&self) -> u32 {
        self.tokens.len() as u32
    }

    /// Whether a document is infilled, in every epoch.
    pub fn is_chosen(&self, document: u64) -> bool {
        let mut value = [document];
        mix(&mut value, self.choice);
        value[0] >> 32 < self.rate
    }

    /// Number of these documents that are infilled.
    pub fn num_chosen(&self, documents: Range<u64>) -> u64 {
        documents
            .map(|document| u64::from(self.is_chosen(document)))
            .sum()
    }

    /// Hashes that choose how a document is infilled in an epoch.
    pub fn draws(&self, document: u64, epoch: u32) -> Draws {
        let epoch = u64::from(epoch);
        let mut key = [epoch, !epoch];
        mix(&mut key, self.cuts);
        let mut values = [document, !document];
        mix(&mut values, key);
        let mut further = values;
        mix(&mut further, self.cuts);
        Draws {
            cuts: [values[0], values[1]].map(upper),
            order: upper(further[0]),
            pick: upper(further[1]),
        }
    }

    /// Those `rows` of a page that are infilled, documents from number `first` on.
    pub fn pending(&self, first: u64, num_rows: usize, epoch: u32) -> Vec<Pending> {
        let chosen = (0..num_rows).filter(|&row| self.is_chosen(first + row as u64));
        let pending = chosen.map(|row| Pending {
            row,
            draws: self.draws(first + row as u64, epoch),
        });
        pending.collect()
    }

    /// Cuts the tokens `within` a row.
    pub fn arranged(&self, pending: &Pending, within: Range<u32>) -> Arranged {
        let Draws { cuts, order, .. } = pending.draws;
        let count = u64::from(within.end - within.start);
        // Between any two tokens, and at both ends.
        let [first, second] = cuts.map(|draw| within.start + scaled(draw, count + 1));
        Arranged {
            row: pending.row,
            within,
            middle: first.min(second)..first.max(second),
            is_spm: u64::from(order) < self.spm,
            has_end: self.tokens.len() > 3,
        }
    }

    /// Cuts one of the `spans` of a row: each sequence that holds the row has one. `spans` and
    /// `num_tokens` count the markers. A longer span is more likely to be cut.
    pub fn arranged_in(
        &self,
        pending: &Pending,
        num_tokens: u32,
        spans: impl Iterator<Item = Range<u32>> + Clone,
    ) -> Arranged {
        let added = self.num_added();
        let fitting = spans.filter(|span| span.end - span.start >= added);
        let length = |span: &Range<u32>| u64::from(span.end - span.start);
        let total = fitting.clone().map(|span| length(&span)).sum();
        let mut drawn = u64::from(scaled(pending.draws.pick, total));
        let mut within = 0..num_tokens;
        for span in fitting {
            if drawn < length(&span) {
                within = span.start..span.end - added;
                break;
            }
            drawn -= length(&span);
        }
        self.arranged(pending, within)
    }
}

fn upper(value: u64) -> u32 {
    (value >> 32) as u32
}

/// A number below `extent`, all equally likely; 0 if there is none.
fn scaled(draw: u32, extent: u64) -> u32 {
    ((u128::from(draw) * u128::from(extent)) >> 32) as u32
}

impl Arranged {
    /// Tokens by which the row is longer than its document.
    pub fn num_added(&self) -> u32 {
        3 + u32::from(self.has_end)
    }

    /// Parts of the row, which has `num_tokens` before infilling.
    ///
    /// With the prefix first these are prefix, suffix and middle, with a marker before
    /// each. With the suffix first (variant 2 of the paper) the markers of prefix and
    /// suffix begin the row, and after that of the middle come prefix and middle.
    pub fn runs(&self, num_tokens: u32) -> impl Iterator<Item = Run> {
        let Self { within, middle, .. } = self;
        let prefix = within.start..middle.start;
        let suffix = middle.end..within.end;
        let run = Run::Marker;
        let parts = match self.is_spm {
            false => [
                run(Marker::Prefix),
                Run::Own(prefix),
                run(Marker::Suffix),
                Run::Own(suffix),
                run(Marker::Middle),
                Run::Own(middle.clone()),
            ],
            true => [
                run(Marker::Prefix),
                run(Marker::Suffix),
                Run::Own(suffix),
                run(Marker::Middle),
                Run::Own(prefix.start..middle.end),
                Run::Own(0..0),
            ],
        };
        let before = std::iter::once(Run::Own(0..within.start));
        let end = self.has_end.then_some(run(Marker::End));
        let behind = std::iter::once(Run::Own(within.end..num_tokens));
        let all = before.chain(parts).chain(end).chain(behind);
        all.filter(|run| !matches!(run, Run::Own(range) if range.is_empty()))
    }

    /// Runs of the document's own tokens among the tokens `asked` of the row, which count
    /// markers: the first token in the document, the number of tokens, and the number of
    /// asked tokens before them.
    pub fn own(&self, num_tokens: u32, asked: Range<u32>) -> impl Iterator<Item = OwnRun> {
        let mut position = 0;
        let runs = self.runs(num_tokens);
        runs.filter_map(move |run| {
            let begin = position;
            let Run::Own(range) = run else {
                position += 1;
                return None;
            };
            position += range.end - range.start;
            let (from, to) = (begin.max(asked.start), position.min(asked.end));
            (from < to).then(|| OwnRun {
                first_token: range.start + from - begin,
                num_tokens: to - from,
                offset: from - asked.start,
            })
        })
    }
}

/// Consecutive tokens of a document in a part of its row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OwnRun {
    /// First token of the document.
    pub first_token: u32,
    /// Number of tokens.
    pub num_tokens: u32,
    /// Offset of the first one in the part.
    pub offset: u32,
}
