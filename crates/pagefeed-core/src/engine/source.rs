//! Where pages come from.

use super::Page;
use crate::error::{Error, Result};
use crate::page::PageOpener;
use crate::storage::Fetched;
use crate::tokens::TokenPage;

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
    /// Number of the file it lies in, among those of its kind.
    pub file: usize,
    /// Values of each of its columns, as far as they are known.
    pub num_values: usize,
}

impl PageEntry {
    /// A page that is loaded as one.
    pub fn new(stored_size: usize, decoded_size: usize) -> Self {
        Self {
            stored_size,
            decoded_size,
            loading_size: stored_size,
            kind: 0,
            file: 0,
            num_values: 0,
        }
    }
}

/// Tokens of a page that are read without the rest of it.
#[derive(Debug, Default)]
pub struct PagePart {
    /// Number of the page.
    pub page: u64,
    /// Row of the page at which the part begins.
    pub row: u32,
    /// Token within that row, separators counted; may lie in a later row.
    pub first_token: u32,
    /// Number of tokens, likewise.
    pub num_tokens: u32,
    /// Separators that every row gets.
    pub per_row: u32,
    /// What was read: the rows that the part touches.
    pub loaded: TokenPage,
    /// Where the part begins in these: its token within the first of them.
    pub first: u32,
}

/// What reading parts came to.
#[derive(Clone, Copy, Debug, Default)]
pub struct PartReads {
    /// Ranges of files that were read.
    pub reads: u64,
    /// Bytes of these.
    pub bytes: u64,
}

/// What a source read that neither entries nor parts count.
#[derive(Clone, Copy, Debug, Default)]
pub struct ExtraReads {
    /// Bytes of pages that several pages of tokens share, and of what follows.
    pub bytes: u64,
    /// Reads of where the payloads of spans lie.
    pub index_reads: u64,
    /// Reads of these payloads.
    pub payload_reads: u64,
}

impl std::iter::Sum for ExtraReads {
    fn sum<I: Iterator<Item = Self>>(each: I) -> Self {
        each.fold(Self::default(), |sum, one| Self {
            bytes: sum.bytes + one.bytes,
            index_reads: sum.index_reads + one.index_reads,
            payload_reads: sum.payload_reads + one.payload_reads,
        })
    }
}

/// Where the engine has pages from, by their numbers.
///
/// The engine calls `entry`, `decoded_size`, `num_in_flight` and `held_bytes` under its
/// lock: they must be quick.
pub trait PageSource: Send + Sync {
    /// What the scheduler must know of a page. Asked for once, when a plan names it.
    fn entry(&self, page: u64) -> PageEntry;

    /// Estimate of the decoded page's bytes, before it is loaded; it may become better
    /// as others are.
    fn decoded_size(&self, entry: &PageEntry) -> usize {
        entry.decoded_size
    }

    /// Pages that are best fetched at one time, ahead of being decoded; 0 if decoding a
    /// page may as well read it, as of local files.
    fn num_in_flight(&self) -> usize {
        0
    }

    /// Reads what decoding each of `pages` takes, as far as the source does not keep it.
    /// The engine asks for it only with pages in flight.
    fn fetch(&self, pages: &[u64]) -> Result<Vec<Fetched>> {
        Ok(pages.iter().map(|_| Fetched::default()).collect())
    }

    /// Makes a page of what was fetched of it; reads what was not. `recycle` is a spent
    /// page whose memory may be used; it is about as large as `decoded_size` says. To
    /// keep to the budget, grow it by `reserve_exact`.
    fn decode(
        &self,
        opener: &mut PageOpener,
        page: u64,
        fetched: &Fetched,
        recycle: Option<TokenPage>,
    ) -> Result<Page>;

    /// The source of parts of pages, if some pages need not be decoded for their tokens.
    fn parts(&self) -> Option<&dyn PartSource> {
        None
    }

    /// Advice: the page will be read soon.
    fn will_need(&self, _page: u64) {}

    /// Bytes that the source itself keeps between loads (decoded dictionaries);
    /// they count against the budget.
    fn held_bytes(&self) -> usize {
        0
    }

    /// What was read so far that entries and parts do not count.
    fn extra_reads(&self) -> ExtraReads {
        ExtraReads::default()
    }

    /// Says where in which file an error about `page` is.
    fn locate(&self, error: Error, _page: u64) -> Error {
        error
    }
}

/// A source whose files hold tokens as they are, so that parts of pages can be read alone.
pub trait PartSource {
    /// Tokens of a page of which parts may be read; `None` of one that is to be decoded.
    fn num_tokens(&self, page: u64) -> Option<u64>;

    /// Reads parts of such pages, those that lie side by side at one time; `buffer` is
    /// memory to use. An error is about one of the pages.
    fn read_parts(
        &self,
        parts: &mut [&mut PagePart],
        buffer: &mut Vec<u8>,
    ) -> Result<PartReads, (u64, Error)>;
}
