//! What the unit tests share: naive encoders and hand-made leaves and headers.

use std::sync::Arc;

use parquet::basic::{Encoding, Type as PhysicalType};
use parquet::schema::parser::parse_message_type;
use parquet::schema::types::SchemaDescriptor;

use crate::header::{PageHeader, PageKind};
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
    let descriptor = schema.column(ordinal);
    Leaf {
        ordinal,
        path: descriptor.path().string().into(),
        physical: descriptor.physical_type(),
        max_repetition: descriptor.max_rep_level(),
        max_definition: descriptor.max_def_level(),
        descriptor,
    }
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
        kind: PageKind::DataV1 {
            num_values,
            encoding,
            definition_encoding: Encoding::RLE,
            repetition_encoding: Encoding::RLE,
        },
    }
}

/// Length-prefixed levels, as in version 1 pages.
pub(crate) fn prefixed(levels: &[u8]) -> Vec<u8> {
    [&(levels.len() as u32).to_le_bytes()[..], levels].concat()
}
