//! Object stores, web servers and the Hugging Face hub as a storage of pagefeed.
//!
//! ```text
//! remote -> live -> reading -> cache, requests -> pace -> places { bucket, web, hub } -> transport
//! ```
//!
//! [`Remote`] is the face: it blocks, while everything below runs on the one runtime of the
//! process; `live` is what it shares with its copies. `options` says where credentials come
//! from, `cache` what need not be fetched, `requests` which ranges are asked for at once,
//! `pace` how many by their times, and how long they are tried again; `places` what a URL
//! means and how each kind is asked; `transport` sends: nothing else knows HTTP's headers,
//! and no secret leaves it.

mod cache;
mod counters;
mod live;
mod options;
mod pace;
mod places;
mod reading;
mod remote;
mod requests;
mod runtime;
mod transport;

pub use counters::Counts;
pub use options::Options;
pub use remote::{Listed, Remote};
