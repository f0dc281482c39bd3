//! Dictionaries that pages of several fetches share: each is fetched once.
//!
//! A fetch brings all that decoding takes. So decoding never waits for a storage, and
//! continues with other pages while a dictionary is on its way.

use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;

use super::dictionaries::{Claim, DictionaryCache, KeptDictionary, Key};
use super::token_ids::TokenIds;
use crate::error::Result;
use crate::index::{Indexed, PageRecord};
use crate::storage::{Fetched, Storage};
use crate::tokens::Dictionary;

/// The dictionaries that the pages of one fetch need.
pub(super) struct DictionaryFetch<'a> {
    dictionaries: &'a DictionaryCache,
    /// Fetched with these pages, for others as well.
    own: Vec<Share>,
    /// Dictionaries that other fetches bring.
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
    pub(super) async fn complete(mut self, mut fetched: Vec<Fetched>) -> Vec<Fetched> {
        for share in std::mem::take(&mut self.own) {
            let bytes = fetched.get(share.page);
            let bytes = bytes.and_then(|page| page.find(&share.range));
            // A copy, so that the page's bytes need not stay.
            let bytes = bytes.map(|bytes| Bytes::copy_from_slice(&bytes));
            self.dictionaries.settle(share.key, bytes);
        }
        for share in std::mem::take(&mut self.awaited) {
            if let Some(bytes) = self.dictionaries.wait(&share.key).await
                && let Some(page) = fetched.get_mut(share.page)
            {
                page.add(share.range, bytes);
            }
        }
        fetched
    }
}

impl Indexed {
    /// Returns the identity of a dictionary of its files.
    pub(super) fn key(&self, record: &PageRecord, offset: u64) -> Key {
        (Arc::as_ptr(&self.index) as usize, record.file, offset)
    }

    /// Returns the dictionary of a page, if it has one: from the cache, or read and
    /// decoded.
    pub(super) fn dictionary(
        &self,
        dictionaries: &DictionaryCache,
        record: &PageRecord,
        token_ids: Option<TokenIds>,
        storage: &dyn Storage,
        decode: impl FnOnce(&[u8]) -> Result<Dictionary>,
    ) -> Result<Option<KeptDictionary>> {
        let Some(range) = &record.dictionary else {
            return Ok(None);
        };
        let load = || {
            let file = &self.index.file(record.file as usize);
            let dictionary = Arc::new(decode(&storage.read(file, range.clone())?)?);
            Ok(KeptDictionary {
                holds_ids_only: token_ids.is_none_or(|ids| ids.hold(&dictionary)),
                dictionary,
            })
        };
        let key = self.key(record, range.start);
        dictionaries.get_or_load(key, load).map(Some)
    }

    /// Whether the dictionary of a page, if it has one, is to be fetched with it.
    pub(super) fn wants_dictionary(
        &self,
        record: &PageRecord,
        number: usize,
        dictionaries: &mut DictionaryFetch<'_>,
    ) -> bool {
        let wants =
            |range: &Range<u64>| dictionaries.brings(number, self.key(record, range.start), range);
        record.dictionary.as_ref().is_none_or(wants)
    }
}

impl Drop for DictionaryFetch<'_> {
    /// Ends claims of dictionaries that were not fetched, so that no fetch waits for them.
    fn drop(&mut self) {
        for share in &self.own {
            self.dictionaries.settle(share.key, None);
        }
    }
}
