//! Object stores, web servers and the Hugging Face hub as a storage of pagefeed.
//!
//! ```text
//! remote -> live -> requests -> retry -> { bucket, web, hub } -> transport
//! ```
//!
//! [`Remote`] is the face: it blocks, while everything below runs on the one runtime of the
//! process; `live` is what it shares with its copies. `address` says what a URL means, `options` where credentials come from,
//! `requests` which ranges are asked for at once, `retry` how long, `transport` sends:
//! nothing else knows HTTP's headers, and no secret leaves it.

mod address;
mod bucket;
mod counters;
mod failure;
mod hub;
mod live;
mod options;
mod remote;
mod requests;
mod retry;
mod runtime;
mod transport;
mod web;

pub use counters::Counts;
pub use options::Options;
pub use remote::{Listed, Remote};
