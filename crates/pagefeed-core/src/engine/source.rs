//! Where pages come from.

use crate::decode::TokenPage;
use crate::error::{Error, Result};
use crate::page::PageOpener;

/// What the scheduler knows of a page, or of a bundle.
#[derive(Clone, Copy, Debug, Default)]
pub struct PageEntry {
    /// Bytes as stored, as far as they are known.
    pub stored_size: usize,
    /// Estimate of the bytes when decoded, as far as it stays the same.
    pub decoded_size: usize,
    /// Bytes that it takes beside these while it is loaded.
    pub loading_size: usize,
    /// Number that the source gives pages of one kind.
    pub kind: usize,
}

impl PageEntry {
    /// A page that is loaded as one.
    pub fn new(stored_size: usize, decoded_size: usize) -> Self {
        Self {
            stored_size,
            decoded_size,
            loading_size: stored_size,
            kind: 0,
        }
    }
}

/// Where pages come from: numbered, loaded whole.
///
/// Everything but `load`, `will_need` and `locate` is called under the engine's lock and
/// must be quick.
pub trait PageSource<P = TokenPage>: Send + Sync {
    /// Reads and decodes a page. `recycle` is a spent page whose memory may be used;
    /// it is about as large as `decoded_size` says. To keep to the budget, grow it by
    /// `reserve_exact`.
    fn load(&self, opener: &mut PageOpener, page: u64, recycle: Option<P>) -> Result<P>;

    /// What the scheduler must know of a page. Asked for once, when a plan names it.
    fn entry(&self, page: u64) -> PageEntry;

    /// Estimate of the decoded page's bytes, before it is loaded; it may become better
    /// as others are.
    fn decoded_size(&self, entry: &PageEntry) -> usize {
        entry.decoded_size
    }

    /// Tells the system that the page will be loaded soon.
    fn will_need(&self, page: u64);

    /// Bytes that the source itself keeps between loads (decoded dictionaries);
    /// they count against the budget.
    fn held_bytes(&self) -> usize {
        0
    }

    /// Says where in which file an error about `page` is.
    fn locate(&self, error: Error, page: u64) -> Error {
        let _ = page;
        error
    }
}
