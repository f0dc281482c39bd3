//! Columns of every kind.

use std::sync::Arc;

use arrow_array::builder::{
    FixedSizeListBuilder, Int32Builder, Int64Builder, LargeListBuilder, ListBuilder, MapBuilder,
    StringBuilder,
};
use arrow_array::types::Int32Type;
use arrow_array::{
    Array, ArrayRef, BinaryArray, BooleanArray, Date32Array, Decimal128Array, DictionaryArray,
    Float64Array, Int8Array, Int32Array, Int64Array, LargeBinaryArray, LargeStringArray,
    StringArray, StringViewArray, StructArray, TimestampMicrosecondArray, UInt16Array, UInt32Array,
    UInt64Array,
};
use arrow_schema::{Field, Fields};

pub const ROWS: usize = 300;

pub struct Random(pub u64);

impl Random {
    pub fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % bound
    }

    fn text(&mut self) -> String {
        let letters = ["a", "b", "\u{e9}", "\u{4e16}", "\u{1f600}", " "];
        (0..self.below(12))
            .map(|_| letters[self.below(6) as usize])
            .collect()
    }

    fn maybe<T>(&mut self, nulls: bool, value: T) -> Option<T> {
        (!nulls || self.below(5) > 0).then_some(value)
    }
}

fn list(random: &mut Random, null_rows: bool, null_items: bool) -> ArrayRef {
    let mut builder = ListBuilder::new(Int32Builder::new());
    for _ in 0..ROWS {
        for _ in 0..random.below(9) {
            let value = random.below(50) as i32 - 3;
            builder
                .values()
                .append_option(random.maybe(null_items, value));
        }
        builder.append(!null_rows || random.below(6) > 0);
    }
    Arc::new(builder.finish())
}

fn large_list(random: &mut Random) -> ArrayRef {
    let mut builder = LargeListBuilder::new(Int64Builder::new());
    for _ in 0..ROWS {
        for _ in 0..random.below(9) {
            builder.values().append_value(random.below(1 << 40) as i64);
        }
        builder.append(true);
    }
    Arc::new(builder.finish())
}

fn fixed_size_list(random: &mut Random, nulls: bool) -> ArrayRef {
    let mut builder = FixedSizeListBuilder::new(Int32Builder::new(), 5);
    for _ in 0..ROWS {
        for _ in 0..5 {
            builder.values().append_value(random.below(100) as i32);
        }
        builder.append(!nulls || random.below(6) > 0);
    }
    Arc::new(builder.finish())
}

fn list_of_lists(random: &mut Random) -> ArrayRef {
    let mut builder = ListBuilder::new(ListBuilder::new(StringBuilder::new()));
    for _ in 0..ROWS {
        for _ in 0..random.below(4) {
            for _ in 0..random.below(4) {
                let text = random.text();
                builder
                    .values()
                    .values()
                    .append_option(random.maybe(true, text));
            }
            builder.values().append(random.below(5) > 0);
        }
        builder.append(random.below(5) > 0);
    }
    Arc::new(builder.finish())
}

fn map(random: &mut Random) -> ArrayRef {
    let mut builder = MapBuilder::new(None, StringBuilder::new(), Int32Builder::new());
    for _ in 0..ROWS {
        for _ in 0..random.below(4) {
            builder.keys().append_value(random.text());
            let value = random.below(10) as i32;
            builder.values().append_option(random.maybe(true, value));
        }
        builder.append(random.below(5) > 0).unwrap();
    }
    Arc::new(builder.finish())
}

fn nested(random: &mut Random) -> ArrayRef {
    let fields = [
        list(random, true, true),
        large_list(random),
        texts(random, true),
    ];
    let named = ["ints", "longs", "texts"].iter().zip(&fields);
    let fields: Fields = named
        .map(|(name, array)| Field::new(*name, array.data_type().clone(), true))
        .collect();
    let columns = [
        list(random, true, true),
        large_list(random),
        texts(random, true),
    ];
    let nulls = (0..ROWS).map(|_| random.below(7) > 0).collect::<Vec<_>>();
    Arc::new(StructArray::new(
        fields,
        columns.to_vec(),
        Some(nulls.into()),
    ))
}

fn texts(random: &mut Random, nulls: bool) -> ArrayRef {
    let rows = (0..ROWS).map(|_| {
        let text = random.text();
        random.maybe(nulls, text)
    });
    Arc::new(rows.collect::<StringArray>())
}

pub fn columns(random: &mut Random) -> Vec<(&'static str, ArrayRef)> {
    let text = texts(random, true);
    let text = text.as_any().downcast_ref::<StringArray>().unwrap();
    let numbers = |random: &mut Random, nulls| -> Vec<Option<i32>> {
        let number = |random: &mut Random| random.below(90) as i32;
        (0..ROWS)
            .map(|_| {
                let value = number(random);
                random.maybe(nulls, value)
            })
            .collect()
    };
    let (full, gaps) = (numbers(random, false), numbers(random, true));
    let bytes: Vec<Option<&[u8]>> = text.iter().map(|t| t.map(str::as_bytes)).collect();
    let plain: Vec<i32> = full.iter().copied().flatten().collect();
    vec![
        ("list", list(random, false, false)),
        ("list with null rows", list(random, true, false)),
        ("list with null items", list(random, true, true)),
        ("large list", large_list(random)),
        ("fixed-size list", fixed_size_list(random, false)),
        ("fixed-size list with nulls", fixed_size_list(random, true)),
        ("list of lists", list_of_lists(random)),
        ("map", map(random)),
        ("struct", nested(random)),
        ("int32", Arc::new(Int32Array::from(full.clone()))),
        ("int32 with nulls", Arc::new(Int32Array::from(gaps.clone()))),
        (
            "int8",
            Arc::new(Int8Array::from_iter_values(
                plain.iter().map(|v| *v as i8 - 50),
            )),
        ),
        (
            "uint16",
            Arc::new(UInt16Array::from_iter_values(
                plain.iter().map(|v| *v as u16 * 700),
            )),
        ),
        (
            "uint32",
            Arc::new(UInt32Array::from_iter_values(
                plain.iter().map(|v| u32::MAX - *v as u32),
            )),
        ),
        (
            "uint64",
            Arc::new(UInt64Array::from_iter_values(
                plain.iter().map(|v| u64::MAX - *v as u64),
            )),
        ),
        (
            "int64",
            Arc::new(Int64Array::from_iter_values(
                plain.iter().map(|v| i64::from(*v) << 33),
            )),
        ),
        ("text", texts(random, false)),
        ("text with nulls", Arc::new(text.clone())),
        (
            "large text",
            Arc::new(text.iter().collect::<LargeStringArray>()),
        ),
        (
            "text view",
            Arc::new(text.iter().collect::<StringViewArray>()),
        ),
        (
            "binary",
            Arc::new(bytes.iter().copied().collect::<BinaryArray>()),
        ),
        (
            "large binary",
            Arc::new(bytes.iter().copied().collect::<LargeBinaryArray>()),
        ),
        (
            "dictionary",
            Arc::new(text.iter().collect::<DictionaryArray<Int32Type>>()),
        ),
        (
            "boolean",
            Arc::new(
                gaps.iter()
                    .map(|v| v.map(|v| v > 40))
                    .collect::<BooleanArray>(),
            ),
        ),
        (
            "double",
            Arc::new(
                gaps.iter()
                    .map(|v| v.map(f64::from))
                    .collect::<Float64Array>(),
            ),
        ),
        ("date", Arc::new(Date32Array::from(gaps.clone()))),
        (
            "timestamp",
            Arc::new(
                gaps.iter()
                    .map(|v| v.map(i64::from))
                    .collect::<TimestampMicrosecondArray>(),
            ),
        ),
        (
            "decimal",
            Arc::new(
                gaps.iter()
                    .map(|v| v.map(i128::from))
                    .collect::<Decimal128Array>(),
            ),
        ),
    ]
}
