//! Repetition and definition levels, read run by run.

mod checks;
mod definitions;

use std::ops::Range;

use crate::buffers::reserve;
use crate::encodings::hybrid::{Run, Runs};
use crate::encodings::unpack::{Chunk, unpack_chunks};
use crate::error::Result;
use crate::page::{DataPage, level_width};
use crate::schema::Leaf;
pub(crate) use checks::num_levels;
use checks::{check_end, check_level, check_run};
pub(crate) use definitions::Definitions;

/// Numbers of rows and values that follow from the levels of a data page.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LevelCounts {
    /// Records that begin in the page.
    pub num_rows: u64,
    /// Values, whose definition level is the greatest.
    pub num_values: u64,
    /// Whether the page begins in the middle of a record.
    pub starts_mid_record: bool,
    /// Values before the first record that begins in the page.
    pub leading_values: u64,
    /// Nulls that are elements of the innermost list.
    pub null_elements: u64,
    /// Null elements before the first record that begins in the page.
    pub leading_null_elements: u64,
}

/// Counts the rows and values of a page without decoding its values.
///
/// Errors if the levels do not cover the page's values exactly, or go beyond their
/// maximum.
pub fn count_levels(page: &DataPage<'_>, leaf: &Leaf) -> Result<LevelCounts> {
    let num_levels = num_levels(page)?;
    let mut definitions = Definitions::new(page, leaf)?;
    if leaf.max_repetition == 0 {
        let counts = definitions.advance(num_levels)?;
        definitions.check_end()?;
        return Ok(LevelCounts {
            num_rows: num_levels as u64,
            num_values: counts.present as u64,
            ..LevelCounts::default()
        });
    }
    let (mut num_rows, mut first_row) = (0, None);
    for_each_record(page, leaf, |position| {
        num_rows += 1;
        first_row.get_or_insert(position);
        Ok(())
    })?;
    let leading = first_row.unwrap_or(num_levels);
    let before = definitions.advance(leading)?;
    let rest = definitions.advance(num_levels - leading)?;
    definitions.check_end()?;
    Ok(LevelCounts {
        num_rows,
        num_values: (before.present + rest.present) as u64,
        starts_mid_record: leading > 0,
        leading_values: before.present as u64,
        null_elements: (before.null_elements + rest.null_elements) as u64,
        leading_null_elements: before.null_elements as u64,
    })
}

/// Calls `visit` with the position of each level at which a record begins: those with
/// repetition level 0.
pub(crate) fn for_each_record(
    page: &DataPage<'_>,
    leaf: &Leaf,
    mut visit: impl FnMut(usize) -> Result<()>,
) -> Result<()> {
    let num_levels = num_levels(page)?;
    let mut start = 0;
    let max = leaf.max_repetition;
    let mut runs = Runs::new(page.repetition, level_width(max), num_levels);
    for run in &mut runs {
        let run = run?;
        check_run(&run, u32::from(max.unsigned_abs()))?;
        match run {
            Run::Repeated { value: 0, count } => (start..start + count).try_for_each(&mut visit)?,
            Run::Repeated { .. } => {}
            Run::Packed(packed) => {
                packed.for_each_match(0, 0, packed.count, |i| visit(start + i))?;
            }
        }
        start += run.count();
    }
    check_end(&runs)
}

/// Calls `visit` with position and repetition level of each level at which a list other
/// than the innermost begins or continues.
pub(crate) fn for_each_list(
    page: &DataPage<'_>,
    leaf: &Leaf,
    mut visit: impl FnMut(usize, u8) -> Result<()>,
) -> Result<()> {
    let max = u32::from(leaf.max_repetition.unsigned_abs());
    let width = level_width(leaf.max_repetition);
    let runs = Runs::new(page.repetition, width, num_levels(page)?);
    let mut start = 0;
    let check = |level| check_level(level > max, max);
    unpack_chunks(runs, 0, check, |chunk| {
        match chunk {
            Chunk::Repeated { value, count } => {
                if value < max {
                    (start..start + count).try_for_each(|at| visit(at, value as u8))?;
                }
                start += count;
            }
            Chunk::Batch(levels) => {
                for (at, &level) in levels.iter().enumerate() {
                    if level < max {
                        visit(start + at, level as u8)?;
                    }
                }
                start += levels.len();
            }
        }
        Ok(())
    })
}

/// Returns the number of levels at which a list no deeper than `repetition` continues;
/// 0 counts the records.
pub(crate) fn count_up_to(page: &DataPage<'_>, leaf: &Leaf, repetition: i16) -> Result<u64> {
    let num_levels = num_levels(page)?;
    let max = leaf.max_repetition;
    if repetition >= max {
        return Ok(num_levels as u64);
    }
    let (wanted, mut count) = (0..=u32::from(repetition.unsigned_abs()), 0);
    for run in Runs::new(page.repetition, level_width(max), num_levels) {
        let run = run?;
        count += match run {
            Run::Repeated { value, count } if wanted.contains(&value) => count as u64,
            Run::Repeated { .. } => 0,
            Run::Packed(packed) => wanted
                .clone()
                .map(|level| packed.count_equal(level, 0, packed.count) as u64)
                .sum(),
        };
    }
    Ok(count)
}

/// Returns the positions at which some records of a page begin, by their numbers from 0
/// on, or the end if the page has fewer; and the number of records.
pub(crate) fn find_records<const N: usize>(
    page: &DataPage<'_>,
    leaf: &Leaf,
    numbers: [u64; N],
) -> Result<(u64, [usize; N])> {
    let num_levels = num_levels(page)?;
    let max = leaf.max_repetition;
    if max == 0 {
        let clamp = |record| usize::try_from(record).map_or(num_levels, |n| n.min(num_levels));
        return Ok((num_levels as u64, numbers.map(clamp)));
    }
    let (mut start, mut before, mut positions) = (0, 0, [num_levels; N]);
    let mut runs = Runs::new(page.repetition, level_width(max), num_levels);
    for run in &mut runs {
        let run = run?;
        check_run(&run, u32::from(max.unsigned_abs()))?;
        let count = match run {
            Run::Repeated { value: 0, count } => count,
            Run::Repeated { .. } => 0,
            Run::Packed(packed) => packed.count_equal(0, 0, packed.count),
        } as u64;
        for (position, &record) in positions.iter_mut().zip(&numbers) {
            if (before..before + count).contains(&record) {
                let nth = (record - before) as usize;
                *position = start
                    + match run {
                        Run::Repeated { .. } => nth,
                        Run::Packed(packed) => packed.nth_match(0, nth).unwrap_or(packed.count),
                    };
            }
        }
        before += count;
        start += run.count();
    }
    check_end(&runs)?;
    Ok((before, positions))
}

/// Appends some levels of a page, one by one. `bytes` holds levels of one kind, at most
/// `max`.
pub(crate) fn unpack_levels(
    bytes: &[u8],
    max: i16,
    wanted: Range<usize>,
    levels: &mut Vec<u8>,
) -> Result<()> {
    reserve(levels, wanted.len())?;
    if max == 0 {
        levels.resize(levels.len() + wanted.len(), 0);
        return Ok(());
    }
    let runs = Runs::new(bytes, level_width(max), wanted.end);
    let unchecked = |_| Ok(());
    unpack_chunks(runs, wanted.start, unchecked, |chunk| {
        match chunk {
            // Schemas are not so deep that a level would not fit.
            Chunk::Repeated { value, count } => {
                levels.resize(levels.len() + count, value as u8);
            }
            Chunk::Batch(values) => levels.extend(values.iter().map(|&level| level as u8)),
        }
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decode::tests::{Random, encode_hybrid, header_v1, leaf, list_leaf};
    use parquet::basic::Encoding;

    /// Counts level by level.
    fn naive(repetition: &[u32], definition: &[u32], leaf: &Leaf) -> LevelCounts {
        let mut counts = LevelCounts::default();
        let max = u32::from(leaf.max_definition.unsigned_abs());
        let element = u32::from(leaf.descriptor.repeated_ancestor_def_level().unsigned_abs());
        for (r, d) in repetition.iter().zip(definition) {
            counts.num_rows += u64::from(*r == 0);
            let present = u64::from(*d == max);
            counts.num_values += present;
            let null = u64::from((element..max).contains(d));
            counts.null_elements += null;
            if counts.num_rows == 0 {
                counts.leading_values += present;
                counts.leading_null_elements += null;
            }
        }
        counts.starts_mid_record = repetition.first().is_some_and(|level| *level > 0);
        counts
    }

    fn count(repetition: &[u8], definition: &[u8], n: usize, leaf: &Leaf) -> Result<LevelCounts> {
        let page = DataPage {
            header: &header_v1(n, 0, Encoding::PLAIN),
            repetition,
            definition,
            values: &[],
            is_takeable: false,
        };
        count_levels(&page, leaf)
    }

    #[test]
    fn counts_agree_with_counting_one_by_one() {
        let nested = "repeated group a { repeated group b { optional group c {
            repeated int32 d; } } }";
        let (list, deep) = (list_leaf(), leaf(nested, 0));
        assert_eq!((deep.max_repetition, deep.max_definition), (3, 4));
        let mut random = Random(3);
        for round in 0..300 {
            let leaf = if round % 2 == 0 { &list } else { &deep };
            let n = random.below(500) as usize;
            let bias = 1 + random.below(50);
            let mut levels = |max: i16| -> Vec<u32> {
                let max = max as u64;
                (0..n)
                    .map(|_| {
                        if random.below(bias) == 0 {
                            random.below(max + 1)
                        } else {
                            max
                        }
                    })
                    .map(|level| level as u32)
                    .collect()
            };
            let (r, d) = (levels(leaf.max_repetition), levels(leaf.max_definition));
            let widths = [leaf.max_repetition, leaf.max_definition].map(level_width);
            let repetition = encode_hybrid(&r, widths[0], &mut random);
            let definition = encode_hybrid(&d, widths[1], &mut random);
            assert_eq!(
                count(&repetition, &definition, n, leaf).unwrap(),
                naive(&r, &d, leaf)
            );
            if n > 0 {
                assert!(count(&repetition, &[], n, leaf).is_err());
                assert!(count(&[], &definition, n, leaf).is_err());
            }
        }
    }

    #[test]
    fn records_are_found_and_any_levels_unpacked() {
        let leaf = list_leaf();
        let mut random = Random(4);
        for round in 0..200 {
            let (n, bias) = (1 + random.below(2000), 1 + random.below(20));
            let levels: Vec<u32> = (0..n).map(|_| u32::from(random.below(bias) > 0)).collect();
            let repetition = encode_hybrid(&levels, 1, &mut random);
            let page = DataPage {
                header: &header_v1(n as usize, 0, Encoding::PLAIN),
                repetition: &repetition,
                definition: &[],
                values: &[],
                is_takeable: false,
            };
            let begins: Vec<usize> = (0..levels.len()).filter(|&at| levels[at] == 0).collect();
            let wanted = [0, random.below(n), round * 20];
            let (count, located) = find_records(&page, &leaf, wanted).unwrap();
            assert_eq!(count, begins.len() as u64);
            let position_of = |number: u64| begins.get(number as usize).copied();
            assert_eq!(
                located,
                wanted.map(|n| position_of(n).unwrap_or(levels.len()))
            );

            let end = random.below(n + 1) as usize;
            let range = random.below(end as u64 + 1) as usize..end;
            let mut unpacked = vec![7];
            unpack_levels(&repetition, 1, range.clone(), &mut unpacked).unwrap();
            let expected = levels[range].iter().map(|&level| level as u8);
            assert!(
                unpacked
                    .iter()
                    .copied()
                    .eq(std::iter::once(7).chain(expected))
            );
        }
    }

    #[test]
    fn levels_above_the_maximum_are_refused() {
        let leaf = leaf("optional group a { optional int32 b; }", 0);
        assert_eq!(leaf.max_definition, 2);
        for levels in [vec![3; 20], vec![2, 1, 0, 3, 2, 2, 2, 2]] {
            let bytes = encode_hybrid(&levels, 2, &mut Random(0));
            assert!(count(&[], &bytes, levels.len(), &leaf).is_err());
        }
    }

    #[test]
    fn flat_required_columns_have_no_levels() {
        let counts = count(&[], &[], 9, &leaf("required int32 x;", 0)).unwrap();
        assert_eq!((counts.num_rows, counts.num_values), (9, 9));
        assert!(!counts.starts_mid_record);
    }

    #[test]
    fn random_bytes_never_panic() {
        let leaf = list_leaf();
        let mut random = Random(9);
        for _ in 0..20_000 {
            let mut bytes = || -> Vec<u8> {
                let n = random.below(20);
                (0..n).map(|_| random.next() as u8).collect()
            };
            let (repetition, definition) = (bytes(), bytes());
            let _ = count(&repetition, &definition, 1000, &leaf);
        }
    }
}
