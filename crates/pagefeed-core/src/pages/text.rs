//! Pages of text as pages of tokens.

use std::ops::Range;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, GenericListArray, Int32Array, OffsetSizeTrait, UInt32Array};
use arrow_schema::{DataType, Field, FieldRef};

use crate::buffers::reserve;
use crate::engine::PageEntry;
use crate::error::{Error, Kind, Result};
use crate::index::Indexed;
use crate::index::PageRecord;
use crate::lists::list_array;
use crate::pages::sizes::{entry_of, saturated};
use crate::text::{Encode, EncodeRows, Visit};
use crate::tokens::{Numbers, TokenPage, Tokens, with_values};

/// The number of tokens of every row of a column, as counted.
pub trait RowCounts: Send + Sync {
    /// Returns the counts of some rows of the column; `None` beyond its end.
    fn of(&self, rows: Range<u64>) -> Option<&[u32]>;
}

/// Tokenizer of texts, and its settings.
#[derive(Clone)]
pub struct Tokenization {
    /// Encoder of the rows.
    pub encoder: Arc<dyn EncodeRows>,
    /// One more than the largest id.
    pub vocab_size: u32,
    /// Counts that encoding must confirm.
    pub counts: Arc<dyn RowCounts>,
    /// Whether the index shows labels instead of ids.
    pub is_labels: bool,
    /// Further columns of the same rows, which are encoded with them.
    pub beside: Vec<Indexed>,
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

    /// Returns the facts for the scheduler about a page with these rows.
    pub fn entry(&self, rows: Range<u64>, record: &PageRecord) -> PageEntry {
        // A token is four bytes of most texts, and the tokenizer's memory for a
        // document adds to them.
        const BYTES_OF_TEXT: u64 = 6;
        const BYTES_PER_ROW: u64 = 4;
        let (num_rows, num_tokens) = (rows.end - rows.start, self.num_tokens(rows));
        let decoded = num_tokens * self.bytes_per_token() + (num_rows + 1) * BYTES_PER_ROW;
        let entry = entry_of(record, record.stored_size(), decoded);
        PageEntry {
            loading_size: saturated(num_tokens * BYTES_OF_TEXT).saturating_add(entry.stored_size),
            num_values: saturated(num_tokens),
            ..entry
        }
    }

    fn is_narrow(&self) -> bool {
        self.vocab_size <= 1 << 16
    }

    /// Encodes a page that begins with row `first_row` of the column; also the labels if
    /// `with_labels`.
    pub fn encode(
        &self,
        columns: &[ArrayRef],
        first_row: u64,
        with_labels: bool,
    ) -> Result<TokenPage> {
        let num_rows = column_of(columns)?.len();
        let counts = self.counts.of(first_row..first_row + num_rows as u64);
        let counts = counts.ok_or_else(|| {
            Error::invalid("the counts of tokens are of fewer rows than the column has")
        })?;
        let num_tokens: usize = counts.iter().map(|&count| count as usize).sum();
        let mut row_offsets = Vec::with_capacity(num_rows + 1);
        row_offsets.push(0);
        let mut tokens = match self.is_narrow() {
            true => Tokens::U16(Vec::new()),
            false => Tokens::U32(Vec::new()),
        };
        // Counts that somebody changed may be of any size.
        with_values!(&mut tokens, ids => reserve(ids, num_tokens))?;
        let mut labels = Numbers::new(LABEL_BYTES, Numbers::default());
        self.encoder
            .encode(columns, &mut |row, of_row, labels_of_row| {
                self.check(row, of_row, counts[row])?;
                match &mut tokens {
                    // Below the size of the vocabulary, which was checked, all fit.
                    Tokens::U16(ids) => ids.extend(of_row.iter().map(|&id| id as u16)),
                    Tokens::U32(ids) => ids.extend_from_slice(of_row),
                    Tokens::I32(_) | Tokens::I64(_) => return Err(Error::internal("signed ids")),
                }
                if with_labels {
                    if labels_of_row.len() != of_row.len() {
                        return Err(Error::invalid("give as many labels as tokens"));
                    }
                    let more = num_tokens.saturating_sub(tokens.len());
                    labels.extend(labels_of_row.iter().map(|&label| label.into()), more)?;
                }
                let end = u32::try_from(tokens.len()).map_err(|_| too_many())?;
                row_offsets.push(end);
                Ok(())
            })?;
        Ok(TokenPage {
            tokens,
            row_offsets,
            aligned: with_labels.then_some(labels).into_iter().collect(),
            ..TokenPage::default()
        })
    }

    /// Refuses ids beyond the vocabulary, and another number of ids than was counted.
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

/// Counts of the rows of a page.
#[derive(Debug, Default)]
pub struct Counted {
    /// Number of tokens of each row.
    pub tokens: Vec<u32>,
    /// Rows with a label that is learned.
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

/// Returns the column that is encoded, without the other columns.
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
    /// Returns the type of an encoded row: a list of ids, or of labels.
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
                let labels = page.aligned.first().and_then(Numbers::to_buffer);
                let labels = labels.ok_or_else(|| Error::invalid("a page without labels"))?;
                Arc::new(Int32Array::new(labels.into(), None))
            }
            (_, Tokens::U16(ids)) => {
                Arc::new(ids.into_iter().map(u32::from).collect::<UInt32Array>())
            }
            (_, Tokens::U32(ids)) => Arc::new(UInt32Array::from(ids)),
            (_, Tokens::I32(_) | Tokens::I64(_)) => {
                return Err(Error::invalid("not a page of texts"));
            }
        };
        let data_type = DataType::List(self.item());
        list_array(&data_type, &page.row_offsets, values, None)
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

/// Called with a row and its text.
type VisitText<'a> = dyn FnMut(usize, &str) -> Result<()> + 'a;

/// Visits the rows in order. A null is an empty text; the texts of a list that are not
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
        DataType::List(_) => lines(texts.as_list::<i32>(), visit),
        DataType::LargeList(_) => lines(texts.as_list::<i64>(), visit),
        other => Err(Error::unsupported(format!(
            "texts are strings or UTF-8 bytes, the column is {other}"
        ))),
    }
}

/// Visits each list of texts as one text of lines.
fn lines<O: OffsetSizeTrait>(lists: &GenericListArray<O>, visit: &mut VisitText<'_>) -> Result<()> {
    let ends = lists.value_offsets();
    let first = ends[0].as_usize();
    let texts = lists.values();
    let texts = texts.slice(first, ends[lists.len()].as_usize() - first);
    let (mut row, mut joined) = (0, String::new());
    for_each_text(&texts, &mut |number, text| {
        while ends[row + 1].as_usize() <= first + number {
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
    for row in row..lists.len() {
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
