//! Batches to build: a plan as submitted, checked and prepared for the scheduler.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use super::bundle::{Bundle, Bundles};
use super::page_key::{PageHasher, PageKey};
use super::{EngineConfig, PageSource};
use crate::error::{Error, Result};

/// Segments of consecutive batches. Arrays of one length, sorted by batch.
#[derive(Clone, Debug, Default)]
pub struct Plan {
    /// Segments of batch `b`: `batch_offsets[b]..batch_offsets[b + 1]`.
    pub batch_offsets: Vec<u32>,
    /// Page to read, or key of a bundle.
    pub page: Vec<u64>,
    /// Epoch that the page is read for; empty if all are 0.
    pub epoch: Vec<u32>,
    /// Row of the page at which the segment begins; of a packed bundle, the sequence.
    pub row: Vec<u32>,
    /// Token within that row, or in a later one: the rows of a page are joined, with
    /// separators if the layout has some. 0 for a packed sequence.
    pub first_token: Vec<u32>,
    /// Number of tokens; may continue into later rows of the page. For a packed
    /// sequence its length, including padding.
    pub num_tokens: Vec<u32>,
    /// Row of the batch.
    pub destination_row: Vec<u32>,
    /// First token in that row; or after the tokens, the column of a cell, which takes
    /// the row of the page as it is and counts as one token.
    pub destination_offset: Vec<u32>,
    /// Bundles: rows of several pages that are loaded as one.
    pub bundles: Bundles,
    /// Rows of each batch, if not the number in the engine's settings.
    pub batch_rows: Option<usize>,
    /// Rows of a batch that each sequence gives, see [`super::Layout::row_parts`].
    pub row_parts: usize,
}

impl Plan {
    /// Memory of the segments, as allocated.
    fn num_bytes(&self) -> usize {
        let narrow = [
            &self.batch_offsets,
            &self.row,
            &self.first_token,
            &self.num_tokens,
            &self.destination_row,
            &self.destination_offset,
        ];
        vec_bytes(&self.page) + narrow.map(vec_bytes).iter().sum::<usize>()
    }
}

fn vec_bytes<T>(values: &Vec<T>) -> usize {
    values.capacity() * size_of::<T>()
}

/// A plan that keeps its promises, its segments in the order of their destination.
#[derive(Debug)]
pub(super) struct PreparedPlan {
    /// Settings of the engine, with the rows of these batches.
    pub config: Arc<EngineConfig>,
    plan: Plan,
    /// Pages of the whole plan without repeats, in the order of first use.
    pub pages: Vec<PageKey>,
    /// Pages that each batch needs, without repeats, as indexes into `pages`.
    uses: Vec<u32>,
    use_offsets: Vec<u32>,
    /// Per segment, its page as a number into its batch's uses.
    use_of_segment: Vec<u32>,
    /// Per batch, the tokens that segments cover.
    num_covered: Vec<u64>,
    /// Whether segments of a page are read without the page, for each of `pages`.
    is_loose: Vec<bool>,
    /// Bundles by their key.
    pub bundles: HashMap<u64, Arc<Bundle>, PageHasher>,
}

/// Indexes of the pages of a plan, in memory that is used for all plans: memory fresh
/// from the system would cost more than filling it.
pub(super) type PageNumbers = HashMap<PageKey, u32, PageHasher>;

/// Segments of a page that are read without the page, at most; more are cheaper with
/// the page.
const MOST_LOOSE: u64 = 48;

/// A row of a page that is a cell of the batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Cell {
    /// Number of the page among the batch's uses.
    pub page_use: usize,
    pub page: u64,
    pub row: u32,
    pub column: usize,
    /// Row of the batch.
    pub destination: u32,
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
    pub fn new(
        mut plan: Plan,
        config: &Arc<EngineConfig>,
        source: &dyn PageSource,
        numbers: &mut PageNumbers,
    ) -> Result<Self> {
        check_lengths(&plan)?;
        let config = config.with_rows(plan.batch_rows, plan.row_parts)?;
        let num_batches = plan.batch_offsets.len().saturating_sub(1);
        let mut num_covered = Vec::with_capacity(num_batches);
        for batch in 0..num_batches {
            num_covered.push(check_destinations(&mut plan, batch, &config)?);
        }
        let mut prepared = Self {
            pages: Vec::new(),
            uses: Vec::with_capacity(plan.page.len()),
            use_offsets: Vec::with_capacity(num_batches + 1),
            use_of_segment: Vec::with_capacity(plan.page.len()),
            num_covered,
            is_loose: Vec::new(),
            bundles: plan.bundles.by_key()?,
            plan,
            config: Arc::clone(&config),
        };
        let num_uses = prepared.number_pages(num_batches, numbers);
        prepared.find_loose(&num_uses, &config, source);
        // The uses say it.
        (prepared.plan.page, prepared.plan.epoch) = (Vec::new(), Vec::new());
        prepared.plan.bundles = Bundles::default();
        Ok(prepared)
    }

    /// Memory it takes, the packing of its bundles left out.
    pub fn num_bytes(&self) -> usize {
        let narrow = [&self.uses, &self.use_offsets, &self.use_of_segment];
        let bundles = self.bundles.values().map(|bundle| bundle.num_bytes());
        self.plan.num_bytes()
            + narrow.map(vec_bytes).iter().sum::<usize>()
            + vec_bytes(&self.pages)
            + vec_bytes(&self.is_loose)
            + vec_bytes(&self.num_covered)
            + bundles.sum::<usize>()
    }

    pub fn num_batches(&self) -> usize {
        self.num_covered.len()
    }

    /// Pages that `batch` needs, as numbers into `pages`.
    pub fn uses(&self, batch: usize) -> &[u32] {
        &self.uses[self.use_offsets[batch] as usize..self.use_offsets[batch + 1] as usize]
    }

    /// Whether segments of a page, by its number in `pages`, are read alone.
    pub fn is_loose(&self, page: u32) -> bool {
        self.is_loose.get(page as usize).copied().unwrap_or(false)
    }

    /// Tokens that the segments of `batch` cover.
    pub fn num_covered(&self, batch: usize) -> usize {
        self.num_covered[batch] as usize
    }

    /// Cells of `batch` by destination.
    pub fn cells(&self, batch: usize, row_length: usize) -> impl Iterator<Item = Cell> {
        let plan = &self.plan;
        let uses = self.uses(batch);
        segment_range(plan, batch).filter_map(move |i| {
            let page_use = self.use_of_segment[i] as usize;
            Some(Cell {
                column: (plan.destination_offset[i] as usize).checked_sub(row_length)?,
                page_use,
                page: self.pages[uses[page_use] as usize].page,
                row: plan.row[i],
                destination: plan.destination_row[i],
            })
        })
    }

    /// Segments of tokens of `batch` by destination; they do not overlap.
    pub fn segments(&self, batch: usize, row_length: usize) -> impl Iterator<Item = Segment> {
        let plan = &self.plan;
        let uses = self.uses(batch);
        let is_token = move |&i: &usize| (plan.destination_offset[i] as usize) < row_length;
        segment_range(plan, batch).filter(is_token).map(move |i| {
            let page_use = self.use_of_segment[i] as usize;
            let start =
                plan.destination_row[i] as usize * row_length + plan.destination_offset[i] as usize;
            Segment {
                page_use,
                page: self.pages[uses[page_use] as usize].page,
                row: plan.row[i],
                first_token: plan.first_token[i],
                start,
                end: start + plan.num_tokens[i] as usize,
            }
        })
    }

    /// Chooses the pages whose segments are read without the page: those with few
    /// segments, or long ones.
    fn find_loose(&mut self, num_uses: &[u32], config: &EngineConfig, source: &dyn PageSource) {
        if config.row_length == 0 {
            return;
        }
        let is_long = |tokens: u64| tokens <= config.row_length as u64 * MOST_LOOSE;
        let is_loose = |(&PageKey { page, .. }, &uses): (&PageKey, &u32)| {
            !self.bundles.contains_key(&page)
                && source
                    .slice_tokens(page)
                    .is_some_and(|tokens| uses == 1 || is_long(tokens))
        };
        self.is_loose = self.pages.iter().zip(num_uses).map(is_loose).collect();
    }

    /// Assigns indexes to pages; returns the segments of each.
    fn number_pages(&mut self, num_batches: usize, numbers: &mut PageNumbers) -> Vec<u32> {
        numbers.clear();
        let mut num_uses: Vec<u32> = Vec::new();
        // Per page, the last batch that uses it and the number of that use.
        let mut latest: Vec<(usize, u32)> = Vec::new();
        self.use_offsets.push(0);
        for batch in 0..num_batches {
            let first_use = self.uses.len();
            for segment in segment_range(&self.plan, batch) {
                let epoch = self.plan.epoch.get(segment).copied().unwrap_or(0);
                let page = PageKey {
                    page: self.plan.page[segment],
                    epoch,
                };
                let number = *numbers.entry(page).or_insert_with(|| {
                    self.pages.push(page);
                    num_uses.push(0);
                    latest.push((usize::MAX, 0));
                    (self.pages.len() - 1) as u32
                });
                num_uses[number as usize] += 1;
                let (last_batch, page_use) = &mut latest[number as usize];
                if *last_batch != batch {
                    (*last_batch, *page_use) = (batch, (self.uses.len() - first_use) as u32);
                    self.uses.push(number);
                }
                self.use_of_segment.push(*page_use);
            }
            self.use_offsets.push(self.uses.len() as u32);
        }
        num_uses
    }
}

fn segment_range(plan: &Plan, batch: usize) -> Range<usize> {
    plan.batch_offsets[batch] as usize..plan.batch_offsets[batch + 1] as usize
}

fn check_lengths(plan: &Plan) -> Result<()> {
    let num_segments = plan.page.len();
    let num_epochs = match plan.epoch.len() {
        0 => num_segments,
        length => length,
    };
    for (name, length) in [
        ("epoch", num_epochs),
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

/// Checks that the segments of `batch` are inside it and do not overlap, sorts them by
/// destination, and returns the number of tokens they cover.
fn check_destinations(plan: &mut Plan, batch: usize, config: &EngineConfig) -> Result<u64> {
    let range = segment_range(plan, batch);
    let (num_rows, row_length) = (config.batch_rows as u64, config.row_length as u64);
    let row_width = config.row_width() as u64;
    let (mut outside, mut ordered, mut covered, mut end) = (None, true, 0, 0);
    for i in range.clone() {
        let (row, offset) = (plan.destination_row[i], plan.destination_offset[i]);
        let (offset, num_tokens) = (u64::from(offset), u64::from(plan.num_tokens[i]));
        let is_cell = offset >= row_length && num_tokens > 0;
        let most = if is_cell { offset + 1 } else { row_length };
        if u64::from(row) >= num_rows || offset + num_tokens > most.min(row_width) {
            outside = outside.or(Some(i));
        }
        let start = u64::from(row) * row_width + offset;
        ordered &= start >= end;
        end = start + num_tokens;
        covered += if is_cell { 0 } else { num_tokens };
    }
    if let Some(i) = outside {
        return Err(Error::invalid(format!(
            "segment {i} of the plan (batch {batch}) runs outside the batch of {num_rows} rows of \
             {row_length} tokens and {} cells: {} tokens at row {}, offset {}",
            config.columns.len(),
            plan.num_tokens[i],
            plan.destination_row[i],
            plan.destination_offset[i]
        )));
    }
    if !ordered {
        let order = order_by_destination(plan, batch, row_width)?;
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
        if !plan.epoch.is_empty() {
            permute(&mut plan.epoch, &order, range.start);
        }
    }
    Ok(covered)
}

/// Segments of `batch` sorted by destination, or the error for two that overlap.
fn order_by_destination(plan: &Plan, batch: usize, row_width: u64) -> Result<Vec<usize>> {
    let span = |i: usize| {
        let row = u64::from(plan.destination_row[i]);
        let start = row * row_width + u64::from(plan.destination_offset[i]);
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
