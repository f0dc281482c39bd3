//! Object stores, web servers and the Hugging Face hub as a storage of pagefeed.
//!
//! ```text
//! remote -> live -> listing, reading -> cache, requests -> pace -> backends { bucket, web, hub, own } -> transport
//! ```
//!
//! [`Remote`] is the face. It blocks; everything below it runs on the one runtime of the
//! process. `live` is the state that copies of a `Remote` share. `options` are the settings,
//! which Python reads from arguments and the environment. `cache` keeps bytes on a local disk.
//! `requests` coalesces and divides ranges, `pace` limits the requests under way and tries them
//! again, `address` knows what a URL means, `backends` how each kind of server is asked.
//! `transport` sends requests: no other module knows HTTP's headers, and no secret leaves it.

mod address;
mod backends;
mod cache;
mod counters;
mod listing;
mod live;
mod options;
mod pace;
mod reading;
mod remote;
mod requests;
mod runtime;
mod transport;

pub use backends::uploads::{Condition, Version};
pub use counters::Counts;
pub use live::Listed;
pub use options::{FindKeys, Keys, Options, OwnStore, Service, Source, State};
pub use remote::Remote;
