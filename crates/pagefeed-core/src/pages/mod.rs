//! Pages as the engine loads them: found by number, read, decoded, and held against
//! what the index promises.
//!
//! Each column of a dataset is a source of pages: [`token_column`] those of tokens,
//! [`row_column`] any others, as Arrow arrays, [`text_column`] texts as the tokens that
//! they come to. [`aligned_column`] and [`metadata`] are read with the tokens of the
//! same rows.
//! [`numbering`] numbers several through.
//! [`stream_spans`] are read of streams beside their tokens, and [`record_column`] has
//! what lies in their records by itself.
//! [`indexed`] is an index with the storage of its files; [`reader`] reads one page as
//! an Arrow array; [`flat`] those of files that are no Parquet. [`dictionaries`] keeps
//! dictionaries and shared pages between loads, `errand` has each fetched once,
//! [`token_ids`] refuses numbers that are no tokens.

pub mod aligned_column;
pub mod dictionaries;
mod errand;
pub mod flat;
mod flat_parts;
pub mod indexed;
pub mod metadata;
pub mod numbering;
pub mod reader;
pub mod record_column;
pub mod row_column;
pub mod stream_spans;
pub mod text;
pub mod text_column;
pub mod token_column;
pub mod token_ids;
