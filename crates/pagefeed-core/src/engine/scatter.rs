//! Batches of tokens: rows of one length, padded where no segment writes.

use super::batch::Buffer;
use super::content::{Content, Gathering};
use super::plan::Segment;
use super::{EngineConfig, TokenType};
use crate::decode::{TokenPage, Tokens};
use crate::error::{Error, Kind, Result};
use crate::gather::{BatchToken, Misfit, copy_segment};

impl Content for TokenPage {
    type Buffer = Buffer;

    fn num_bytes(&self) -> usize {
        let tokens = match &self.tokens {
            Tokens::U16(values) => values.capacity() * 2,
            Tokens::I32(values) => values.capacity() * 4,
            Tokens::U32(values) => values.capacity() * 4,
            Tokens::I64(values) => values.capacity() * 8,
        };
        tokens + self.row_offsets.capacity() * 4
    }

    fn new_buffer(config: &EngineConfig) -> Result<Buffer> {
        Buffer::new(config.batch_bytes())
    }

    fn gather(batch: &Gathering<'_, Self>, buffer: &mut Buffer) -> Result<(), (u64, Error)> {
        match batch.config.token_type {
            TokenType::I64 => gather_as::<i64>(batch, buffer),
            TokenType::I32 => gather_as::<i32>(batch, buffer),
            TokenType::U16 => gather_as::<u16>(batch, buffer),
        }
    }
}

/// Copies the segments whose pages are there.
fn gather_as<T: BatchToken>(
    batch: &Gathering<'_, TokenPage>,
    buffer: &mut Buffer,
) -> Result<(), (u64, Error)> {
    let config = batch.config;
    let tokens = buffer.tokens::<T>(config.batch_tokens());
    if batch.is_new && !batch.is_full() {
        // Checked to fit when the engine was made.
        let padding = T::from_i64(config.padding).ok_or_else(|| (0, bad_padding(config)))?;
        let mut end = 0;
        for segment in batch
            .segments()
            .filter(|segment| segment.start < segment.end)
        {
            tokens[end..segment.start].fill(padding);
            end = segment.end;
        }
        tokens[end..].fill(padding);
    }
    for segment in batch.segments() {
        if let Some(page) = &batch.pages[segment.page_use] {
            let target = &mut tokens[segment.start..segment.end];
            copy_segment(page, segment.row, segment.first_token, target)
                .map_err(|misfit| (segment.page, describe::<T>(misfit, &segment)))?;
        }
    }
    Ok(())
}

fn describe<T: BatchToken>(misfit: Misfit, segment: &Segment) -> Error {
    let Segment { page, row, .. } = segment;
    match misfit {
        Misfit::Token(value) => Error::new(
            Kind::TokenRange,
            format!(
                "token {value} in page {page} of the index does not fit {}; \
                 ask for a wider dtype",
                T::NAME
            ),
        ),
        Misfit::PageTooShort {
            num_tokens,
            needed: Some(needed),
            ..
        } => Error::corrupt(format!(
            "page {page} of the index holds {num_tokens} tokens, the plan needs {needed}; \
             the file does not hold what the index promises"
        )),
        Misfit::PageTooShort { num_rows, .. } => Error::corrupt(format!(
            "page {page} of the index holds {num_rows} rows, the plan needs row {row} of it; \
             the file does not hold what the index promises"
        )),
    }
}

pub(super) fn bad_padding(config: &EngineConfig) -> Error {
    let (padding, token_type) = (config.padding, config.token_type);
    Error::invalid(format!(
        "padding {padding} does not fit tokens of type {token_type:?}"
    ))
}
