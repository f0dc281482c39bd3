//! Object stores, web servers and the Hugging Face hub as a storage of pagefeed.
//!
//! ```text
//! remote -> live -> listing, reading -> cache, requests -> pace -> places { bucket, web, hub } -> transport
//! ```
//!
//! [`Remote`] is the face. It blocks; everything below it runs on the one runtime of the
//! process. `live` is the state that copies of a `Remote` share. `options` are the settings,
//! which Python reads from arguments and the environment. `cache` keeps bytes on a local disk.
//! `requests` joins and divides ranges, `pace` limits the requests under way and tries them
//! again, `address` knows what a URL means, `places` how each kind of server is asked.
//! `transport` sends requests: no other module knows HTTP's headers, and no secret leaves it.

mod address;
mod cache;
mod counters;
mod listing;
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
pub use live::Listed;
pub use options::{FindKeys, Keys, Options, Service, Source};
pub use places::uploads::{Condition, Version};
pub use remote::Remote;
