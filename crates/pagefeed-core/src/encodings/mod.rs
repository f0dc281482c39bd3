//! Integers as Parquet's own encodings store them: runs, packed bits, differences, and
//! indices into dictionaries made of these.

pub(crate) mod delta;
pub(crate) mod hybrid;
pub(crate) mod indices;
pub(crate) mod unpack;
