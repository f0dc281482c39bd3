//! Batches of tokens: rows of one length, padded where no segment writes.

use std::ops::Range;

use super::aligned::AlignedWriter;
use super::buffer::{Buffer, Written};
use super::copies::{Copies, first_of, parts_of};
use super::document_parts::{DocumentParts, Position};
use super::gathering::Gathering;
use super::loose::LooseSlices;
use super::refusal::describe;
use crate::engine::bundle::Bundle;
use crate::engine::plan::Segment;
use crate::engine::{EngineConfig, TokenType};
use crate::error::{Error, Result};
use crate::fields::{Field, Maker};
use crate::gather::{
    Ahead, BatchToken, LineRange, Misfit, Separators, copy_line, copy_segment, line_ranges,
};
use crate::tokens::{Continues, TokenPage};

/// Writes the segments whose pages are in memory; an error names a page.
pub(super) fn gather(
    batch: &Gathering<'_>,
    buffer: &mut Buffer,
    loose: &mut LooseSlices,
) -> Result<(), (u64, Error)> {
    loose.begin();
    match batch.config.token_type {
        TokenType::I64 => gather_as::<i64>(batch, buffer, loose),
        TokenType::I32 => gather_as::<i32>(batch, buffer, loose),
        TokenType::U16 => gather_as::<u16>(batch, buffer, loose),
    }
}

/// Copies the segments whose pages are in memory.
fn gather_as<T: BatchToken>(
    batch: &Gathering<'_>,
    buffer: &mut Buffer,
    loose: &mut LooseSlices,
) -> Result<(), (u64, Error)> {
    let config = batch.config;
    let fields = &config.layout.fields;
    let mut written = std::mem::take(&mut buffer.written);
    if batch.is_new {
        written.clear();
        if fields.need_borders() {
            written.borders.reset(config.batch_tokens());
        }
        buffer.metadata.clear();
    }
    let mut views = buffer.views();
    let tokens = views.take::<T>(Field::InputIds);
    let aligned = AlignedWriter::new(config, std::mem::take(&mut views.aligned));
    // If files say which tokens carry loss, borders of documents do not.
    let loss_mask = config
        .layout
        .loss_column
        .map(|column| (column, views.slots(fields, Field::LossMask)));
    let mut maker = (batch.is_last && fields.need_borders())
        .then(|| Maker::new(fields, config.part_length(), &mut views));
    let mut writer = Writer::<T>::new(config, &mut written, aligned).map_err(|error| (0, error))?;
    let copies = Copies::new(batch);
    if batch.is_new && batch.num_covered() < tokens.len() {
        copies
            .gaps(tokens.len())
            .for_each(|gap| writer.pad(tokens, 0, gap));
    }
    copy_all(&copies, loose, &mut writer, maker.as_mut(), tokens)?;
    if batch.is_last {
        writer.aligned.end(&writer.written.borders);
    }
    if let Some((column, mut mask)) = loss_mask.filter(|_| batch.is_last) {
        writer.aligned.mask(column, &mut mask);
    }
    let documents = writer.documents.take();
    if let Some(maker) = maker {
        buffer.made = maker.finish(tokens, &written.borders);
    }
    buffer.written = written;
    match documents {
        Some(documents) => documents
            .finish(batch, &mut buffer.metadata)
            .map_err(|error| (0, error)),
        None => Ok(()),
    }
}

/// Copies the segments in order. Fields of a row are made once it is complete.
fn copy_all<T: BatchToken>(
    copies: &Copies<'_>,
    loose: &mut LooseSlices,
    writer: &mut Writer<'_, T>,
    mut maker: Option<&mut Maker<'_>>,
    tokens: &mut [T],
) -> Result<(), (u64, Error)> {
    let batch = copies.batch;
    for (number, segment) in copies.segments.iter().enumerate() {
        copies.prefetch(number);
        let bundle = copies.packed(segment);
        let ahead = copies.ahead(number, bundle.is_some());
        writer.page_use = segment.page_use;
        let (page, row, first_token) = match copies.page(segment) {
            Some(page) => (page, segment.row, segment.first_token),
            None if batch.is_loose(segment) => {
                let slice = loose.get(batch, &copies.segments, number)?;
                if let Some(documents) = &mut writer.documents {
                    let rows = std::mem::take(&mut slice.loaded.metadata);
                    writer.page_use = documents.keep(rows, batch.pages.len());
                }
                (&slice.loaded, 0, slice.first)
            }
            None if batch.pages[segment.page_use].is_some() => {
                let error = Error::invalid("a segment of tokens refers to a page without tokens");
                return Err((segment.page, error));
            }
            None => continue,
        };
        let held = Segment {
            row,
            first_token,
            ..*segment
        };
        if let Some(maker) = &mut maker {
            // All rows before this one are complete, the last still in the cache.
            maker.make_before(segment.start, tokens, &writer.written.borders);
        }
        let target = &mut tokens[segment.start..segment.end];
        let result = match bundle {
            Some(bundle) => writer.write_sequence(page, bundle, &held, target, ahead),
            None => writer.write(page, &held, target, ahead),
        };
        result.map_err(|misfit| {
            let page = copies.first_page(segment);
            (page, describe::<T>(misfit, page, segment.row))
        })?;
    }
    Ok(())
}

/// Writes segments of one batch.
struct Writer<'a, T> {
    config: &'a EngineConfig,
    /// Whether fields are made, which need the borders of documents.
    notes_borders: bool,
    /// The documents, if metadata was asked for.
    documents: Option<DocumentParts>,
    /// The page that is written, among the batch's uses.
    page_use: usize,
    separators: Separators<T>,
    padding: T,
    written: &'a mut Written,
    aligned: AlignedWriter<'a>,
}

impl<'a, T: BatchToken> Writer<'a, T> {
    fn new(
        config: &'a EngineConfig,
        written: &'a mut Written,
        aligned: AlignedWriter<'a>,
    ) -> Result<Self> {
        // Checked to fit when the engine was made.
        let cast =
            |name, token: i64| T::from_i64(token).ok_or_else(|| config.bad_token(name, token));
        let layout = &config.layout;
        let separators = Separators {
            bos: layout.bos.map(|token| cast("bos", token)).transpose()?,
            eos: layout.eos.map(|token| cast("eos", token)).transpose()?,
            bos_every: config.separators().bos_every,
        };
        Ok(Self {
            config,
            notes_borders: layout.fields.need_borders(),
            documents: layout.metadata.as_ref().map(|_| DocumentParts::default()),
            page_use: 0,
            separators,
            padding: cast("padding", config.padding)?,
            written,
            aligned,
        })
    }

    /// Pads positions of `target`, which begins at position `at`.
    fn pad(&mut self, target: &mut [T], at: usize, positions: Range<usize>) {
        self.written.num_padding += positions.len() as u64;
        self.aligned.pad(at + positions.start..at + positions.end);
        target[positions].fill(self.padding);
    }

    /// Copies a range of a line to `target`, which begins at position `at`.
    fn write_range(
        &mut self,
        page: &TokenPage,
        range: LineRange,
        target: &mut [T],
        at: usize,
        ahead: Ahead,
    ) -> Result<(), Misfit> {
        copy_line(page, range, &self.separators, target, ahead)?;
        let own = range.own(page, &self.separators);
        self.aligned.copy_line(page, own, at, range.num_tokens)?;
        self.note(at, page, range);
        Ok(())
    }

    /// Writes consecutive tokens of a page.
    fn write(
        &mut self,
        page: &TokenPage,
        segment: &Segment,
        target: &mut [T],
        ahead: Ahead,
    ) -> Result<(), Misfit> {
        let per_row = self.separators.per_row();
        let (row, first_token) = (segment.row, segment.first_token);
        if per_row == 0 {
            copy_segment(page, row, first_token, target, ahead)?;
            let from = page.row_offsets[row as usize] as usize + first_token as usize;
            let from = from - page.skipped as usize;
            self.aligned.copy(page, from, segment.start, target.len())?;
            if !self.notes_borders && self.documents.is_none() {
                return Ok(());
            }
        }
        if per_row > 0 {
            ahead.fetch();
        }
        let mut offset = 0;
        for range in line_ranges(page, per_row, row, first_token, target.len())? {
            let end = offset + range.num_tokens;
            let at = segment.start + offset;
            if per_row > 0 {
                self.write_range(page, range, &mut target[offset..end], at, Ahead::NONE)?;
            } else {
                self.note(at, page, range);
            }
            offset = end;
        }
        Ok(())
    }

    /// Writes a packed sequence.
    fn write_sequence(
        &mut self,
        page: &TokenPage,
        bundle: &Bundle,
        segment: &Segment,
        target: &mut [T],
        ahead: Ahead,
    ) -> Result<(), Misfit> {
        let num_rows = page.row_offsets.len().saturating_sub(1);
        let too_short = || Misfit::PageTooShort {
            num_rows,
            num_tokens: page.tokens.len(),
            needed: None,
        };
        let mut parts = parts_of(bundle, segment).ok_or_else(too_short)?;
        let mut offset = 0;
        while let Some((part, later)) = parts.split_first() {
            parts = later;
            let range = LineRange {
                row: part.row as usize,
                first_token: part.first_token.into(),
                num_tokens: part.num_tokens as usize,
            };
            let line = if range.row < num_rows {
                self.line_tokens(page, range.row)
            } else {
                0
            };
            let before = offset;
            let begin = part.offset as usize;
            offset = begin + range.num_tokens;
            if begin < before || offset > target.len() {
                return Err(too_short());
            }
            self.pad(target, segment.start, before..begin);
            if part.first_token as usize + range.num_tokens > line {
                return Err(too_short());
            }
            let at = segment.start + begin;
            if bundle.is_erased(part.row) {
                self.pad(target, segment.start, begin..offset);
                continue;
            }
            let ahead = if later.is_empty() {
                ahead
            } else {
                first_of(page, later)
            };
            self.write_range(page, range, &mut target[begin..offset], at, ahead)?;
            let length = self.config.part_length();
            if line <= length {
                let borders = (at % length + range.num_tokens.saturating_sub(1)) / length;
                self.written.num_splits += u64::from(range.first_token > 0) + borders as u64;
            }
        }
        let end = target.len();
        self.pad(target, segment.start, offset..end);
        Ok(())
    }

    /// Tokens of a whole line of a packed page.
    fn line_tokens(&self, page: &TokenPage, row: usize) -> usize {
        let num_tokens = page.row_offsets[row + 1] - page.row_offsets[row];
        let num_tokens = num_tokens.saturating_add(self.separators.per_row());
        let length = u32::try_from(self.config.row_length).unwrap_or(u32::MAX);
        let rule = self.config.layout.packing.unwrap_or_default();
        rule.line_tokens(num_tokens, length).unwrap_or(u32::MAX) as usize
    }

    /// Records a document, or part of one, that was written: a part for each row of the
    /// batch.
    fn note(&mut self, start: usize, page: &TokenPage, range: LineRange) {
        let (mut range, mut start) = (range, start);
        let length = self.config.part_length().max(1);
        while self.config.layout.row_parts > 1 && range.num_tokens > length - start % length {
            let num_tokens = length - start % length;
            self.note_part(
                start,
                page,
                LineRange {
                    num_tokens,
                    ..range
                },
            );
            start += num_tokens;
            range.first_token += num_tokens as u64;
            range.num_tokens -= num_tokens;
        }
        self.note_part(start, page, range);
    }

    fn note_part(&mut self, start: usize, page: &TokenPage, range: LineRange) {
        if self.notes_borders {
            let continues = continues_at(page, range);
            self.written
                .borders
                .add(start, start + range.num_tokens, continues);
        }
        if let Some(documents) = &mut self.documents {
            let own = range.own(page, &self.separators);
            let position = Position {
                sequence: start / self.config.part_length(),
                offset: start % self.config.part_length(),
            };
            documents.note(self.page_use, page, range, own, position);
        }
    }
}

/// Whether a range reaches an end of its page at which its row continues elsewhere.
fn continues_at(page: &TokenPage, range: LineRange) -> Continues {
    let Continues { before, after } = page.continues;
    if !(before || after) {
        return page.continues;
    }
    let end = u64::from(page.row_offsets[range.row]) + range.first_token + range.num_tokens as u64;
    Continues {
        before: before && range.row == 0 && range.first_token == 0,
        after: after && end == page.tokens.len() as u64 + u64::from(page.skipped),
    }
}
