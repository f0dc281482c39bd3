//! Hand-made files that are odd but can be read exactly.

use pagefeed_core::Result;
use pagefeed_core::header::PageHeader;
use pagefeed_core::index::PageRecord;
use pagefeed_core::store::Store;

use crate::common::{Folder, build_with, check_lookups, headers, records};
use crate::handmade::{HandMade, Part};

/// Records of 3, 9 and 2 values over pages of 5, 4, 4 and 1 levels.
pub fn split_records() -> Vec<Vec<u8>> {
    let levels = [0, 1, 1, 0, 1, 1, 1, 1, 1, 1, 1, 1, 0, 1];
    [0..5, 5..9, 9..13, 13..14]
        .map(|range| levels[range].to_vec())
        .to_vec()
}

fn numbers(page: &PageRecord) -> (u32, u64, u64, bool) {
    (
        page.page,
        page.num_rows,
        page.num_values,
        page.starts_mid_record,
    )
}

#[test]
fn records_that_span_pages_belong_to_the_page_they_begin_in() {
    let folder = Folder::new("mid");
    let v1 = split_records().into_iter().map(Part::V1).collect();
    // Writers that split records also claim a row per level.
    let v2 = split_records().into_iter().map(|levels| {
        let claimed = levels.len() as i64;
        Part::V2(levels, claimed)
    });
    for parts in [v1, v2.collect::<Vec<_>>()] {
        let path = folder.file("a", &HandMade::new(3, parts).bytes());
        let index = build_with(&[path], "tokens", true).unwrap();
        let pages = records(&index);
        let found: Vec<_> = pages.iter().map(numbers).collect();
        assert_eq!(found, [(0, 2, 12, false), (2, 1, 2, true)]);
        // The second record ends in the page after the one that begins none.
        assert_eq!(pages[0].offset + pages[0].compressed_size, pages[1].offset);
        assert_eq!(pages[0].tail_size, pages[1].compressed_size);
        assert_eq!(pages[1].tail_size, 0);
        check_lookups(&index);
        let store = Store::new(4);
        let levels = |page| {
            let run = index.read_runs(&store, page, true).unwrap().remove(0);
            let levels = headers(&run.data)
                .iter()
                .filter_map(PageHeader::num_levels)
                .collect();
            (levels, run.first_row, run.num_rows, run.starts_mid_record)
        };
        assert_eq!(levels(0), (vec![5, 4, 4, 1], 0, 2, false));
        assert_eq!(levels(1), (vec![4, 1], 2, 1, true));
    }
}

#[test]
fn odd_parts_are_left_out() {
    let folder = Folder::new("odd");
    let mut file = HandMade::new(
        4,
        vec![
            Part::Dictionary(3),
            Part::Index,
            Part::V1(vec![0, 0]),
            Part::V1(vec![]),
            Part::V2(vec![0, 1, 0], 2),
            Part::V1(vec![]),
        ],
    );
    for offset in [None, Some(0), Some(4)] {
        file.dictionary_page_offset = offset;
        let path = folder.file("a", &file.bytes());
        let index = build_with(&[path], "tokens", true).unwrap();
        let found: Vec<_> = records(&index).iter().map(numbers).collect();
        assert_eq!(found, [(0, 2, 2, false), (2, 2, 3, false)]);
        // PLAIN pages need no dictionary.
        assert_eq!(index.page(0).unwrap().dictionary, None);
    }
    // Without an end after the last value, and with the size too small (PARQUET-816).
    file.parts.push(Part::Gap(40));
    file.extra_size = -60;
    let path = folder.file("b", &file.bytes());
    assert_eq!(build_with(&[path], "tokens", true).unwrap().num_pages(), 2);
}

#[test]
fn histograms_stand_for_levels_unless_they_contradict_the_pages() {
    let folder = Folder::new("histograms");
    let with = |repetition: &[i64], definition: &[i64], first_rows: &[i64]| {
        let mut file = HandMade::new(
            5,
            vec![
                Part::V1(vec![0, 1, 0]),
                Part::V1(vec![0, 1]),
                Part::V1(vec![0, 1, 0, 1]),
            ],
        );
        file.first_rows = Some(first_rows.to_vec());
        file.histograms = Some((repetition.to_vec(), definition.to_vec()));
        let built = build_with(&[folder.file("a", &file.bytes())], "tokens", true)?;
        Ok(records(&built)
            .iter()
            .map(|page| page.num_values)
            .collect::<Vec<_>>())
    };
    let same = |found: Result<Vec<u64>>| found.is_ok_and(|values| values == [3, 2, 4]);
    assert!(same(with(
        &[2, 1, 1, 1, 2, 2],
        &[0, 3, 0, 2, 0, 4],
        &[0, 2, 3]
    )));
    // Believed: nothing else is read (a wrong count here shows it).
    let believed = with(&[2, 1, 1, 1, 2, 2], &[1, 2, 0, 2, 0, 4], &[0, 2, 3]);
    assert_eq!(believed.unwrap(), [2, 2, 4]);
    // Records counted more than once: the pages prove the offset index right.
    assert!(same(with(
        &[2, 1, 2, 0, 4, 0],
        &[0, 3, 0, 2, 0, 4],
        &[0, 2, 3]
    )));
    // The offset index is wrong, and the pages prove it.
    assert!(with(&[2, 1, 1, 1, 2, 2], &[0, 3, 0, 2, 0, 4], &[0, 2, 4]).is_err());
    // Levels missing, too many pages, two counts of one page.
    assert!(with(&[2, 0, 1, 1, 2, 2], &[0, 2, 0, 2, 0, 4], &[0, 2, 3]).is_err());
    assert!(with(&[2, 1, 1, 1, 2, 2, 1, 0], &[0, 3, 0, 2, 0, 4], &[0, 2, 3]).is_err());
    assert!(with(&[2, 1, 1, 1, 2, 2], &[0, 2, 0, 2, 0, 4], &[0, 2, 3]).is_err());
}
