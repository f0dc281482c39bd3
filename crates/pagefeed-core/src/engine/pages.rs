//! The pages that submitted batches still need: which are held, which must be
//! loaded, in what order, and which can be spared longest.

#[cfg(feature = "simulate")]
#[path = "../../tests/simulate/audits/pages.rs"]
mod audit;

use std::collections::{BTreeSet, BinaryHeap, HashMap, VecDeque};
use std::sync::Arc;

use super::bundle::Bundle;
use super::page_key::{PageHasher, PageKey};
use super::{Page, PageEntry, PageSource};
use crate::prefetch::fetch;

/// Number of a batch, counted from 1 over the life of the engine.
pub(super) type BatchNumber = u64;

/// Place of a page in the table.
pub(super) type Slot = u32;

/// Pages whose entries are prefetched into the cache together.
pub(super) const FETCHED_AT_ONCE: usize = 64;

/// Pages that are looked at together at least, to see how many a batch needs.
const SHORTEST_STRETCH: usize = 16;

/// A free slot keeps room for as many uses, for the next page that gets it. A page of 64
/// KiB is used some 17 times in sequences of 2,048 tokens, and a vector grows to 32 for
/// these. When it grew again for each page, that took a quarter of the time of `submit`.
const FEW_USES: usize = 32;

#[derive(Debug, Default)]
enum State {
    /// To be loaded, or failed to.
    #[default]
    Absent,
    /// The page is being read or decoded, or was fetched and waits to be decoded.
    Loading,
    Held(Arc<Page>),
}

/// Facts that every use of a page needs, in one cache line: a batch of short sequences
/// uses thousands of pages under the lock.
#[derive(Debug, Default)]
#[repr(align(64))]
struct Entry {
    content: State,
    /// Batches that still need the page, ascending.
    uses: VecDeque<BatchNumber>,
    /// Gathers reading the page right now.
    num_readers: u32,
    was_evicted: bool,
}

/// Facts that are needed when a page comes or goes.
#[derive(Debug)]
struct Record {
    page: PageKey,
    /// Number of pages entered before it: a slot may get the same page again.
    number: u64,
    /// The bundle, if `page` is the key of one.
    bundle: Option<Arc<Bundle>>,
    sizes: PageEntry,
    /// Bytes counted against the budget.
    bytes: usize,
}

/// A page in memory that no plan needs.
pub(super) struct KeptPage {
    pub page: Arc<Page>,
    /// The bundle that it is, unless it is a page: it knows how it was packed.
    pub bundle: Option<Arc<Bundle>>,
    /// Bytes counted against the budget.
    pub bytes: usize,
}

#[derive(Debug, Default)]
pub(super) struct PageTable {
    slots: HashMap<PageKey, Slot, PageHasher>,
    entries: Vec<Entry>,
    /// Per slot.
    records: Vec<Record>,
    free: Vec<Slot>,
    /// Pages that can be evicted, by next use. Entries that are outdated or repeated
    /// are dropped when they reach the top.
    evictable: BinaryHeap<(BatchNumber, Slot)>,
    /// Whether `evictable` has all of these pages: only once memory is short.
    tracks_evictable: bool,
    /// Pages never loaded, by slot and number, in plan order; those after the first may
    /// have been loaded since.
    fresh: VecDeque<(Slot, u64)>,
    /// Pages entered so far.
    num_entered: u64,
    /// Number of pages at the front of `fresh` that were announced to the source.
    num_advised: usize,
    /// Pages to be loaded again, by next use.
    again: BTreeSet<(BatchNumber, Slot)>,
    /// Uses of all pages.
    num_uses: usize,
    /// Uses that all entries have room for.
    room_for_uses: usize,
}

impl PageTable {
    /// Memory the table takes, the pages left out; about, as queues grow by doubling.
    pub fn num_bytes(&self) -> usize {
        let per_entry = size_of::<Entry>() + size_of::<Record>();
        let per_slot = size_of::<(PageKey, Slot)>() + 1;
        self.entries.capacity() * per_entry
            + self.slots.capacity() * per_slot
            + self.free.capacity() * size_of::<Slot>()
            + self.evictable.capacity() * size_of::<(BatchNumber, Slot)>()
            + self.fresh.capacity() * size_of::<(Slot, u64)>()
            + self.room_for_uses * size_of::<BatchNumber>()
    }

    /// The slot of `page`, a new one if need be. A new one must get a use.
    pub fn enter(
        &mut self,
        page: PageKey,
        bundle: Option<&Arc<Bundle>>,
        source: &dyn PageSource,
    ) -> Slot {
        if let Some(&slot) = self.slots.get(&page) {
            return slot;
        }
        let sizes = match bundle {
            Some(bundle) => bundle.entry(source),
            None => source.entry(page.page).unwrap_or_default(),
        };
        let number = self.num_entered;
        self.num_entered += 1;
        let record = Record {
            page,
            number,
            bundle: bundle.cloned(),
            sizes,
            bytes: 0,
        };
        let slot = match self.free.pop() {
            Some(slot) => {
                self.entries[slot as usize].was_evicted = false;
                self.records[slot as usize] = record;
                slot
            }
            None => {
                self.records.push(record);
                self.entries.push(Entry::default());
                (self.entries.len() - 1) as Slot
            }
        };
        self.slots.insert(page, slot);
        self.fresh.push_back((slot, number));
        slot
    }

    /// Adds a use by a later batch; returns whether the page is in memory.
    pub fn add_use(&mut self, slot: Slot, batch: BatchNumber) -> bool {
        let entry = &mut self.entries[slot as usize];
        let room_before = entry.uses.capacity();
        entry.uses.push_back(batch);
        self.room_for_uses += entry.uses.capacity() - room_before;
        self.num_uses += 1;
        self.is_held(slot)
    }

    pub fn page(&self, slot: Slot) -> PageKey {
        self.records[slot as usize].page
    }

    /// Whether the page of a slot is in memory.
    pub fn is_held(&self, slot: Slot) -> bool {
        matches!(self.entries[slot as usize].content, State::Held(_))
    }

    /// Facts from the source about the page of a slot.
    pub fn entry(&self, slot: Slot) -> &PageEntry {
        &self.records[slot as usize].sizes
    }

    /// The bundle whose key is the page of a slot, if any.
    pub fn bundle(&self, slot: Slot) -> Option<&Arc<Bundle>> {
        self.records[slot as usize].bundle.as_ref()
    }

    /// Number of the pages never loaded that must be loaded with each batch, from
    /// `head` on, so that all are there in time: as many as the steepest stretch asks for.
    pub fn fresh_per_batch(&self, head: BatchNumber) -> f32 {
        let lengths = std::iter::successors(Some(SHORTEST_STRETCH), |length| Some(2 * length));
        let stretches = lengths.map_while(|length| Some((length, self.fresh.get(length - 1)?.0)));
        let last = self.fresh.back().map(|&(slot, _)| (self.fresh.len(), slot));
        stretches.chain(last).fold(0.0, |most, (length, slot)| {
            let num_batches = self.next_use(slot).saturating_sub(head) + 1;
            f32::max(most, length as f32 / num_batches as f32)
        })
    }

    /// The absent page that is needed first, and by which batch.
    pub fn next_load(&self) -> Option<(BatchNumber, Slot)> {
        let fresh = self.fresh.front();
        let fresh = fresh.map(|&(slot, _)| (self.next_use(slot), slot));
        match (self.again.first().copied(), fresh) {
            (Some(again), Some(fresh)) => Some(again.min(fresh)),
            (again, fresh) => again.or(fresh),
        }
    }

    /// The first batch that still needs a page.
    pub fn next_use(&self, slot: Slot) -> BatchNumber {
        self.entries[slot as usize]
            .uses
            .front()
            .copied()
            .unwrap_or(BatchNumber::MAX)
    }

    /// Returns the page after `page`, if it must be loaded.
    pub fn absent_after(&self, page: PageKey) -> Option<Slot> {
        let next = PageKey {
            page: page.page.checked_add(1)?,
            ..page
        };
        let slot = *self.slots.get(&next)?;
        let is_absent = matches!(self.entries[slot as usize].content, State::Absent);
        is_absent.then_some(slot)
    }

    /// Takes a page to load off its queue; returns whether it was loaded before.
    pub fn begin_load(&mut self, slot: Slot) -> bool {
        self.again.remove(&(self.next_use(slot), slot));
        let entry = &mut self.entries[slot as usize];
        entry.content = State::Loading;
        let was_evicted = entry.was_evicted;
        while let Some(&(slot, number)) = self.fresh.front()
            && !self.is_fresh(slot, number)
        {
            self.fresh.pop_front();
            self.num_advised = self.num_advised.saturating_sub(1);
        }
        was_evicted
    }

    /// Whether the slot still has this page, and it was never loaded.
    fn is_fresh(&self, slot: Slot, number: u64) -> bool {
        let entry = &self.entries[slot as usize];
        let is_absent = matches!(entry.content, State::Absent);
        let is_same = self.records[slot as usize].number == number;
        is_absent && !entry.was_evicted && is_same && !entry.uses.is_empty()
    }

    /// Returns the next page to announce to the source, if fewer than `distance` pages
    /// come before it.
    pub fn advise(&mut self, distance: usize) -> Option<u64> {
        if self.num_advised >= distance {
            return None;
        }
        let (slot, _) = *self.fresh.get(self.num_advised)?;
        self.num_advised += 1;
        Some(self.page(slot).page)
    }

    /// Stores a loaded page; returns the batches that were waiting for it.
    pub fn loaded(&mut self, slot: Slot, page: Page, bytes: usize) -> &VecDeque<BatchNumber> {
        self.entries[slot as usize].content = State::Held(Arc::new(page));
        self.records[slot as usize].bytes = bytes;
        self.track_evictable(slot);
        &self.entries[slot as usize].uses
    }

    /// Leaves a page that could not be loaded unloaded; returns the first batch
    /// that needs it.
    pub fn failed(&mut self, slot: Slot) -> BatchNumber {
        self.entries[slot as usize].content = State::Absent;
        self.next_use(slot)
    }

    /// Prefetches the entries of slots into the cache: [`FETCHED_AT_ONCE`] at most,
    /// since more would evict each other.
    pub fn fetch(&self, slots: &[Slot]) {
        for &slot in slots {
            fetch(self.entries.as_ptr().wrapping_add(slot as usize));
        }
        for &slot in slots {
            let entry = self.entries.get(slot as usize);
            if let Some(next) = entry.and_then(|entry| entry.uses.front()) {
                fetch(next);
            }
        }
    }

    /// Prefetches what a gather reads of pages in memory.
    pub fn fetch_held(&self, slots: &[Slot]) {
        for &slot in slots {
            let content = self.entries.get(slot as usize).map(|entry| &entry.content);
            if let Some(State::Held(page)) = content {
                // Its counts lie before the page, which lies in up to three lines.
                let counts = Arc::as_ptr(page).cast::<usize>().wrapping_sub(2);
                (0..3).for_each(|line| fetch(counts.wrapping_add(8 * line)));
            }
        }
    }

    /// Borrows a page in memory for a gather; [`PageTable::unpin`] must follow.
    pub fn pin(&mut self, slot: Slot) -> Option<Arc<Page>> {
        let entry = &mut self.entries[slot as usize];
        let State::Held(page) = &entry.content else {
            return None;
        };
        entry.num_readers += 1;
        Some(Arc::clone(page))
    }

    /// Ends a gather's use of a page; returns the page if that was its last use.
    pub fn unpin(&mut self, slot: Slot, batch: BatchNumber) -> Option<(Arc<Page>, usize)> {
        let entry = &mut self.entries[slot as usize];
        entry.num_readers -= 1;
        if let Some(position) = entry.uses.iter().position(|&by| by == batch) {
            entry.uses.remove(position);
            self.num_uses -= 1;
        }
        if !entry.uses.is_empty() {
            if entry.num_readers == 0 {
                self.track_evictable(slot);
            }
            return None;
        }
        let record = &mut self.records[slot as usize];
        self.slots.remove(&record.page);
        self.free.push(slot);
        record.bundle = None;
        self.room_for_uses -= entry.uses.capacity();
        entry.uses.shrink_to(FEW_USES);
        self.room_for_uses += entry.uses.capacity();
        self.take(slot)
    }

    /// Takes out a page in memory, and its bytes.
    fn take(&mut self, slot: Slot) -> Option<(Arc<Page>, usize)> {
        match std::mem::take(&mut self.entries[slot as usize].content) {
            State::Held(page) => Some((page, self.records[slot as usize].bytes)),
            _ => None,
        }
    }

    /// The next use of a page that can be evicted.
    fn evictable_until(&self, slot: Slot) -> Option<BatchNumber> {
        let entry = &self.entries[slot as usize];
        let is_evictable = matches!(entry.content, State::Held(_)) && entry.num_readers == 0;
        entry.uses.front().copied().filter(|_| is_evictable)
    }

    /// Notes that a page can be evicted from now on.
    fn track_evictable(&mut self, slot: Slot) {
        if self.evictable.len() > 2 * self.entries.len() {
            self.evictable.clear(); // Most of them no longer can.
            self.tracks_evictable = false;
        }
        if self.tracks_evictable {
            self.evictable.push((self.next_use(slot), slot));
        }
    }

    /// Returns the page in memory whose next use is latest, if that is after `batch`.
    pub fn farthest_after(&mut self, batch: BatchNumber) -> Option<Slot> {
        if !self.tracks_evictable {
            let slots = 0..self.entries.len() as Slot;
            let all = slots.filter_map(|slot| Some((self.evictable_until(slot)?, slot)));
            self.evictable = all.collect();
            self.tracks_evictable = true;
        }
        while let Some(&(next_use, slot)) = self.evictable.peek() {
            if self.evictable_until(slot) == Some(next_use) {
                return (next_use > batch).then_some(slot);
            }
            self.evictable.pop();
        }
        None
    }

    /// Whether dropping pages that are needed only after `batch`, the latest first,
    /// would free enough bytes.
    pub fn can_free(&mut self, batch: BatchNumber, is_enough: impl Fn(usize) -> bool) -> bool {
        let (mut bytes, mut taken) = (0, Vec::new());
        while !is_enough(bytes)
            && let Some(slot) = self.farthest_after(batch)
        {
            let entry = self.evictable.pop();
            while self.evictable.peek() == entry.as_ref() {
                self.evictable.pop();
            }
            taken.extend(entry);
            bytes += self.records[slot as usize].bytes;
        }
        self.evictable.extend(taken);
        is_enough(bytes)
    }

    /// Drops a page from memory, though it will be needed again.
    pub fn evict(&mut self, slot: Slot) -> Option<(Arc<Page>, usize)> {
        self.again.insert((self.next_use(slot), slot));
        self.entries[slot as usize].was_evicted = true;
        self.take(slot)
    }

    /// Batches that still need the page.
    pub fn uses(&self, slot: Slot) -> impl Iterator<Item = BatchNumber> {
        self.entries[slot as usize].uses.iter().copied()
    }

    /// Returns all pages in memory, with their numbers.
    pub fn into_held(self) -> impl Iterator<Item = (PageKey, KeptPage)> {
        let both = self.entries.into_iter().zip(self.records);
        both.filter_map(|(entry, record)| match entry.content {
            State::Held(page) => Some((
                record.page,
                KeptPage {
                    page,
                    bundle: record.bundle,
                    bytes: record.bytes,
                },
            )),
            _ => None,
        })
    }

    /// Holds a page that was kept. It was just entered into its slot.
    pub fn restore(&mut self, slot: Slot, kept: KeptPage) {
        self.fresh.pop_back();
        self.entries[slot as usize].content = State::Held(kept.page);
        let record = &mut self.records[slot as usize];
        (record.bundle, record.bytes) = (kept.bundle, kept.bytes);
        self.evictable.clear(); // Its uses are not known yet.
        self.tracks_evictable = false;
    }

    /// Takes a page off the queue of loads, since it is in memory already; returns its slot.
    /// `bundle` is the loaded one, which knows how it is packed.
    pub fn adopt(&mut self, page: PageKey, bundle: Option<&Arc<Bundle>>) -> Option<Slot> {
        let slot = *self.slots.get(&page)?;
        if !matches!(self.entries[slot as usize].content, State::Absent) {
            return None;
        }
        self.begin_load(slot);
        self.records[slot as usize].bundle = bundle.cloned();
        Some(slot)
    }

    /// Whether some plan needs a page.
    pub fn has(&self, page: PageKey) -> bool {
        self.slots.contains_key(&page)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::{Loading, PageSource};
    use crate::error::{Error, Result};
    use crate::tokens::TokenPage;

    struct Nothing;

    impl PageSource for Nothing {
        fn entry(&self, _: u64) -> Result<PageEntry> {
            Ok(PageEntry::default())
        }

        fn decode(&self, _: u64, _: Loading<'_>) -> Result<Page> {
            Err(Error::invalid("there are no pages"))
        }
    }

    #[test]
    fn a_page_that_comes_again_waits_for_its_turn() {
        let mut table = PageTable::default();
        let enter = |table: &mut PageTable, page, batch| {
            let slot = table.enter(PageKey { page, epoch: 0 }, None, &Nothing);
            table.add_use(slot, batch);
            slot
        };
        enter(&mut table, 10, 1);
        let early = enter(&mut table, 11, 2);
        let next = enter(&mut table, 12, 4);
        // Fetched along with others, used, and entered again into the slot it had.
        table.begin_load(early);
        table.loaded(early, Page::Tokens(TokenPage::default()), 0);
        table.pin(early);
        table.unpin(early, 2);
        assert_eq!(enter(&mut table, 11, 5), early);
        let first = table.next_load().map(|(_, slot)| slot);
        table.begin_load(first.unwrap());
        assert_eq!(table.next_load(), Some((4, next)));
    }

    #[test]
    fn neighbours_are_of_the_same_epoch() {
        let mut table = PageTable::default();
        let mut enter = |page, epoch| {
            let slot = table.enter(PageKey { page, epoch }, None, &Nothing);
            table.add_use(slot, 1);
            slot
        };
        let next: Vec<Slot> = [0, 1].map(|epoch| enter(11, epoch)).into();
        for (epoch, slot) in (0..).zip(next) {
            assert_eq!(table.absent_after(PageKey { page: 10, epoch }), Some(slot));
        }
    }
}
