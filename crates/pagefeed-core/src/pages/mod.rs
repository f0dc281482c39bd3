//! Pages as the engine loads them: found by number, read, decoded, and held against
//! what the index promises.
//!
//! Each column of a dataset is a source of pages: [`token_column`] those of tokens,
//! [`row_column`] any others, as Arrow arrays, [`text_column`] texts, which it
//! tokenizes, [`record_column`] what lies in the records of flat files. [`numbering`]
//! numbers several sources consecutively.
//!
//! [`aligned_column`] and [`metadata`] are read with the tokens of the same rows, and
//! [`absent`] are columns that a dataset lacks; [`row_ranges`] finds these rows and
//! keeps pages that several pages of tokens share. [`stream_spans`] are read of streams
//! with their tokens.
//!
//! [`infilled`] are pages of tokens or lists whose documents are infilled.
//!
//! [`reader`] reads one page as an Arrow array; [`flat`] those of files that are not
//! Parquet. [`dictionaries`] keeps
//! dictionaries between loads, `dictionary_fetch` has each fetched once, [`token_ids`]
//! refuses numbers that are not tokens.

pub mod absent;
pub mod aligned_column;
pub mod dictionaries;
mod dictionary_fetch;
pub mod flat;
mod flat_slices;
pub mod infilled;
pub mod metadata;
pub mod numbering;
pub mod reader;
pub mod record_column;
pub mod row_column;
pub mod row_ranges;
mod sizes;
pub mod stream_spans;
pub mod text;
pub mod text_column;
pub mod token_column;
pub mod token_ids;
