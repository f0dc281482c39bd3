//! Invariants of the table whenever no thread changes it: for simulations.

use super::{BatchNumber, PageTable, Slot, State};

impl PageTable {
    /// Checks the table; returns what is inconsistent.
    pub fn audit(&self) -> Result<(), String> {
        if self.slots.len() + self.free.len() != self.entries.len() {
            return Err("slots are neither free nor used, or both".to_string());
        }
        for (&page, &slot) in &self.slots {
            if self.page(slot) != page {
                return Err(format!(
                    "slot {slot} has page {:?}, not {page:?}",
                    self.page(slot)
                ));
            }
            let entry = &self.entries[slot as usize];
            if entry.uses.is_empty() {
                return Err(format!("page {page:?} is kept without a use"));
            }
            if !entry.uses.iter().is_sorted() {
                return Err(format!("uses of page {page:?} are in disorder"));
            }
            let record = &self.records[slot as usize];
            if let State::Held(held) = &entry.content
                && record.bytes < held.num_bytes()
            {
                return Err(format!("page {page:?} takes more than is counted"));
            }
        }
        let is_clean = |&slot: &Slot| {
            let entry = &self.entries[slot as usize];
            matches!(entry.content, State::Absent) && entry.uses.is_empty()
        };
        if !self.free.iter().all(is_clean) {
            return Err("a free slot has a page".to_string());
        }
        let uses = self.entries.iter().map(|entry| entry.uses.len());
        if uses.sum::<usize>() != self.num_uses {
            return Err("uses are counted wrongly".to_string());
        }
        let room = self.entries.iter().map(|entry| entry.uses.capacity());
        if room.sum::<usize>() != self.room_for_uses {
            return Err("room for uses is counted wrongly".to_string());
        }
        Ok(())
    }

    /// Number of pages that are neither in memory nor to be loaded in time; failed ones
    /// are not tried again.
    pub fn num_lost(&self) -> usize {
        let next = self
            .next_load()
            .map_or(BatchNumber::MAX, |(batch, _)| batch);
        let is_lost = |&&slot: &&Slot| {
            let number = self.records[slot as usize].number;
            let is_absent = matches!(self.entries[slot as usize].content, State::Absent);
            let is_queued = self.again.contains(&(self.next_use(slot), slot))
                || self.fresh.contains(&(slot, number));
            is_absent && (!is_queued || self.next_use(slot) < next)
        };
        self.slots.values().filter(is_lost).count()
    }

    /// Bytes counted for pages in memory.
    pub fn held_bytes(&self) -> usize {
        let slots = (0..self.entries.len()).filter(|&slot| self.is_held(slot as Slot));
        slots.map(|slot| self.records[slot].bytes).sum()
    }

    pub fn num_loading(&self) -> usize {
        let contents = self.entries.iter().map(|entry| &entry.content);
        contents
            .filter(|content| matches!(content, State::Loading))
            .count()
    }

    pub fn is_used(&self, slot: Slot, batch: BatchNumber) -> bool {
        self.entries[slot as usize].uses.contains(&batch)
    }

    pub fn num_uses(&self) -> usize {
        self.num_uses
    }

    pub fn num_readers(&self) -> u32 {
        self.entries.iter().map(|entry| entry.num_readers).sum()
    }
}
