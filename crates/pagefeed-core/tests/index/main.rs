//! The page index over files of the `parquet` crate's writer and hand-made ones.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod common;
mod fetching;
mod handmade;
mod odd;
mod refused;
mod segments;
mod written;
