//! What is to be built: a plan as submitted, checked and prepared for the scheduler.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::ops::Range;

use super::EngineConfig;
use crate::error::{Error, Result};

/// Segments of consecutive batches. Arrays of one length, sorted by batch.
#[derive(Clone, Debug, Default)]
pub struct Plan {
    /// Segments of batch `b`: `batch_offsets[b]..batch_offsets[b + 1]`.
    pub batch_offsets: Vec<u32>,
    /// Page to read.
    pub page: Vec<u64>,
    /// Row of the page at which the segment begins.
    pub row: Vec<u32>,
    /// Token within that row. May lie in a later row: rows of a page are joined.
    pub first_token: Vec<u32>,
    /// Number of tokens; may run on into later rows of the page.
    pub num_tokens: Vec<u32>,
    /// Row of the batch.
    pub destination_row: Vec<u32>,
    /// First token of that row.
    pub destination_offset: Vec<u32>,
}

/// A plan that keeps its promises, its segments in the order of their destination.
#[derive(Debug)]
pub(super) struct PreparedPlan {
    plan: Plan,
    /// Pages of the whole plan, each once, in the order of their first use.
    pub pages: Vec<u64>,
    /// Per batch the pages it needs, each once, as numbers into `pages`.
    uses: Vec<u32>,
    use_offsets: Vec<u32>,
    /// Per segment, its page as a number into its batch's uses.
    use_of_segment: Vec<u32>,
    /// Per batch, whether segments cover all of it.
    is_full: Vec<bool>,
}

/// One range of tokens to copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Segment {
    /// Number of the page among the batch's uses.
    pub page_use: usize,
    pub page: u64,
    pub row: u32,
    pub first_token: u32,
    /// Tokens of the batch to write.
    pub start: usize,
    pub end: usize,
}

impl PreparedPlan {
    /// Checks `plan` against the shape of the batches.
    pub fn new(mut plan: Plan, config: &EngineConfig) -> Result<Self> {
        check_lengths(&plan)?;
        let num_batches = plan.batch_offsets.len().saturating_sub(1);
        let mut is_full = Vec::with_capacity(num_batches);
        for batch in 0..num_batches {
            let covered = check_destinations(&mut plan, batch, config)?;
            is_full.push(covered == config.batch_tokens() as u64);
        }
        let mut prepared = Self {
            pages: Vec::new(),
            uses: Vec::with_capacity(plan.page.len()),
            use_offsets: Vec::with_capacity(num_batches + 1),
            use_of_segment: Vec::with_capacity(plan.page.len()),
            is_full,
            plan,
        };
        prepared.number_pages(num_batches);
        Ok(prepared)
    }

    pub fn num_batches(&self) -> usize {
        self.is_full.len()
    }

    /// Pages that `batch` needs, as numbers into `pages`.
    pub fn uses(&self, batch: usize) -> &[u32] {
        &self.uses[self.use_offsets[batch] as usize..self.use_offsets[batch + 1] as usize]
    }

    pub fn is_full(&self, batch: usize) -> bool {
        self.is_full[batch]
    }

    /// Segments of `batch` by destination; they do not overlap.
    pub fn segments(&self, batch: usize, row_length: usize) -> impl Iterator<Item = Segment> {
        let plan = &self.plan;
        segment_range(plan, batch).map(move |i| {
            let start =
                plan.destination_row[i] as usize * row_length + plan.destination_offset[i] as usize;
            Segment {
                page_use: self.use_of_segment[i] as usize,
                page: plan.page[i],
                row: plan.row[i],
                first_token: plan.first_token[i],
                start,
                end: start + plan.num_tokens[i] as usize,
            }
        })
    }

    fn number_pages(&mut self, num_batches: usize) {
        let mut numbers: HashMap<u64, u32, PageHasher> = HashMap::default();
        // Per page, the last batch that uses it and the number of that use.
        let mut latest: Vec<(usize, u32)> = Vec::new();
        self.use_offsets.push(0);
        for batch in 0..num_batches {
            let first_use = self.uses.len();
            for segment in segment_range(&self.plan, batch) {
                let page = self.plan.page[segment];
                let number = *numbers.entry(page).or_insert_with(|| {
                    self.pages.push(page);
                    latest.push((usize::MAX, 0));
                    (self.pages.len() - 1) as u32
                });
                let (last_batch, page_use) = &mut latest[number as usize];
                if *last_batch != batch {
                    (*last_batch, *page_use) = (batch, (self.uses.len() - first_use) as u32);
                    self.uses.push(number);
                }
                self.use_of_segment.push(*page_use);
            }
            self.use_offsets.push(self.uses.len() as u32);
        }
    }
}

fn segment_range(plan: &Plan, batch: usize) -> Range<usize> {
    plan.batch_offsets[batch] as usize..plan.batch_offsets[batch + 1] as usize
}

fn check_lengths(plan: &Plan) -> Result<()> {
    let num_segments = plan.page.len();
    for (name, length) in [
        ("row", plan.row.len()),
        ("first_token", plan.first_token.len()),
        ("num_tokens", plan.num_tokens.len()),
        ("destination_row", plan.destination_row.len()),
        ("destination_offset", plan.destination_offset.len()),
    ] {
        if length != num_segments {
            return Err(Error::invalid(format!(
                "the arrays of a plan must have one length: page has {num_segments} elements, \
                 {name} has {length}"
            )));
        }
    }
    let offsets = &plan.batch_offsets;
    let first = offsets.first().map_or(0, |&first| first as usize);
    let last = offsets.last().map_or(0, |&last| last as usize);
    if first != 0 || last != num_segments || !offsets.is_sorted() {
        return Err(Error::invalid(format!(
            "batch_offsets must rise from 0 to the number of segments ({num_segments}), \
             found {first} to {last}{}",
            if offsets.is_sorted() {
                ""
            } else {
                ", falling in between"
            }
        )));
    }
    Ok(())
}

/// Checks that the segments of `batch` lie inside it and do not overlap, puts them
/// into the order of their destinations, and returns how many tokens they cover.
fn check_destinations(plan: &mut Plan, batch: usize, config: &EngineConfig) -> Result<u64> {
    let range = segment_range(plan, batch);
    let (num_rows, row_length) = (config.batch_rows as u64, config.row_length as u64);
    let (mut inside, mut ordered, mut covered, mut end) = (true, true, 0, 0);
    for i in range.clone() {
        let (row, offset) = (plan.destination_row[i], plan.destination_offset[i]);
        let num_tokens = u64::from(plan.num_tokens[i]);
        inside &= u64::from(row) < num_rows && u64::from(offset) + num_tokens <= row_length;
        let start = u64::from(row) * row_length + u64::from(offset);
        ordered &= start >= end;
        end = start + num_tokens;
        covered += num_tokens;
    }
    if !inside {
        return Err(outside(plan, batch, config));
    }
    if !ordered {
        let order = order_by_destination(plan, batch, row_length)?;
        for values in [
            &mut plan.row,
            &mut plan.first_token,
            &mut plan.num_tokens,
            &mut plan.destination_row,
            &mut plan.destination_offset,
        ] {
            permute(values, &order, range.start);
        }
        permute(&mut plan.page, &order, range.start);
    }
    Ok(covered)
}

/// The error for the first segment of `batch` that runs outside.
fn outside(plan: &Plan, batch: usize, config: &EngineConfig) -> Error {
    let (num_rows, row_length) = (config.batch_rows, config.row_length);
    let is_outside = |&i: &usize| {
        plan.destination_row[i] as usize >= num_rows
            || plan.destination_offset[i] as u64 + u64::from(plan.num_tokens[i]) > row_length as u64
    };
    let i = segment_range(plan, batch)
        .find(is_outside)
        .unwrap_or_default();
    Error::invalid(format!(
        "segment {i} of the plan (batch {batch}) runs outside the batch of {num_rows} rows of \
         {row_length} tokens: {} tokens at row {}, offset {}",
        plan.num_tokens[i], plan.destination_row[i], plan.destination_offset[i]
    ))
}

/// Segments of `batch` sorted by destination, or the error for two that overlap.
fn order_by_destination(plan: &Plan, batch: usize, row_length: u64) -> Result<Vec<usize>> {
    let span = |i: usize| {
        let row = u64::from(plan.destination_row[i]);
        let start = row * row_length + u64::from(plan.destination_offset[i]);
        (start, start + u64::from(plan.num_tokens[i]))
    };
    let mut order: Vec<usize> = segment_range(plan, batch).collect();
    order.sort_by_key(|&i| span(i));
    let overlapping = order
        .windows(2)
        .find(|pair| span(pair[1]).0 < span(pair[0]).1);
    match overlapping {
        None => Ok(order),
        Some(pair) => Err(Error::invalid(format!(
            "segments {} and {} of the plan (batch {batch}) overlap in row {}: offsets {} and {}, \
             {} and {} tokens",
            pair[0],
            pair[1],
            plan.destination_row[pair[1]],
            plan.destination_offset[pair[0]],
            plan.destination_offset[pair[1]],
            plan.num_tokens[pair[0]],
            plan.num_tokens[pair[1]]
        ))),
    }
}

fn permute<T: Copy>(values: &mut [T], order: &[usize], start: usize) {
    let sorted: Vec<T> = order.iter().map(|&i| values[i]).collect();
    values[start..start + order.len()].copy_from_slice(&sorted);
}

/// Hashes page numbers: nobody chooses them to collide, and a plan has thousands.
#[derive(Default)]
pub(super) struct MultiplyHasher(u64);

pub(super) type PageHasher = BuildHasherDefault<MultiplyHasher>;

impl Hasher for MultiplyHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.write_u64(self.0 ^ u64::from(byte));
        }
    }

    fn write_u64(&mut self, value: u64) {
        let product = value.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.0 = product ^ (product >> 32);
    }
}
