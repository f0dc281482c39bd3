//! Definition levels of a page, counted stretch by stretch.

use super::checks::{check_end, check_run, num_levels};
use crate::encodings::hybrid::{Run, Runs};
use crate::error::{Error, Result};
use crate::page::{DataPage, level_width};
use crate::schema::Leaf;

/// Number of levels of each kind in a stretch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    /// Values.
    pub(crate) present: usize,
    /// Nulls that are elements of the innermost list (without lists: all nulls).
    pub(crate) null_elements: usize,
    /// Levels without an element: an empty list, or a null around it.
    pub(crate) no_elements: usize,
    /// Those of them that are null lists.
    pub(crate) null_lists: usize,
}

/// Walks the definition levels of a page once, stretch by stretch.
pub(crate) struct Definitions<'a> {
    runs: Runs<'a>,
    run: Run<'a>,
    /// Levels of `run` already counted.
    used: usize,
    max: u32,
    /// Definition level from which on there is an element.
    element: u32,
}

impl<'a> Definitions<'a> {
    pub(crate) fn new(page: &DataPage<'a>, leaf: &Leaf) -> Result<Self> {
        let num_levels = num_levels(page)?;
        let width = level_width(leaf.max_definition);
        let max = u32::from(leaf.max_definition.unsigned_abs());
        let element = leaf.descriptor.repeated_ancestor_def_level();
        // Without definition levels, all values are there: one run of zeros.
        let (runs, count) = match max {
            0 => (Runs::new(&[], 0, 0), num_levels),
            _ => (Runs::new(page.definition, width, num_levels), 0),
        };
        Ok(Self {
            runs,
            run: Run::Repeated { value: 0, count },
            used: 0,
            max,
            element: u32::from(element.unsigned_abs()),
        })
    }

    /// Counts the next `count` levels.
    pub(crate) fn advance(&mut self, mut count: usize) -> Result<Counts> {
        let mut counts = Counts::default();
        while count > 0 {
            if self.used == self.run.count() {
                self.next_run()?;
            }
            let taken = count.min(self.run.count() - self.used);
            self.count(self.used, self.used + taken, &mut counts);
            self.used += taken;
            count -= taken;
        }
        Ok(counts)
    }

    /// Refuses levels after the last one, once all are counted.
    pub(crate) fn check_end(&self) -> Result<()> {
        check_end(&self.runs)
    }

    fn next_run(&mut self) -> Result<()> {
        let run = self
            .runs
            .next()
            .ok_or_else(|| Error::corrupt("definition levels are missing"))??;
        check_run(&run, self.max)?;
        (self.run, self.used) = (run, 0);
        Ok(())
    }

    fn count(&self, from: usize, to: usize, counts: &mut Counts) {
        let between = |low: u32, high: u32| match self.run {
            Run::Repeated { value, .. } if (low..high).contains(&value) => to - from,
            Run::Repeated { .. } => 0,
            Run::Packed(packed) => (low..high)
                .map(|level| packed.count_equal(level, from, to))
                .sum(),
        };
        let present = between(self.max, self.max + 1);
        counts.present += present;
        if present == to - from {
            return;
        }
        let nulls = between(self.element, self.max);
        counts.null_elements += nulls;
        counts.no_elements += to - from - present - nulls;
        // The level below an element's is that of an empty list.
        counts.null_lists += between(0, self.element.saturating_sub(1));
    }
}
