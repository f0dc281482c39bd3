//! Batches to be made of pages, and what they must hold.

use std::ops::Range;

use pagefeed_core::engine::{Bundles, Plan, TokenType};
use pagefeed_core::sync::simulated::Random;

use crate::pages::{num_tokens, row_offsets, token};

/// Keys from here on are those of bundles.
const BUNDLES: u64 = 1 << 40;
pub const PADDING: i64 = 65535;

/// A range of tokens of a page, or of a bundle.
#[derive(Clone, Copy, Debug)]
struct Segment {
    page: u64,
    row: u32,
    first_token: u32,
    num_tokens: u32,
    to_row: u32,
    to_offset: u32,
}

/// All batches of a run.
pub struct Course {
    pub rows: usize,
    pub length: usize,
    batches: Vec<Vec<Segment>>,
    /// Tokens that each must hold.
    pub expected: Vec<Vec<i64>>,
    pub has_bundles: bool,
    /// Pages of a bundle.
    bundle_pages: u64,
}

/// Order in which a run uses the pages.
#[derive(Clone, Copy)]
enum Reading {
    Anywhere,
    InOrder,
    Window,
}

impl Course {
    pub fn draw(random: &mut Random) -> Self {
        let mut course = Self {
            rows: random.within(1..=4) as usize,
            length: random.of(&[6, 16, 33]) as usize,
            batches: Vec::new(),
            expected: Vec::new(),
            has_bundles: random.one_in(4),
            bundle_pages: random.within(1..=3),
        };
        let num_pages = random.within(1..=40);
        let reading = random.of(&[Reading::Anywhere, Reading::InOrder, Reading::Window]);
        let num_batches = random.within(1..=24);
        let mut front = 0;
        for _ in 0..num_batches {
            let mut segments = Vec::new();
            let mut expected = vec![PADDING; course.rows * course.length];
            for row in 0..course.rows {
                let mut offset = random.below(3);
                while offset < course.length as u64 && random.below(8) > 0 {
                    front += u64::from(random.one_in(4));
                    let page = match reading {
                        Reading::Anywhere => random.below(num_pages),
                        Reading::InOrder => front % num_pages,
                        Reading::Window => (front + random.below(6)) % num_pages,
                    };
                    let key = if course.has_bundles && random.one_in(3) {
                        BUNDLES + page
                    } else {
                        page
                    };
                    let segment = course.segment(random, key, row, offset);
                    let at = row * course.length + offset as usize;
                    course.fill(&segment, &mut expected[at..]);
                    segments.push(segment);
                    offset += u64::from(segment.num_tokens) + random.below(2) * random.below(5);
                }
            }
            if random.one_in(2) {
                segments.reverse();
            }
            course.batches.push(segments);
            course.expected.push(expected);
        }
        course
    }

    /// A segment of a page that fits into its place.
    fn segment(&self, random: &mut Random, page: u64, row: usize, offset: u64) -> Segment {
        let total: u64 = self.pages_of(page).map(num_tokens).sum();
        let room = (self.length as u64 - offset).min(total);
        let count = random.below(room) + 1;
        let start = random.below(total - count + 1);
        // A token may be named by a row before its own.
        let second = u64::from(row_offsets(self.pages_of(page).start)[1]);
        let from_row = start >= second && random.one_in(2);
        Segment {
            page,
            row: u32::from(from_row),
            first_token: (start - if from_row { second } else { 0 }) as u32,
            num_tokens: count as u32,
            to_row: row as u32,
            to_offset: offset as u32,
        }
    }

    fn fill(&self, segment: &Segment, into: &mut [i64]) {
        let first = self.pages_of(segment.page).start;
        let start = row_offsets(first)[segment.row as usize] + segment.first_token;
        let all = self
            .pages_of(segment.page)
            .flat_map(|page| (0..num_tokens(page)).map(move |position| token(page, position)));
        let all = all.skip(start as usize).take(segment.num_tokens as usize);
        for (place, token) in into.iter_mut().zip(all) {
            *place = i64::from(token);
        }
    }

    /// The pages that a key stands for.
    fn pages_of(&self, key: u64) -> Range<u64> {
        match key.checked_sub(BUNDLES) {
            None => key..key + 1,
            Some(first) => first..first + self.bundle_pages,
        }
    }

    /// Whether a batch needs a page.
    pub fn needs(&self, batch: usize, page: u64) -> bool {
        let mut segments = self.batches[batch].iter();
        segments.any(|segment| self.pages_of(segment.page).contains(&page))
    }

    /// Pages of some batches.
    pub fn pages(&self, batches: Range<usize>) -> Vec<u64> {
        let segments = self.batches[batches].iter().flatten();
        let mut pages: Vec<u64> = segments
            .flat_map(|segment| self.pages_of(segment.page))
            .collect();
        pages.sort_unstable();
        pages.dedup();
        pages
    }

    /// The plan of some batches.
    pub fn plan(&self, batches: Range<usize>) -> Plan {
        let mut plan = Plan {
            batch_offsets: vec![0],
            ..Plan::default()
        };
        for segments in &self.batches[batches] {
            for segment in segments {
                plan.page.push(segment.page);
                plan.row.push(segment.row);
                plan.first_token.push(segment.first_token);
                plan.num_tokens.push(segment.num_tokens);
                plan.destination_row.push(segment.to_row);
                plan.destination_offset.push(segment.to_offset);
            }
            plan.batch_offsets.push(plan.page.len() as u32);
        }
        plan.bundles = self.bundles(&plan.page);
        plan
    }

    fn bundles(&self, pages: &[u64]) -> Bundles {
        let mut keys: Vec<u64> = pages
            .iter()
            .copied()
            .filter(|&key| key >= BUNDLES)
            .collect();
        keys.sort_unstable();
        keys.dedup();
        let mut bundles = Bundles::default();
        if keys.is_empty() {
            return bundles;
        }
        bundles.slice_offsets.push(0);
        for &key in &keys {
            for page in self.pages_of(key) {
                bundles.slice_page.push(page);
                bundles.slice_row.push(0);
                bundles.slice_rows.push(3);
            }
            bundles.slice_offsets.push(bundles.slice_page.len() as u32);
        }
        bundles.num_sequences = vec![0; keys.len()];
        bundles.key = keys;
        bundles
    }
}

/// Tokens as they lie in a batch.
pub fn values(bytes: &[u8], token_type: TokenType) -> Vec<i64> {
    let chunks = bytes.chunks_exact(token_type.num_bytes());
    chunks
        .map(|bytes| match token_type {
            TokenType::I64 => i64::from_ne_bytes(bytes.try_into().unwrap_or_default()),
            TokenType::I32 => i32::from_ne_bytes(bytes.try_into().unwrap_or_default()).into(),
            TokenType::U16 => u16::from_ne_bytes(bytes.try_into().unwrap_or_default()).into(),
        })
        .collect()
}
