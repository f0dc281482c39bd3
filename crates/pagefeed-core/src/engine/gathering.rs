//! A batch to be written, in part or in full.

use std::sync::Arc;

use super::batch::Buffer;
use super::bundle::Bundle;
use super::plan::{Cell, PreparedPlan, Segment};
use super::{EngineConfig, Page, collect, scatter};
use crate::error::Error;

/// A batch to be written, in part or in full.
pub(super) struct Gathering<'a> {
    pub config: &'a EngineConfig,
    pub plan: &'a PreparedPlan,
    pub number_in_plan: usize,
    /// Per use of the batch its page, if it is held and not written yet.
    pub pages: &'a [Option<Arc<Page>>],
    /// Per use of the batch the bundle it is, unless it is a page.
    pub bundles: &'a [Option<Arc<Bundle>>],
    /// Whether nothing was written to the buffer yet.
    pub is_new: bool,
    /// Whether all is written that is not written yet.
    pub is_last: bool,
}

impl Gathering<'_> {
    /// Writes the pages that are there; an error is about one page.
    pub fn write(&self, buffer: &mut Buffer) -> Result<(), (u64, Error)> {
        if self.config.num_columns > 0 {
            collect::gather(self, &mut buffer.columns)?;
        }
        if self.config.row_length > 0 {
            scatter::gather(self, buffer)?;
        }
        Ok(())
    }

    /// Segments of tokens by destination; they do not overlap.
    pub fn segments(&self) -> impl Iterator<Item = Segment> {
        let row_length = self.config.row_length;
        self.plan.segments(self.number_in_plan, row_length)
    }

    /// Cells by destination.
    pub fn cells(&self) -> impl Iterator<Item = Cell> {
        self.plan.cells(self.number_in_plan, self.config.row_length)
    }

    /// Tokens of the batch that segments cover.
    pub fn num_covered(&self) -> usize {
        self.plan.num_covered(self.number_in_plan)
    }
}
