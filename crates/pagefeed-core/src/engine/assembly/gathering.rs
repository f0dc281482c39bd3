//! A batch to be written, in part or in full.

use std::sync::Arc;

use crate::engine::bundle::Bundle;
use crate::engine::plan::{Cell, PreparedPlan, Segment};
use crate::engine::{EngineConfig, Page, PageSource};

/// A batch to be written, wholly or in part.
pub(in crate::engine) struct Gathering<'a> {
    pub config: &'a EngineConfig,
    pub plan: &'a PreparedPlan,
    pub number_in_plan: usize,
    /// Page of each use of the batch, if it is in memory and not written yet.
    pub pages: &'a [Option<Arc<Page>>],
    /// Per use of the batch the bundle it is, unless it is a page.
    pub bundles: &'a [Option<Arc<Bundle>>],
    /// Whether nothing was written to the buffer yet.
    pub is_new: bool,
    /// Whether all is written that is not written yet.
    pub is_last: bool,
    /// The source that reads segments without their pages.
    pub source: &'a dyn PageSource,
}

impl Gathering<'_> {
    /// Segments of tokens by destination; they do not overlap.
    pub fn segments(&self) -> impl Iterator<Item = Segment> {
        let row_length = self.config.row_length;
        self.plan.segments(self.number_in_plan, row_length)
    }

    /// Cells by destination.
    pub fn cells(&self) -> impl Iterator<Item = Cell> {
        self.plan.cells(self.number_in_plan, self.config.row_length)
    }

    /// Whether a segment is read alone now.
    pub fn is_loose(&self, segment: &Segment) -> bool {
        let uses = self.plan.uses(self.number_in_plan);
        self.is_new && self.plan.is_loose(uses[segment.page_use])
    }

    /// Tokens of the batch that segments cover.
    pub fn num_covered(&self) -> usize {
        self.plan.num_covered(self.number_in_plan)
    }
}
