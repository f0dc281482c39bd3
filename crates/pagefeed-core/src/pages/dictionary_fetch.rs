//! Dictionaries that pages of several fetches share: each is fetched once.
//!
//! A fetch brings all that decoding takes. So decoding never waits for a storage, and
//! continues with other pages while a dictionary is on its way.

use std::ops::Range;

use bytes::Bytes;

use super::dictionaries::{Claim, DictionaryCache, Key};
use crate::storage::Fetched;

/// The dictionaries that the pages of one fetch need.
pub(super) struct DictionaryFetch<'a> {
    dictionaries: &'a DictionaryCache,
    /// Fetched with these pages, for others as well.
    own: Vec<Share>,
    /// Dictionaries that other threads fetch.
    awaited: Vec<Share>,
}

struct Share {
    /// Number of the page in the fetch.
    page: usize,
    key: Key,
    /// Byte range in its file.
    range: Range<u64>,
}

impl<'a> DictionaryFetch<'a> {
    pub(super) fn new(dictionaries: &'a DictionaryCache) -> Self {
        Self {
            dictionaries,
            own: Vec::new(),
            awaited: Vec::new(),
        }
    }

    /// Whether a dictionary is to be fetched with a page.
    pub(super) fn brings(&mut self, page: usize, key: Key, range: &Range<u64>) -> bool {
        let claim = self.dictionaries.claim(key);
        let shares = match claim {
            Claim::Nobody => return false,
            Claim::Caller => &mut self.own,
            Claim::Another => &mut self.awaited,
        };
        shares.push(Share {
            page,
            key,
            range: range.clone(),
        });
        claim == Claim::Caller
    }

    /// The pages, with the dictionaries that others fetch.
    pub(super) fn complete(mut self, mut fetched: Vec<Fetched>) -> Vec<Fetched> {
        for share in std::mem::take(&mut self.own) {
            let bytes = fetched.get(share.page);
            let bytes = bytes.and_then(|page| page.find(&share.range));
            // A copy, so that the page's bytes need not stay.
            let bytes = bytes.map(|bytes| Bytes::copy_from_slice(&bytes));
            self.dictionaries.settle(share.key, bytes);
        }
        for share in std::mem::take(&mut self.awaited) {
            if let Some(bytes) = self.dictionaries.wait(&share.key)
                && let Some(page) = fetched.get_mut(share.page)
            {
                page.add(share.range, bytes);
            }
        }
        fetched
    }
}

impl Drop for DictionaryFetch<'_> {
    /// Ends claims of dictionaries that were not fetched, so that no thread waits for
    /// them.
    fn drop(&mut self) {
        for share in &self.own {
            self.dictionaries.settle(share.key, None);
        }
    }
}
