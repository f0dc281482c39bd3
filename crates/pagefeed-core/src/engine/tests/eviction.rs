//! What is given up for a page, and when.

use super::super::job::{BatchMemory, GatherJob, Job};
use super::*;

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
    fn num_pages(&self) -> u64 {
        self.0.len() as u64
    }

    fn decode(
        &self,
        _: &mut PageOpener,
        page: u64,
        _: &Fetched,
        _: Option<TokenPage>,
    ) -> Result<Page> {
        Ok(self.page(page))
    }

    fn entry(&self, page: u64) -> PageEntry {
        PageEntry::new(0, self.0[page as usize])
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
fn nothing_is_given_up_for_a_page_that_does_not_fit_even_so() {
    // 27 kB are for pages, beside plans. While the second is loaded the third does not
    // fit, whether the first is held for the last batch or not.
    let source = Sized(vec![8_000, 18_000, 12_000]);
    let config = config(1, 42_000, TokenType::I64);
    let mut state = State::new(config.clone());
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
                order.push(job.page);
                if job.page == 1 {
                    slow = Some(job);
                } else {
                    let page = source.page(job.page);
                    state.end_load(&job, Ok(page));
                }
            }
            Some(Job::Fetch(_)) => panic!("nothing is fetched apart"),
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
    fn num_pages(&self) -> u64 {
        self.pages.num_pages()
    }

    fn decode(
        &self,
        _: &mut PageOpener,
        page: u64,
        _: &Fetched,
        _: Option<TokenPage>,
    ) -> Result<Page> {
        self.kept.fetch_add(KEPT, Ordering::Relaxed);
        Ok(self.pages.page(page))
    }

    fn entry(&self, page: u64) -> PageEntry {
        self.pages.entry(page)
    }

    fn held_bytes(&self) -> usize {
        self.kept.load(Ordering::Relaxed).min(MOST_KEPT)
    }
}

#[test]
fn pages_make_room_for_what_the_source_keeps_of_them() {
    // Two pages fit beside what the first has left, and not beside what both have.
    let limit = 42_000;
    let source = Keeping {
        pages: Sized(vec![8_000; 3]),
        kept: AtomicUsize::new(0),
    };
    let config = config(1, limit, TokenType::I64);
    let mut state = State::new(config.clone());
    let mut numbers = PageNumbers::default();
    for page in [0, 1, 2, 0, 1, 2] {
        let plan = first_tokens(&[page]);
        let plan = PreparedPlan::new(plan, &config, &source, &mut numbers).unwrap();
        state.append(&Arc::new(plan), &source);
    }
    while state.num_pending() > 0 {
        match state.next_job(&source) {
            Some(Job::Load(job)) => {
                let mut opener = PageOpener::default();
                let page = source.decode(&mut opener, job.page, Fetched::NOTHING, None);
                state.end_load(&job, page);
            }
            Some(Job::Fetch(_)) => panic!("nothing is fetched apart"),
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
