//! Object stores, web servers and the Hugging Face hub as a storage of pagefeed.
//!
//! ```text
//! remote -> live -> reading -> cache, requests -> retry -> gate -> { bucket, web, hub } -> transport
//! ```
//!
//! [`Remote`] is the face: it blocks, while everything below runs on the one runtime of the
//! process; `live` is what it shares with its copies. `address` says what a URL means,
//! `options` where credentials come from, `cache` what need not be fetched, `requests` which
//! ranges are asked for at once, `retry` how long, `gate` how many by what `pace` makes of
//! their times; `transport` sends: nothing else knows HTTP's headers, and no secret leaves
//! it.

mod address;
mod bucket;
mod cache;
mod counters;
mod failure;
mod gate;
mod hub;
mod live;
mod options;
mod pace;
mod reading;
mod remote;
mod requests;
mod retry;
mod runtime;
mod transport;
mod web;

pub use counters::Counts;
pub use options::Options;
pub use remote::{Listed, Remote};
