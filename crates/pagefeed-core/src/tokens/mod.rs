//! Pages of tokens in memory: integers, the numbers with them, their rows.
//!
//! [`Tokens`] are integers of a few types, a [`Dictionary`] those that pages name by
//! index, [`Numbers`] bits of any type in as few as they need, [`PerToken`] how many of
//! them belong to a token. A [`TokenPage`] holds rows of both, and [`arrange`] writes
//! those that are infilled.

mod dictionary;
mod infilled;
mod integers;
mod number_type;
mod numbers;
mod page;
mod per_token;

pub use dictionary::Dictionary;
pub use infilled::arrange;
pub use integers::Tokens;
pub(crate) use integers::{mismatch, with_values};
pub(crate) use number_type::as_numbers;
pub use number_type::{Number, NumberType};
pub use numbers::Numbers;
pub use page::{Continues, TokenPage};
pub use per_token::{Given, PerToken};
