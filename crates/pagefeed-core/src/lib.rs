//! The data plane of pagefeed: it touches bytes and never decides.
//!
//! ```text
//! index -> store -> page -> decode -> pages -> gather -> engine
//! ```
//!
//! [`index`] knows where every page of a column lies, [`store`] reads bytes,
//! [`page`] opens one stored page (checksum, decompression, levels), [`decode`]
//! turns pages into tokens or Arrow arrays, [`pages`] loads them by number,
//! [`tokens`] holds them, [`infill`] rearranges documents, [`packing`] puts them into sequences,
//! [`gather`] copies tokens into batches,
//! [`fields`] makes what comes with them, [`metadata`] what is known of their documents,
//! [`engine`] executes plans on its own threads. [`write`](mod@write) makes files of
//! tokens; [`order`] hashes and permutes numbers, [`search`] finds them. Nothing here knows about Python.

#[cfg_attr(
    any(feature = "simulate", not(target_os = "linux")),
    path = "arena/none.rs"
)]
mod arena;
pub mod buffers;
pub mod codec;
pub mod decode;
mod descriptors;
mod encodings;
pub mod engine;
pub mod error;
pub mod fields;
pub mod file_reads;
pub mod footer;
pub mod gather;
pub mod header;
pub mod index;
pub mod infill;
pub mod levels;
pub mod limits;
pub mod lists;
pub mod metadata;
pub mod order;
pub mod packing;
pub mod page;
pub mod pages;
pub mod parallel;
pub mod pickle;
mod prefetch;
pub mod schema;
pub mod search;
mod simd;
pub mod storage;
pub mod store;
pub mod sync;
pub mod text;
pub mod thrift;
pub mod tokens;
pub mod write;

pub use error::{Error, Kind, Result};
