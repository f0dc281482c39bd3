//! Files written byte by byte, to hold what no writer at hand produces: pages that
//! begin in the middle of a record, lying counts, wrong indexes.

/// Compact-protocol structs.
#[derive(Default)]
pub struct Thrift {
    bytes: Vec<u8>,
    last: u8,
}

fn varint(bytes: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        bytes.push(value as u8 | 0x80);
        value >>= 7;
    }
    bytes.push(value as u8);
}

fn zigzag(bytes: &mut Vec<u8>, value: i64) {
    varint(bytes, ((value << 1) ^ (value >> 63)) as u64);
}

impl Thrift {
    fn header(&mut self, id: u8, wire: u8) {
        self.bytes.push((id - self.last) << 4 | wire);
        self.last = id;
    }

    pub fn i32(mut self, id: u8, value: i64) -> Self {
        self.header(id, 5);
        zigzag(&mut self.bytes, value);
        self
    }

    pub fn i64(mut self, id: u8, value: i64) -> Self {
        self.header(id, 6);
        zigzag(&mut self.bytes, value);
        self
    }

    pub fn text(mut self, id: u8, value: &str) -> Self {
        self.header(id, 8);
        varint(&mut self.bytes, value.len() as u64);
        self.bytes.extend(value.as_bytes());
        self
    }

    pub fn nested(mut self, id: u8, value: Thrift) -> Self {
        self.header(id, 12);
        self.bytes.extend(value.finish());
        self
    }

    pub fn list(mut self, id: u8, values: Vec<Thrift>) -> Self {
        self.header(id, 9);
        self.bytes.push(0xfc);
        varint(&mut self.bytes, values.len() as u64);
        self.bytes
            .extend(values.into_iter().flat_map(Thrift::finish));
        self
    }

    pub fn numbers(mut self, id: u8, values: &[i64]) -> Self {
        self.header(id, 9);
        self.bytes.push(0xf6);
        varint(&mut self.bytes, values.len() as u64);
        values
            .iter()
            .for_each(|value| zigzag(&mut self.bytes, *value));
        self
    }

    pub fn finish(mut self) -> Vec<u8> {
        self.bytes.push(0);
        self.bytes
    }
}

fn thrift() -> Thrift {
    Thrift::default()
}

/// Levels of 0 and 1, bit-packed.
fn levels(levels: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    varint(&mut bytes, (levels.len().div_ceil(8) as u64) << 1 | 1);
    for group in levels.chunks(8) {
        bytes.push((0..).zip(group).map(|(bit, level)| level << bit).sum());
    }
    bytes
}

/// Bytes at the place of a page.
pub enum Part {
    /// A version 1 page of a `repeated int32`: its repetition levels.
    V1(Vec<u8>),
    /// Version 2, with the number of rows its header claims.
    V2(Vec<u8>, i64),
    /// A dictionary page of this number of values.
    Dictionary(usize),
    /// An index page.
    Index,
    /// Bytes that are not a page.
    Gap(usize),
}

impl Part {
    fn num_levels(&self) -> usize {
        match self {
            Self::V1(levels) | Self::V2(levels, _) => levels.len(),
            _ => 0,
        }
    }

    fn bytes(&self) -> Vec<u8> {
        let count = self.num_levels();
        let values = vec![7u8; 4 * count];
        let data = |repetition: &[u8]| (levels(repetition), levels(&vec![1; count]));
        let (kind, fields, body) = match self {
            Self::V1(repetition) => {
                let (repetition, definition) = data(repetition);
                let mut body = Vec::new();
                for part in [repetition, definition] {
                    body.extend((part.len() as u32).to_le_bytes());
                    body.extend(part);
                }
                body.extend(values);
                let fields = thrift().i32(1, count as i64).i32(2, 0).i32(3, 3).i32(4, 3);
                (0, Some((5, fields)), body)
            }
            Self::V2(repetition, num_rows) => {
                let (repetition, definition) = data(repetition);
                let fields = thrift()
                    .i32(1, count as i64)
                    .i32(2, 0)
                    .i32(3, *num_rows)
                    .i32(4, 0);
                let fields = fields
                    .i32(5, definition.len() as i64)
                    .i32(6, repetition.len() as i64);
                (
                    3,
                    Some((8, fields)),
                    [repetition, definition, values].concat(),
                )
            }
            Self::Dictionary(count) => {
                let fields = thrift().i32(1, *count as i64).i32(2, 0);
                (2, Some((7, fields)), vec![0; 4 * count])
            }
            Self::Index => (1, None, vec![0; 5]),
            Self::Gap(size) => return vec![0xee; *size],
        };
        let size = body.len() as i64;
        let mut header = thrift().i32(1, kind).i32(2, size).i32(3, size);
        if let Some((id, fields)) = fields {
            header = header.nested(id, fields);
        }
        [header.finish(), body].concat()
    }
}

/// A file of one row group with one column, `repeated int32 tokens`.
pub struct HandMade {
    pub parts: Vec<Part>,
    pub num_rows: i64,
    /// `Some(first rows)` writes an offset index over the parts that hold levels.
    pub first_rows: Option<Vec<i64>>,
    /// `Some((repetition, definition))` writes a column index of level histograms.
    pub histograms: Option<(Vec<i64>, Vec<i64>)>,
    /// Stored as it is, if given.
    pub dictionary_page_offset: Option<i64>,
    /// Added to the chunk's number of values.
    pub extra_values: i64,
    /// Added to the chunk's size.
    pub extra_size: i64,
}

impl HandMade {
    pub fn new(num_rows: i64, parts: Vec<Part>) -> Self {
        Self {
            parts,
            num_rows,
            first_rows: None,
            histograms: None,
            dictionary_page_offset: None,
            extra_values: 0,
            extra_size: 0,
        }
    }

    pub fn bytes(&self) -> Vec<u8> {
        let mut file = b"PAR1".to_vec();
        let (mut locations, mut num_values) = (Vec::new(), 0);
        for part in &self.parts {
            let bytes = part.bytes();
            if part.num_levels() > 0 {
                locations.push((file.len() as i64, bytes.len() as i64));
            }
            num_values += part.num_levels() as i64;
            file.extend(bytes);
        }
        let mut chunk = thrift()
            .i32(1, 1)
            .i32(4, 0)
            .i64(5, num_values + self.extra_values)
            .i64(7, file.len() as i64 - 4 + self.extra_size)
            .i64(9, 4);
        if let Some(offset) = self.dictionary_page_offset {
            chunk = chunk.i64(11, offset);
        }
        let mut column = thrift().i64(2, 0).nested(3, chunk);
        if let Some(first_rows) = &self.first_rows {
            let pages = locations.iter().zip(first_rows);
            let pages = pages
                .map(|((offset, size), row)| thrift().i64(1, *offset).i32(2, *size).i64(3, *row));
            let index = thrift().list(1, pages.collect()).finish();
            column = column.i64(4, file.len() as i64).i32(5, index.len() as i64);
            file.extend(index);
        }
        if let Some((repetition, definition)) = &self.histograms {
            let index = thrift()
                .numbers(6, repetition)
                .numbers(7, definition)
                .finish();
            column = column.i64(6, file.len() as i64).i32(7, index.len() as i64);
            file.extend(index);
        }
        let schema = vec![
            thrift().text(4, "schema").i32(5, 1),
            thrift().i32(1, 1).i32(3, 2).text(4, "tokens"),
        ];
        let group = thrift()
            .list(1, vec![column])
            .i64(2, 0)
            .i64(3, self.num_rows);
        let footer = thrift()
            .i32(1, 1)
            .list(2, schema)
            .i64(3, self.num_rows)
            .list(4, vec![group])
            .finish();
        file.extend(&footer);
        file.extend((footer.len() as u32).to_le_bytes());
        file.extend(b"PAR1");
        file
    }
}
