//! Executes plans: reads pages, decodes them, and scatters their tokens into batches,
//! on its own threads, in plan order, inside a byte budget.

use std::sync::Arc;
use std::time::Duration;

use crate::decode::TokenPage;
use crate::error::Result;
use crate::page::PageOpener;

/// Where pages come from: numbered, loaded whole.
pub trait PageSource: Send + Sync {
    /// Reads and decodes a page.
    fn load(&self, opener: &mut PageOpener, page: u64) -> Result<TokenPage>;
    /// Estimate of the decoded page's bytes, before it is loaded.
    fn decoded_size(&self, page: u64) -> usize;
    /// Tells the system that the page will be loaded soon.
    fn will_need(&self, page: u64);
}

/// Type of the tokens in a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TokenType {
    /// 64-bit signed.
    I64,
    /// 32-bit signed.
    I32,
    /// 16-bit unsigned.
    U16,
}

/// How to run.
#[derive(Clone, Debug)]
pub struct EngineConfig {
    /// Threads that read, decode and scatter.
    pub num_threads: usize,
    /// Bytes of pages held, being read, and of batches waiting to be taken.
    pub budget: usize,
    /// Type of the tokens in a batch.
    pub token_type: TokenType,
    /// Rows of a batch.
    pub batch_rows: usize,
    /// Tokens of a row.
    pub row_length: usize,
    /// Token where no segment writes.
    pub padding: i64,
    /// Verify CRCs where they are present.
    pub verify_checksums: bool,
}

/// Segments of consecutive batches. Arrays of one length, sorted by batch.
#[derive(Clone, Debug, Default)]
pub struct Plan {
    /// Segments of batch `b`: `batch_offsets[b]..batch_offsets[b + 1]`.
    pub batch_offsets: Vec<u32>,
    /// Page to read.
    pub page: Vec<u64>,
    /// Row of the page at which the segment begins.
    pub row: Vec<u32>,
    /// Token within that row. May lie in a later row: rows of a page are joined.
    pub first_token: Vec<u32>,
    /// Number of tokens; may run on into later rows of the page.
    pub num_tokens: Vec<u32>,
    /// Row of the batch.
    pub destination_row: Vec<u32>,
    /// First token of that row.
    pub destination_offset: Vec<u32>,
}

/// Runs plans; dropping it stops and joins its threads.
pub struct Engine {}

/// A finished batch: `batch_rows * row_length` tokens, row-major. Dropping it gives
/// its memory back to the engine.
pub struct Batch {}

impl Engine {
    /// Starts the threads.
    pub fn new(source: Arc<dyn PageSource>, config: EngineConfig) -> Result<Self> {
        let _ = (source, config);
        todo!()
    }

    /// Appends batches to the work; returns at once.
    pub fn submit(&self, plan: Plan) -> Result<()> {
        let _ = plan;
        todo!()
    }

    /// The next batch in plan order; `None` if it is not ready within `timeout`.
    /// An error that belongs to a batch is returned in its place, again on every call.
    pub fn next_batch(&self, timeout: Duration) -> Result<Option<Batch>> {
        let _ = timeout;
        todo!()
    }

    /// Number of batches submitted and not yet taken.
    pub fn num_pending(&self) -> usize {
        todo!()
    }
}

impl Batch {
    /// The tokens as bytes in native order, aligned to 64.
    pub fn bytes(&self) -> &[u8] {
        todo!()
    }
}
