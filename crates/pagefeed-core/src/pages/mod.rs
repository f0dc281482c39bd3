//! Pages as the engine loads them: found by number, read, decoded, and held against
//! what the index promises.
//!
//! [`numbering`] numbers the pages of several indexes through. [`source`] loads pages
//! of token columns, [`row_source`] those of any columns; [`reader`] reads one page as
//! an Arrow array and says where an error is. [`dictionaries`] keeps decoded
//! dictionaries between loads, [`token_ids`] refuses numbers that are no tokens,
//! [`text`] encodes pages of text.

pub mod dictionaries;
pub mod numbering;
pub mod reader;
pub mod row_source;
pub mod source;
pub mod text;
pub mod token_ids;
