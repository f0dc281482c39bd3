//! Tools of the unit tests: naive encoders and hand-made leaves and headers.

use std::sync::Arc;

use parquet::basic::{Encoding, Type as PhysicalType};
use parquet::schema::parser::parse_message_type;
use parquet::schema::types::SchemaDescriptor;

use crate::header::{DataV1, PageHeader, PageKind};
use crate::schema::Leaf;

/// A small generator of pseudo-random numbers.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }
}

/// The only leaf, or leaf number `ordinal`, of a schema in the format's own notation.
pub(crate) fn leaf(fields: &str, ordinal: usize) -> Leaf {
    let message = format!("message schema {{ {fields} }}");
    let schema = SchemaDescriptor::new(Arc::new(parse_message_type(&message).unwrap()));
    Leaf::new(ordinal, &schema)
}

pub(crate) const LIST: &str = "optional group tokens (LIST) { repeated group list {
    optional int32 element; } }";

/// A list of nullable `INT32`, as pyarrow writes it.
pub(crate) fn list_leaf() -> Leaf {
    let leaf = leaf(LIST, 0);
    assert_eq!(leaf.physical, PhysicalType::INT32);
    leaf
}

fn varint(mut value: usize, out: &mut Vec<u8>) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Packs values bit by bit, the lowest first.
pub(crate) fn pack(values: &[u32], width: u32) -> Vec<u8> {
    let width = width as usize;
    let mut bytes = vec![0; (values.len() * width).div_ceil(8)];
    for (i, value) in values.iter().enumerate() {
        for bit in (0..width).filter(|bit| value >> bit & 1 == 1) {
            bytes[(i * width + bit) / 8] |= 1 << ((i * width + bit) % 8);
        }
    }
    bytes
}

/// Encodes values as runs of random kinds and lengths.
pub(crate) fn encode_hybrid(values: &[u32], width: u32, random: &mut Random) -> Vec<u8> {
    let mut out = Vec::new();
    let mut rest = values;
    while let Some(&value) = rest.first() {
        let same = rest.iter().take_while(|&&v| v == value).count();
        if same >= 3 && random.below(8) != 0 {
            let count = 1 + random.below(same as u64) as usize;
            varint(count << 1, &mut out);
            out.extend(&value.to_le_bytes()[..width.div_ceil(8) as usize]);
            rest = &rest[count..];
        } else {
            let most = if random.below(4) == 0 { 40 } else { 4 };
            let groups = 1 + random.below(most) as usize;
            // Only the last run may be padded.
            let groups = groups.min(rest.len() / 8).max(1);
            let count = (groups * 8).min(rest.len());
            varint(groups << 1 | 1, &mut out);
            let mut group = rest[..count].to_vec();
            group.resize(groups * 8, 0);
            out.extend(pack(&group, width));
            rest = &rest[count..];
        }
    }
    out
}

pub(crate) fn header_v1(num_values: usize, size: usize, encoding: Encoding) -> PageHeader {
    PageHeader {
        header_size: 0,
        compressed_size: size,
        uncompressed_size: size,
        crc: None,
        kind: PageKind::DataV1(DataV1 {
            num_values,
            encoding,
            definition_encoding: Encoding::RLE,
            repetition_encoding: Encoding::RLE,
        }),
    }
}

/// Length-prefixed levels, as in version 1 pages.
pub(crate) fn prefixed(levels: &[u8]) -> Vec<u8> {
    [&(levels.len() as u32).to_le_bytes()[..], levels].concat()
}

/// Compact-protocol fields of type i32, the last ones booleans.
fn fields(numbers: &[(i16, i64)], out: &mut Vec<u8>) {
    let mut last = 0;
    for &(id, value) in numbers {
        out.push(((id - last) << 4) as u8 | 5);
        varint(((value << 1) ^ (value >> 63)) as usize, out);
        last = id;
    }
}

/// A page with its header, as stored.
pub(crate) struct StoredPage {
    pub(crate) version_2: bool,
    pub(crate) snappy: bool,
    pub(crate) dictionary: bool,
}

impl StoredPage {
    fn codec(&self, bytes: &[u8]) -> Vec<u8> {
        if !self.snappy {
            return bytes.to_vec();
        }
        snap::raw::Encoder::new().compress_vec(bytes).unwrap()
    }

    /// A data page of `leaf`; `values` are encoded, `dictionary` tells how.
    pub(crate) fn data(
        &self,
        leaf: &Leaf,
        repetition: &[u32],
        definition: &[u32],
        values: &[u8],
        random: &mut Random,
    ) -> Vec<u8> {
        let widths = [leaf.max_repetition, leaf.max_definition].map(crate::page::level_width);
        let mut encode = |levels: &[u32], width| match width {
            0 => Vec::new(),
            _ => encode_hybrid(levels, width, random),
        };
        let (r, d) = (encode(repetition, widths[0]), encode(definition, widths[1]));
        let num_values = definition.len() as i64;
        let encoding = if self.dictionary { 8 } else { 0 };
        let mut out = Vec::new();
        if self.version_2 {
            let stored = [&r[..], &d, &self.codec(values)].concat();
            let size = r.len() + d.len() + values.len();
            fields(
                &[(1, 3), (2, size as i64), (3, stored.len() as i64)],
                &mut out,
            );
            out.push(0x5c); // field 8: data_page_header_v2
            let max = u32::from(leaf.max_definition.unsigned_abs());
            let nulls = definition.iter().filter(|&&level| level < max).count() as i64;
            let rows = repetition.iter().filter(|&&level| level == 0).count() as i64;
            let sizes = [(5, d.len() as i64), (6, r.len() as i64)];
            let head = [(1, num_values), (2, nulls), (3, rows), (4, encoding)];
            fields(&[&head[..], &sizes].concat(), &mut out);
            out.push(if self.snappy { 0x11 } else { 0x12 });
            out.extend([0, 0]);
            out.extend(stored);
            return out;
        }
        let with_prefix = |levels: &[u8], max| if max > 0 { prefixed(levels) } else { vec![] };
        let body = [
            with_prefix(&r, leaf.max_repetition),
            with_prefix(&d, leaf.max_definition),
            values.to_vec(),
        ]
        .concat();
        let stored = self.codec(&body);
        let sizes = [(1, 0), (2, body.len() as i64), (3, stored.len() as i64)];
        fields(&sizes, &mut out);
        out.push(0x2c); // field 5: data_page_header
        fields(&[(1, num_values), (2, encoding), (3, 3), (4, 3)], &mut out);
        out.extend([0, 0]);
        out.extend(stored);
        out
    }

    /// An uncompressed version 1 page without levels that claims `num_values`.
    pub(crate) fn claim(&self, leaf: &Leaf, num_values: usize, values: &[u8]) -> Vec<u8> {
        assert!(leaf.max_definition == 0 && !self.version_2 && !self.snappy);
        let (mut out, size) = (Vec::new(), values.len() as i64);
        fields(&[(1, 0), (2, size), (3, size)], &mut out);
        out.push(0x2c);
        let encoding = if self.dictionary { 8 } else { 0 };
        let numbers = [(1, num_values as i64), (2, encoding), (3, 3), (4, 3)];
        fields(&numbers, &mut out);
        out.extend([0, 0]);
        out.extend(values);
        out
    }

    /// A dictionary page.
    pub(crate) fn dictionary(&self, num_values: usize, values: &[u8]) -> Vec<u8> {
        let (mut out, stored) = (Vec::new(), self.codec(values));
        let sizes = [(1, 2), (2, values.len() as i64), (3, stored.len() as i64)];
        fields(&sizes, &mut out);
        out.push(0x4c); // field 7: dictionary_page_header
        fields(&[(1, num_values as i64), (2, 0)], &mut out);
        out.extend([0, 0]);
        out.extend(stored);
        out
    }
}

/// Rows of a list column: null, or values of which some are null.
pub(crate) type Rows = Vec<Option<Vec<Option<i64>>>>;

/// Levels and values of rows of a list with both nulls (`max_definition` 3).
pub(crate) fn shred(rows: &Rows) -> (Vec<u32>, Vec<u32>, Vec<i64>) {
    let (mut repetition, mut definition, mut values) = (vec![], vec![], vec![]);
    for row in rows {
        let items = row.as_deref().unwrap_or(&[]);
        if items.is_empty() {
            repetition.push(0);
            definition.push(u32::from(row.is_some()));
        }
        for (i, item) in items.iter().enumerate() {
            repetition.push(u32::from(i > 0));
            definition.push(2 + u32::from(item.is_some()));
            values.extend(*item);
        }
    }
    (repetition, definition, values)
}

/// A run of pages of `rows`, cut at any level, in any mixture of what pages can be.
pub(crate) struct TestRun {
    pub(crate) pages: Vec<Vec<u8>>,
    /// Level at which each page begins, and the number of levels.
    pub(crate) starts: Vec<usize>,
    pub(crate) dictionary: Vec<u8>,
    pub(crate) snappy: bool,
}

/// Encodes rows of `INT32` or `INT64` lists.
pub(crate) fn encode_lists(
    rows: &Rows,
    leaf: &Leaf,
    dictionary: &[i64],
    random: &mut Random,
) -> TestRun {
    let (repetition, definition, values) = shred(rows);
    let snappy = random.below(2) == 0;
    let plain = |values: &[i64]| -> Vec<u8> {
        let size = if leaf.physical == PhysicalType::INT32 {
            4
        } else {
            8
        };
        let bytes = values
            .iter()
            .flat_map(move |v| v.to_le_bytes().into_iter().take(size));
        bytes.collect()
    };
    let (mut pages, mut starts, mut start, mut value) = (vec![], vec![], 0, 0);
    while start < definition.len() {
        let end = (start + random.below(400) as usize).min(definition.len());
        let levels = &definition[start..end];
        let count = levels.iter().filter(|&&level| level == 3).count();
        let page = StoredPage {
            version_2: random.below(2) == 0,
            snappy,
            dictionary: random.below(3) > 0,
        };
        let here = &values[value..value + count];
        let bytes = if page.dictionary {
            let find = |v| dictionary.iter().position(|entry| entry == v).unwrap() as u32;
            let indices: Vec<u32> = here.iter().map(find).collect();
            let width = 1 + usize::BITS - dictionary.len().leading_zeros();
            let mut bytes = vec![width as u8];
            bytes.extend(encode_hybrid(&indices, width, random));
            bytes
        } else {
            plain(here)
        };
        pages.push(page.data(leaf, &repetition[start..end], levels, &bytes, random));
        starts.push(start);
        (start, value) = (end, value + count);
    }
    starts.push(start);
    let page = StoredPage {
        version_2: false,
        snappy,
        dictionary: true,
    };
    TestRun {
        pages,
        starts,
        dictionary: page.dictionary(dictionary.len(), &plain(dictionary)),
        snappy,
    }
}

/// Rows of random lengths; `nulls` also allows null items.
pub(crate) fn random_rows(dictionary: &[i64], nulls: bool, random: &mut Random) -> Rows {
    let most = [1, 4, 50, 700][random.below(4) as usize];
    let count = 1 + random.below(60) as usize;
    let item = |random: &mut Random| {
        let value = dictionary[random.below(dictionary.len() as u64) as usize];
        (!nulls || random.below(9) > 0).then_some(value)
    };
    (0..count)
        .map(|_| {
            let length = random.below(most + 1) as usize;
            (random.below(9) > 0).then(|| (0..length).map(|_| item(random)).collect())
        })
        .collect()
}

impl TestRun {
    /// The pages `from..to` as a run, with what an index would say of it.
    pub(crate) fn run(&self, rows: &Rows, from: usize, to: usize) -> crate::decode::PageRun {
        let (repetition, _, _) = shred(rows);
        let before = &repetition[..self.starts[from]];
        let inside = &repetition[self.starts[from]..self.starts[to]];
        let count = |levels: &[u32]| levels.iter().filter(|&&level| level == 0).count() as u64;
        crate::decode::PageRun {
            data: self.pages[from..to].concat().into(),
            dictionary: Some(self.dictionary.clone().into()),
            codec: if self.snappy {
                crate::codec::Codec::Snappy
            } else {
                crate::codec::Codec::Uncompressed
            },
            starts_mid_record: inside.first().is_some_and(|&level| level > 0),
            first_row: count(before),
            num_rows: count(inside),
            tail_size: 0,
        }
    }
}
