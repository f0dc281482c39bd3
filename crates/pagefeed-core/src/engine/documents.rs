//! Documents: what a batch makes of the lists in its cells.

use crate::fields::{Fields, Sections};
use crate::tokens::{NumberType, PerToken};

/// Lists in the cells of a batch that become rows of numbers. The lists of the other
/// columns are handed out as they are.
#[derive(Clone, Debug, Default)]
pub struct Documents {
    /// Whether the first column holds the tokens of the batch.
    pub has_tokens: bool,
    /// Tokens of a document at most; the rest is left out.
    pub max_length: Option<usize>,
    /// Length of the rows.
    pub pad: Pad,
    /// Columns of integers that become further rows, each of another length, and their
    /// padding.
    pub padded: Vec<(usize, i64)>,
    /// Columns with numbers for each token.
    pub aligned: Vec<AlignedLists>,
    /// Columns of the metadata of the documents.
    pub metadata: Option<DocumentColumns>,
    /// Columns handed out; later ones describe the rows.
    pub num_named: usize,
    /// Whether rows after the last document are left out.
    pub only_filled: bool,
    /// Tokens of a row, about, with its padding.
    pub row_tokens: usize,
}

/// Length of the rows of a batch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Pad {
    /// As long as the longest document.
    #[default]
    Longest,
    /// As long as a document may be.
    Full,
    /// One row with all documents, one after another.
    Joined,
}

/// A column of lists with numbers for each token.
#[derive(Clone, Debug)]
pub struct AlignedLists {
    /// Name in messages.
    pub name: String,
    /// Column of the batch.
    pub column: usize,
    /// Column that is null in rows whose dataset lacks these numbers.
    pub has: Option<usize>,
    /// Numbers for each token.
    pub per_token: PerToken,
    /// Whether they are shifted to the position before their token.
    pub is_shifted: bool,
    /// Bits of the number that carries no loss, see [`super::Aligned`].
    pub unlearned: Option<u64>,
}

/// Columns that become the table of the documents.
#[derive(Clone, Debug)]
pub struct DocumentColumns {
    /// The first of them in the batch.
    pub first: usize,
    /// Names in the table.
    pub names: Vec<String>,
    /// Whether each holds spans.
    pub are_spans: Vec<bool>,
    /// Column that is null in rows without a document.
    pub there: usize,
}

impl Documents {
    /// Whether numbers of any column depend on where documents begin.
    pub fn need_borders(&self) -> bool {
        let mut columns = self.aligned.iter();
        columns.any(|column| column.is_shifted || column.unlearned.is_some())
    }

    /// Whether a column is handed out as it is.
    pub fn keeps(&self, column: usize) -> bool {
        let made = self.padded.iter().map(|&(column, _)| column);
        let mut made = made.chain(self.aligned.iter().map(|lists| lists.column));
        column < self.num_named && !(self.has_tokens && column == 0) && !made.any(|c| c == column)
    }

    /// Bytes of a batch of `num_rows` rows with these fields, about.
    pub(super) fn num_bytes(&self, num_rows: usize, token_bytes: usize, fields: &Fields) -> usize {
        let num_tokens = num_rows.saturating_mul(self.row_tokens);
        let sections = Sections::new(fields, num_tokens, token_bytes);
        let widths = self.aligned.iter().map(|lists| {
            let number = lists.per_token.number(NumberType::I64).num_bytes();
            let counts = usize::from(lists.per_token.is_counted) * size_of::<i32>();
            number * lists.per_token.width + counts
        });
        let widths = widths.chain(self.padded.iter().map(|_| size_of::<i64>()));
        let sections = widths.fold(sections, |all, width| all.with_aligned(num_tokens, width));
        sections.num_bytes()
    }
}
