//! Spans are found, and their payloads read, as they lie.

use crate::error::Kind;
use std::sync::Mutex;

use arrow_array::Array;
use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use std::ops::Range;

use super::*;
use crate::storage::Stamp;
use crate::tokens::{NumberType, Numbers, Tokens};

/// Two files, and how often they were read.
struct Files {
    offsets: Vec<u8>,
    payloads: Vec<u8>,
    num_reads: Mutex<usize>,
}

impl Storage for Files {
    fn stamp(&self, path: &str) -> Result<Stamp> {
        Ok(Stamp {
            size: self.of(path).len() as u64,
            modified_ns: 0,
            inode: 0,
            changed_ns: 0,
            sample: 0,
        })
    }

    fn read_ranges(&self, file: &FileId, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        *self.num_reads.lock().unwrap() += ranges.len();
        let bytes = |range: &Range<u64>| {
            let own = &self.of(&file.path)[range.start as usize..range.end as usize];
            Bytes::copy_from_slice(own)
        };
        Ok(ranges.iter().map(bytes).collect())
    }

    fn for_child(&self) -> Arc<dyn Storage> {
        unreachable!("no process forks")
    }
}

impl Files {
    fn of(&self, path: &str) -> &[u8] {
        match path {
            "offsets" => &self.offsets,
            _ => &self.payloads,
        }
    }
}

/// Payloads of these sizes, of bytes that are their numbers.
fn spans(sizes: &[usize]) -> (StreamSpans, Arc<Files>) {
    let (mut offsets, mut payloads) = (vec![0; 8], Vec::new());
    for (number, &size) in sizes.iter().enumerate() {
        payloads.resize(payloads.len() + size, number as u8);
        offsets.extend((payloads.len() as u64).to_le_bytes());
    }
    let files = Arc::new(Files {
        offsets,
        payloads,
        num_reads: Mutex::new(0),
    });
    let file = |path: &str| FileId {
        path: path.into(),
        stamp: files.stamp(path).unwrap(),
    };
    let shard = ShardPayloads {
        offsets: file("offsets"),
        payloads: file("payloads"),
    };
    let number = NumberType::from_name("int32").unwrap();
    let spans = StreamSpans {
        shards: vec![shard],
        storage: Arc::clone(&files) as Arc<dyn Storage>,
        field: FlatField {
            number,
            offset: 0,
            width: 1,
        },
        row_bytes: 0,
        reads: Mutex::default(),
    };
    (spans, files)
}

fn page(ids: &[i32], row_offsets: &[u32], skipped: u32) -> TokenPage {
    let mut numbers = Numbers::new(4, Numbers::default());
    numbers.extend(ids.iter().map(|&id| id.into()), 0).unwrap();
    TokenPage {
        tokens: Tokens::U16(vec![7; ids.len()]),
        row_offsets: row_offsets.to_vec(),
        skipped,
        aligned: vec![numbers],
        ..TokenPage::default()
    }
}

/// Start, end, and first byte and size of the payload of each span of a row.
fn row(found: &ArrayRef, row: usize) -> Vec<(i64, i64, Option<u8>, usize)> {
    let spans = found.as_list::<i32>().value(row);
    let spans = spans.as_struct();
    let bound = |column: usize| spans.column(column).as_primitive::<Int64Type>();
    let payloads = spans.column(2).as_binary::<i32>();
    (0..spans.len())
        .map(|span| {
            let payload = payloads.value(span);
            let (start, end) = (bound(0).value(span), bound(1).value(span));
            (start, end, payload.first().copied(), payload.len())
        })
        .collect()
}

#[test]
fn runs_of_one_payload_are_spans_of_their_row() {
    let (spans, files) = spans(&[0, 3, 5, 1, 0, 2]);
    let whole = page(&[0, 1, 1, 2, 2, 3, 4], &[0, 4, 4, 7], 0);
    // The last two tokens of a row of five, and the first of three of the next.
    let part = page(&[3, 4, 5], &[0, 5, 8], 3);
    let found = spans.of_pages(&[(0, &part), (0, &whole)]).unwrap();
    assert_eq!(row(&found, 0), [(3, 4, Some(3), 1)]);
    assert_eq!(row(&found, 1), [(0, 1, Some(5), 2)]);
    assert_eq!(row(&found, 2), [(1, 3, Some(1), 3), (3, 4, Some(2), 5)]);
    assert_eq!(row(&found, 3), []);
    assert_eq!(row(&found, 4), [(0, 1, Some(2), 5), (1, 2, Some(3), 1)]);
    assert_eq!(*files.num_reads.lock().unwrap(), 4, "two for each page");
    let extra = spans.extra_reads();
    assert_eq!((extra.index_reads, extra.payload_reads), (2, 2));
    assert_eq!(extra.bytes, (4 + 6) * 8 + 3 + 9);
    // Payloads that follow one another are read together.
    let next = page(&[4, 4, 5], &[0, 3], 0);
    let both = spans.of_pages(&[(0, &whole), (0, &next)]).unwrap();
    assert_eq!(row(&both, 3), [(2, 3, Some(5), 2)]);
    let extra = spans.extra_reads();
    assert_eq!((extra.index_reads, extra.payload_reads), (3, 3));
}

#[test]
fn payloads_that_are_not_there_are_refused() {
    let (spans, _) = spans(&[3, 4]);
    for (ids, words) in [
        ([1, 2], "names payload 2, the shard has 2"),
        ([0, 2], "one by one"),
        ([1, 0], "one by one"),
        ([-1, 0], "one by one"),
    ] {
        let error = spans.of_pages(&[(0, &page(&ids, &[0, 2], 0))]);
        let (shard, error) = error.unwrap_err();
        assert_eq!((shard, error.kind()), (0, Kind::Corrupt));
        assert!(error.to_string().contains(words), "{error}");
    }
}
