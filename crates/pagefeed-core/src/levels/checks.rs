//! Checks of every page of levels.

use crate::encodings::hybrid::{Run, Runs};
use crate::error::{Error, Result};
use crate::page::DataPage;

/// Number of levels of a data page.
pub(crate) fn num_levels(page: &DataPage<'_>) -> Result<usize> {
    page.header
        .num_levels()
        .ok_or_else(|| Error::corrupt("a data page was expected, found another kind"))
}

/// Refuses a run of levels above the maximum.
pub(super) fn check_run(run: &Run<'_>, max: u32) -> Result<()> {
    let exceeds = match run {
        Run::Repeated { value, .. } => *value > max,
        Run::Packed(packed) => {
            (max + 1..1 << packed.width).any(|level| packed.count_equal(level, 0, packed.count) > 0)
        }
    };
    check_level(exceeds, max)
}

/// Refuses levels after the last one of the page.
pub(super) fn check_end(runs: &Runs<'_>) -> Result<()> {
    match runs.end()?.len() {
        0 => Ok(()),
        left => Err(Error::corrupt(format!(
            "{left} bytes are left after the last level of the page"
        ))),
    }
}

/// Refuses a level above its maximum.
pub(super) fn check_level(exceeds: bool, max: u32) -> Result<()> {
    match exceeds {
        true => Err(Error::corrupt(format!(
            "a level is above its maximum of {max}"
        ))),
        false => Ok(()),
    }
}
