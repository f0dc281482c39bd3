//! Pages of text as pages of tokens.

use std::ops::Range;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, Int32Array, UInt32Array};
use arrow_buffer::{Buffer, MutableBuffer};
use arrow_schema::{DataType, Field, FieldRef};

use crate::decode::{Joins, Numbers, TokenPage, Tokens};
use crate::engine::PageEntry;
use crate::error::{Error, Kind, Result};
use crate::index::{Index, PageRecord};
use crate::pages::flat::lists;
use crate::pages::numbering::saturated;
use crate::text::{Encode, EncodeRows, Visit};

/// The number of tokens of every row of a column, as it was counted.
pub trait RowCounts: Send + Sync {
    /// Those of some rows, numbered through the column; `None` beyond its end.
    fn of(&self, rows: Range<u64>) -> Option<&[u32]>;
}

/// How texts become tokens.
#[derive(Clone)]
pub struct Tokenization {
    /// What encodes the rows.
    pub encoder: Arc<dyn EncodeRows>,
    /// One more than the largest id.
    pub vocab_size: u32,
    /// What encoding must come to.
    pub counts: Arc<dyn RowCounts>,
    /// Of an index of rows: whether it shows labels in place of ids.
    pub is_labels: bool,
    /// Further columns of the same rows that are encoded with them.
    pub beside: Vec<Arc<Index>>,
}

/// Texts, one a row.
pub struct Texts(pub Arc<dyn Encode>);

impl EncodeRows for Texts {
    fn check(&self, field: &Field) -> Result<()> {
        let data_type = field.data_type();
        match is_text(data_type) {
            true => Ok(()),
            false => Err(Error::unsupported(format!(
                "a column to tokenize holds texts, one a row, but {:?} is {data_type}",
                field.name()
            ))),
        }
    }

    fn encode(&self, columns: &[ArrayRef], visit: &mut Visit<'_>) -> Result<()> {
        let mut ids = Vec::new();
        for_each_text(column_of(columns)?, &mut |row, text| {
            ids.clear();
            self.0.encode_into(text, &mut ids)?;
            visit(row, &ids, &[])
        })
    }
}

/// Bytes of a label.
const LABEL_BYTES: usize = 4;
/// Label of a token that is not learned.
const IGNORED: i32 = -100;

impl Tokenization {
    /// Tokens of some rows; 0 beyond the end, where nothing is ever loaded.
    fn num_tokens(&self, rows: Range<u64>) -> u64 {
        let counts = self.counts.of(rows).unwrap_or_default();
        counts.iter().map(|&count| u64::from(count)).sum()
    }

    fn bytes_per_token(&self) -> u64 {
        let labels = if self.encoder.has_labels() {
            LABEL_BYTES as u64
        } else {
            0
        };
        labels + if self.is_narrow() { 2 } else { 4 }
    }

    /// What the scheduler must know of a page with these rows.
    pub fn entry(&self, rows: Range<u64>, record: &PageRecord) -> PageEntry {
        // A token is four bytes of most texts, and beside them there is what the
        // tokenizer makes of a document.
        const BYTES_OF_TEXT: u64 = 6;
        const BYTES_PER_ROW: u64 = 4;
        let (num_rows, num_tokens) = (rows.end - rows.start, self.num_tokens(rows));
        let decoded = num_tokens * self.bytes_per_token() + (num_rows + 1) * BYTES_PER_ROW;
        let stored = saturated(record.stored_size());
        PageEntry {
            loading_size: stored.saturating_add(saturated(num_tokens * BYTES_OF_TEXT)),
            file: record.file as usize,
            num_values: saturated(num_tokens),
            ..PageEntry::new(stored, saturated(decoded))
        }
    }

    fn is_narrow(&self) -> bool {
        self.vocab_size <= 1 << 16
    }

    /// Encodes a page of rows that begins with row `first_row` of the column, into the
    /// memory of an earlier page; `with_labels` beside the tokens.
    pub fn encode(
        &self,
        columns: &[ArrayRef],
        first_row: u64,
        with_labels: bool,
        recycle: Option<TokenPage>,
    ) -> Result<TokenPage> {
        let num_rows = column_of(columns)?.len();
        let counts = self.counts.of(first_row..first_row + num_rows as u64);
        let counts = counts.ok_or_else(|| {
            Error::invalid("the counts of tokens are of fewer rows than the column has")
        })?;
        let mut page = recycle.unwrap_or_default();
        let num_tokens: usize = counts.iter().map(|&count| count as usize).sum();
        page.row_offsets.clear();
        page.row_offsets.reserve_exact(num_rows + 1);
        page.row_offsets.push(0);
        page.joins = Joins::default();
        let mut ids = Writer::new(&mut page.tokens, self.is_narrow(), num_tokens);
        let mut labels = Numbers::new(LABEL_BYTES, page.aligned.pop().unwrap_or_default());
        self.encoder
            .encode(columns, &mut |row, of_row, labels_of_row| {
                self.check(row, of_row, counts[row])?;
                ids.extend(of_row);
                if with_labels {
                    if labels_of_row.len() != of_row.len() {
                        return Err(Error::invalid("as many labels as tokens are needed"));
                    }
                    let more = num_tokens.saturating_sub(ids.len());
                    labels.extend(labels_of_row, more)?;
                }
                let end = u32::try_from(ids.len()).map_err(|_| too_many())?;
                page.row_offsets.push(end);
                Ok(())
            })?;
        page.aligned.clear();
        page.aligned.extend(with_labels.then_some(labels));
        Ok(page)
    }

    /// Refuses ids that are not as many as was counted, or beyond the vocabulary.
    fn check(&self, row: usize, ids: &[u32], count: u32) -> Result<()> {
        if ids.len() as u64 != u64::from(count) {
            return Err(Error::new(
                Kind::Stale,
                format!(
                    "row {row} of the page has {} tokens, and had {count} when they were \
                     counted: the tokenizer gives other ids now; count again, in a cache \
                     folder without the old counts",
                    ids.len()
                ),
            ));
        }
        match ids.iter().find(|&&id| id >= self.vocab_size) {
            None => Ok(()),
            Some(id) => Err(Error::new(
                Kind::TokenRange,
                format!(
                    "the tokenizer gives id {id} for row {row} of the page, and says that it \
                     has {} ids: give the right vocab_size",
                    self.vocab_size
                ),
            )),
        }
    }
}

/// What the rows of a page come to.
#[derive(Debug, Default)]
pub struct Counted {
    /// Number of tokens of each.
    pub tokens: Vec<u32>,
    /// How many have a label that is learned.
    pub num_learned: u64,
}

/// Counts the tokens of each row of a page.
pub fn count_tokens(columns: &[ArrayRef], encoder: &dyn EncodeRows) -> Result<Counted> {
    let mut counted = Counted::default();
    encoder.encode(columns, &mut |_, ids, labels| {
        let count = u32::try_from(ids.len()).map_err(|_| too_many())?;
        counted.tokens.push(count);
        counted.num_learned += u64::from(labels.iter().any(|&label| label != IGNORED));
        Ok(())
    })?;
    Ok(counted)
}

/// The column that is encoded, among those beside it.
fn column_of(columns: &[ArrayRef]) -> Result<&ArrayRef> {
    columns
        .first()
        .ok_or_else(|| Error::invalid("rows of no column"))
}

/// The text of a row of a page of texts.
pub fn text_of(texts: &ArrayRef, row: usize) -> Result<String> {
    let mut found = String::new();
    for_each_text(texts, &mut |number, text| {
        if number == row {
            found.push_str(text);
        }
        Ok(())
    })?;
    Ok(found)
}

impl Tokenization {
    /// What a row comes to: a list of ids, or of labels.
    fn item(&self) -> FieldRef {
        let data_type = match self.is_labels {
            true => DataType::Int32,
            false => DataType::UInt32,
        };
        Arc::new(Field::new_list_field(data_type, false))
    }

    /// The column that a column of rows becomes.
    pub fn field(&self, rows: &Field) -> FieldRef {
        Arc::new(Field::new(rows.name(), DataType::List(self.item()), true))
    }

    /// A page as Arrow lists.
    pub fn as_lists(&self, page: TokenPage) -> Result<ArrayRef> {
        let values: ArrayRef = match (self.is_labels, page.tokens) {
            (true, _) => {
                let labels = page.aligned.first().cloned().unwrap_or_default();
                let mut bytes = MutableBuffer::from_len_zeroed(labels.len() * LABEL_BYTES);
                let missing = || Error::invalid("a page without labels");
                labels.write(0, &mut bytes).ok_or_else(missing)?;
                Arc::new(Int32Array::new(Buffer::from(bytes).into(), None))
            }
            (_, Tokens::U16(ids)) => {
                Arc::new(ids.into_iter().map(u32::from).collect::<UInt32Array>())
            }
            (_, Tokens::U32(ids)) => Arc::new(UInt32Array::from(ids)),
            (_, Tokens::I32(_) | Tokens::I64(_)) => {
                return Err(Error::invalid("not a page of texts"));
            }
        };
        lists(&page.row_offsets, self.item(), values)
    }
}

/// Whether a column of this type holds texts: also one text in a struct, or lists of texts.
pub fn is_text(data_type: &DataType) -> bool {
    match data_type {
        DataType::Struct(fields) => fields.len() == 1 && is_text(fields[0].data_type()),
        DataType::List(item) | DataType::LargeList(item) => is_text(item.data_type()),
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => true,
        DataType::Binary | DataType::LargeBinary | DataType::BinaryView => true,
        DataType::Dictionary(_, values) => is_text(values),
        _ => false,
    }
}

/// Takes a row and its text.
type VisitText<'a> = dyn FnMut(usize, &str) -> Result<()> + 'a;

/// Visits the rows in order; a null is an empty text, and those of a list that are not
/// empty are lines.
fn for_each_text(texts: &ArrayRef, visit: &mut VisitText<'_>) -> Result<()> {
    match texts.data_type() {
        DataType::Utf8 => strings(texts.as_string::<i32>().iter(), visit),
        DataType::LargeUtf8 => strings(texts.as_string::<i64>().iter(), visit),
        DataType::Utf8View => strings(texts.as_string_view().iter(), visit),
        DataType::Binary => bytes(texts.as_binary::<i32>().iter(), visit),
        DataType::LargeBinary => bytes(texts.as_binary::<i64>().iter(), visit),
        DataType::BinaryView => bytes(texts.as_binary_view().iter(), visit),
        DataType::Dictionary(_, values) if is_text(values) => {
            let dictionary = texts.as_any_dictionary();
            let plain = arrow_select::take::take(dictionary.values(), dictionary.keys(), None)
                .map_err(|error| Error::corrupt(error.to_string()))?;
            for_each_text(&plain, visit)
        }
        DataType::Struct(fields) if fields.len() == 1 => {
            let outer = texts.as_struct();
            for_each_text(outer.column(0), &mut |row, text| {
                visit(row, if outer.is_valid(row) { text } else { "" })
            })
        }
        DataType::List(_) => {
            let lists = texts.as_list::<i32>();
            let ends = lists.offsets().iter().map(|&end| end as usize);
            lines(lists.values(), &ends.collect::<Vec<_>>(), visit)
        }
        DataType::LargeList(_) => {
            let lists = texts.as_list::<i64>();
            let ends = lists.offsets().iter().map(|&end| end as usize);
            lines(lists.values(), &ends.collect::<Vec<_>>(), visit)
        }
        other => Err(Error::unsupported(format!(
            "texts are strings or UTF-8 bytes, the column is {other}"
        ))),
    }
}

/// Visits the texts of lists, whose values lie between `ends`, as one text each.
fn lines(values: &ArrayRef, ends: &[usize], visit: &mut VisitText<'_>) -> Result<()> {
    let (first, last) = (
        ends.first().map_or(0, |&end| end),
        ends.last().map_or(0, |&end| end),
    );
    let (mut row, mut joined) = (0, String::new());
    for_each_text(&values.slice(first, last - first), &mut |number, text| {
        while ends[row + 1] <= first + number {
            visit(row, &joined)?;
            joined.clear();
            row += 1;
        }
        if !(joined.is_empty() || text.is_empty()) {
            joined.push('\n');
        }
        joined.push_str(text);
        Ok(())
    })?;
    for row in row..ends.len().saturating_sub(1) {
        visit(row, &joined)?;
        joined.clear();
    }
    Ok(())
}

fn strings<'a>(
    texts: impl Iterator<Item = Option<&'a str>>,
    visit: &mut VisitText<'_>,
) -> Result<()> {
    for (row, text) in texts.enumerate() {
        visit(row, text.unwrap_or_default())?;
    }
    Ok(())
}

fn bytes<'a>(
    texts: impl Iterator<Item = Option<&'a [u8]>>,
    visit: &mut VisitText<'_>,
) -> Result<()> {
    for (row, bytes) in texts.enumerate() {
        let text = simdutf8::compat::from_utf8(bytes.unwrap_or_default()).map_err(|error| {
            Error::corrupt(format!(
                "row {row} of the page is not UTF-8 ({error}): write the column as strings, \
                 or select other rows"
            ))
        })?;
        visit(row, text)?;
    }
    Ok(())
}

fn too_many() -> Error {
    Error::limit("a page has 2**32 tokens or more")
}

/// Ids at the width they are kept in.
enum Writer<'a> {
    Narrow(&'a mut Vec<u16>),
    Wide(&'a mut Vec<u32>),
}

impl<'a> Writer<'a> {
    fn new(tokens: &'a mut Tokens, is_narrow: bool, num_tokens: usize) -> Self {
        match (&*tokens, is_narrow) {
            (Tokens::U16(_), true) | (Tokens::U32(_), false) => {}
            (_, true) => *tokens = Tokens::U16(Vec::new()),
            (_, false) => *tokens = Tokens::U32(Vec::new()),
        }
        // Of the two the one made above.
        match tokens {
            Tokens::U16(ids) => Self::Narrow(cleared(ids, num_tokens)),
            Tokens::U32(ids) => Self::Wide(cleared(ids, num_tokens)),
            Tokens::I32(_) | Tokens::I64(_) => unreachable!("made narrow or wide above"),
        }
    }

    fn extend(&mut self, ids: &[u32]) {
        match self {
            // Below the size of the vocabulary, which was checked, all fit.
            Self::Narrow(all) => all.extend(ids.iter().map(|&id| id as u16)),
            Self::Wide(all) => all.extend_from_slice(ids),
        }
    }

    fn len(&self) -> usize {
        match self {
            Self::Narrow(all) => all.len(),
            Self::Wide(all) => all.len(),
        }
    }
}

fn cleared<T>(ids: &mut Vec<T>, capacity: usize) -> &mut Vec<T> {
    ids.clear();
    ids.reserve_exact(capacity);
    ids
}
