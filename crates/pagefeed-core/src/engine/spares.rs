//! Memory of spent pages, kept for the next ones.

use std::collections::BTreeMap;

use crate::tokens::TokenPage;

/// Spent pages by size, kept while there is room: freeing and allocating from several
/// threads would scatter memory over the allocator's arenas, at up to twice its size.
#[derive(Default)]
pub(super) struct SparePages {
    /// By bytes and order of release.
    by_size: BTreeMap<(usize, u64), TokenPage>,
    num_put: u64,
}

impl SparePages {
    pub fn put(&mut self, page: TokenPage) {
        self.num_put += 1;
        self.by_size.insert((page.num_bytes(), self.num_put), page);
    }

    /// Returns the smallest page of at least `wanted` bytes, unless it is far too
    /// large, or else the largest one. `wanted` is an upper bound: a page of 16-bit
    /// tokens needs less than half of it.
    pub fn take_near(&mut self, wanted: usize) -> Option<(usize, TokenPage)> {
        let larger = self.by_size.range((wanted, 0)..).next();
        let smaller = self.by_size.range(..(wanted, 0)).next_back();
        let key = [larger, smaller]
            .into_iter()
            .flatten()
            .map(|(key, _)| *key)
            .find(|(bytes, _)| *bytes <= wanted * 2)?;
        Some((key.0, self.by_size.remove(&key)?))
    }

    #[cfg(feature = "simulate")]
    pub fn num_bytes(&self) -> usize {
        self.by_size.values().map(TokenPage::num_bytes).sum()
    }

    pub fn take_largest(&mut self) -> Option<(usize, TokenPage)> {
        self.by_size
            .pop_last()
            .map(|((bytes, _), page)| (bytes, page))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tokens::Tokens;

    #[test]
    fn the_nearest_size_is_taken() {
        let mut spares = SparePages::default();
        for count in [10, 40, 20] {
            spares.put(TokenPage {
                tokens: Tokens::I64(vec![0; count]),
                row_offsets: Vec::new(),
                ..TokenPage::default()
            });
        }
        let mut take = |wanted| spares.take_near(wanted).map(|(bytes, _)| bytes);
        assert_eq!(take(39), None);
        assert_eq!(take(100), Some(160));
        assert_eq!(take(100), Some(80));
        assert_eq!(take(100), None);
        assert_eq!(take(700), Some(320));
        assert!(spares.take_largest().is_none());
    }
}
