//! Memory that is given up for a page.

use std::collections::{BTreeMap, VecDeque};

use super::super::job::{BatchMemory, GatherJob, Job};
use super::super::page_key::PageKey;
use super::super::pages::{BatchNumber, PageTable, Slot};
use super::*;
use crate::fields::Sections;
use crate::page::PageOpener;

/// Pages of fixed sizes.
struct Sized(Vec<usize>);

impl Sized {
    fn page(&self, page: u64) -> Page {
        Page::Tokens(TokenPage {
            tokens: Tokens::U16(vec![0; self.0[page as usize] / 2]),
            row_offsets: vec![0, 10],
            ..TokenPage::default()
        })
    }
}

impl PageSource for Sized {
    fn decode(&self, page: u64, _: Loading<'_>) -> Result<Page> {
        Ok(self.page(page))
    }

    fn entry(&self, page: u64) -> Result<PageEntry> {
        Ok(PageEntry::new(0, self.0[page as usize]))
    }
}

fn gather(state: &mut State, mut job: GatherJob, config: &EngineConfig) {
    if let BatchMemory::Wanted(count) = job.memory {
        let buffer = || Buffer::new(&config.sections()).unwrap();
        job.spare_buffers = (1..count).map(|_| buffer()).collect();
        job.memory = BatchMemory::Ready(buffer());
    }
    state.end_gather(job, Ok(()));
}

#[test]
fn memory_that_one_long_batch_needs_is_not_kept() {
    let source = Sized(vec![8_000]);
    let config = Arc::new(config(1, 42_000, TokenType::I64));
    for (num_tokens, num_dropped) in [(1 << 16, 0), (1 << 20, 1)] {
        let mut state = State::new(Arc::clone(&config), false);
        let mut numbers = PageNumbers::default();
        let plan = first_tokens(&[0]);
        let plan = PreparedPlan::new(plan, &config, &source, &mut numbers).unwrap();
        state.append(&Arc::new(plan), &source);
        let mut taken = None;
        while taken.is_none() {
            match state.next_job(&source) {
                Some(Job::Load(job)) => state.end_load(&job, Ok(source.page(0))),
                Some(Job::Gather(job)) => gather(&mut state, job, &config),
                _ => taken = state.take_head().unwrap(),
            }
        }
        let mut buffer = taken.unwrap();
        let longer = Sections::new(&Fields::default(), num_tokens, 8);
        buffer.reshape(longer).unwrap();
        state.take_back(buffer);
        assert_eq!(state.take_garbage().buffers.len(), num_dropped);
    }
}

#[test]
fn nothing_is_given_up_for_a_page_that_does_not_fit_even_so() {
    // 27 kB are for pages, the rest for plans. While the second is loaded the third does not
    // fit, whether the first is held for the last batch or not.
    let source = Sized(vec![8_000, 18_000, 12_000]);
    let config = Arc::new(config(1, 42_000, TokenType::I64));
    let mut state = State::new(Arc::clone(&config), false);
    let mut numbers = PageNumbers::default();
    for page in [0, 1, 2, 0] {
        let plan = first_tokens(&[page]);
        let plan = PreparedPlan::new(plan, &config, &source, &mut numbers).unwrap();
        state.append(&Arc::new(plan), &source);
    }
    let (mut slow, mut order) = (None, Vec::new());
    for _ in 0..100 {
        match state.next_job(&source) {
            Some(Job::Load(job)) => {
                order.push(job.page.page);
                if job.page.page == 1 {
                    slow = Some(job);
                } else {
                    let page = source.page(job.page.page);
                    state.end_load(&job, Ok(page));
                }
            }
            Some(Job::Gather(job)) => gather(&mut state, job, &config),
            None => match slow.take() {
                Some(job) => state.end_load(&job, Ok(source.page(1))),
                None => drop(
                    state
                        .take_head()
                        .unwrap()
                        .map(|buffer| state.take_back(buffer)),
                ),
            },
        }
    }
    assert_eq!(state.num_pending(), 0);
    assert_eq!(order, [0, 1, 2]);
    assert_eq!(state.stats().pages_reloaded, 0);
}

/// The same pages, of which the first loads leave something that is kept.
struct Keeping {
    pages: Sized,
    kept: AtomicUsize,
}

const KEPT: usize = 6_000;
const MOST_KEPT: usize = 2 * KEPT;

impl PageSource for Keeping {
    fn decode(&self, page: u64, _: Loading<'_>) -> Result<Page> {
        self.kept.fetch_add(KEPT, Ordering::Relaxed);
        Ok(self.pages.page(page))
    }

    fn entry(&self, page: u64) -> Result<PageEntry> {
        self.pages.entry(page)
    }

    fn held_bytes(&self) -> usize {
        self.kept.load(Ordering::Relaxed).min(MOST_KEPT)
    }
}

#[test]
fn pages_make_room_for_what_the_source_keeps_of_them() {
    // Two pages fit with the bytes that the first has left, and not with those of both.
    let limit = 42_000;
    let source = Keeping {
        pages: Sized(vec![8_000; 3]),
        kept: AtomicUsize::new(0),
    };
    let config = Arc::new(config(1, limit, TokenType::I64));
    let mut state = State::new(Arc::clone(&config), false);
    let mut numbers = PageNumbers::default();
    for page in [0, 1, 2, 0, 1, 2] {
        let plan = first_tokens(&[page]);
        let plan = PreparedPlan::new(plan, &config, &source, &mut numbers).unwrap();
        state.append(&Arc::new(plan), &source);
    }
    while state.num_pending() > 0 {
        match state.next_job(&source) {
            Some(Job::Load(job)) => {
                let loading = Loading {
                    opener: &mut PageOpener::default(),
                    fetched: Fetched::NOTHING,
                    epoch: 0,
                };
                let page = source.decode(job.page.page, loading);
                state.end_load(&job, page);
            }
            Some(Job::Gather(job)) => gather(&mut state, job, &config),
            None => drop(
                state
                    .take_head()
                    .unwrap()
                    .map(|buffer| state.take_back(buffer)),
            ),
        }
        let peak = state.stats().peak_bytes as usize;
        assert!(peak <= limit, "{:?}", state.stats());
    }
    assert!(state.stats().pages_reloaded > 0);
}

/// A page as a search of all of them sees it.
#[derive(Default)]
struct Known {
    uses: VecDeque<BatchNumber>,
    is_held: bool,
    reader: Option<BatchNumber>,
}

impl Known {
    fn evictable_until(&self) -> BatchNumber {
        match self.is_held && self.reader.is_none() {
            true => self.uses.front().copied().unwrap_or(0),
            false => 0,
        }
    }
}

#[test]
fn what_can_be_given_up_is_what_a_search_of_all_pages_finds() {
    let source = Sized(vec![200; 40]);
    let (mut random, mut table) = (Random(5), PageTable::default());
    let mut known: BTreeMap<Slot, Known> = BTreeMap::new();
    let mut num_evicted = 0;
    for batch in 1..4000 {
        for _ in 0..3 {
            let (page, epoch) = (random.below(40), 0);
            let slot = table.enter(PageKey { page, epoch }, None, &source);
            let page = known.entry(slot).or_default();
            if page.uses.back() == Some(&batch) {
                continue;
            }
            assert_eq!(table.add_use(slot, batch), page.is_held);
            page.uses.push_back(batch);
        }
        for _ in 0..5 {
            let number = random.below(known.len() as u64) as usize;
            let Some((&slot, page)) = known.iter_mut().nth(number) else {
                continue;
            };
            match page.reader.take() {
                Some(by) => {
                    table.unpin(slot, by);
                    page.uses.retain(|&each| each != by);
                    if page.uses.is_empty() {
                        known.remove(&slot);
                    }
                }
                None if page.is_held => {
                    // One of them may be gathered before an earlier one.
                    let which = random.below(page.uses.len().min(2) as u64) as usize;
                    page.reader = Some(page.uses[which]);
                    assert!(table.pin(slot).is_some());
                }
                None => {
                    table.begin_load(slot);
                    table.loaded(slot, source.page(0), 10 + slot as usize);
                    page.is_held = true;
                }
            }
        }
        if batch % 500 < 100 {
            continue; // For as long memory is not short, and no thread asks.
        }
        let after = batch.saturating_sub(random.below(60));
        let later = |page: &&Known| page.evictable_until() > after;
        let expected = known
            .values()
            .filter(later)
            .map(Known::evictable_until)
            .max();
        let found = table.farthest_after(after);
        assert_eq!(found.map(|slot| table.next_use(slot)), expected);
        let bytes =
            |(&slot, page): (&Slot, &Known)| (10 + slot as usize) * usize::from(later(&page));
        let all: usize = known.iter().map(bytes).sum();
        assert!(table.can_free(after, |freed| freed >= all));
        assert!(!table.can_free(after, |freed| freed > all));
        if let Some(slot) = found.filter(|_| random.below(3) == 0) {
            assert!(table.evict(slot).is_some());
            if let Some(page) = known.get_mut(&slot) {
                page.is_held = false;
            }
            num_evicted += 1;
        }
    }
    assert!(num_evicted > 100, "{num_evicted}");
}
