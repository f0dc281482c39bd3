//! Pages that the consumer waits for.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::pending::{DONE, Phase};
use super::{PageKey, State};
use crate::engine::bundle::Bundle;

impl State {
    /// Pages that the batch at the head waits for. If none is missing they are all of its
    /// pages: then it is being written, or reads slices of them.
    pub fn awaited(&self) -> Vec<u64> {
        let head = self.batches.front();
        let Some(head) = head.filter(|head| !matches!(head.phase, Phase::Done)) else {
            return Vec::new();
        };
        let mut pages = BTreeSet::new();
        let mut add = |key: PageKey, bundle: Option<&Arc<Bundle>>| match bundle {
            Some(bundle) => pages.extend(bundle.pages()),
            None => pages.extend([key.page]),
        };
        for &slot in head.uses.iter().filter(|&&slot| slot != DONE) {
            if !self.pages.is_held(slot) {
                add(self.pages.page(slot), self.pages.bundle(slot));
            }
        }
        if head.num_missing == 0 {
            for &page in head.plan.uses(head.number_in_plan) {
                let key = head.plan.pages[page as usize];
                add(key, head.plan.bundles.get(&key.page));
            }
        }
        pages.into_iter().collect()
    }
}
