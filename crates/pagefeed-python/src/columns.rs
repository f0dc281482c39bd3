//! What an engine reads: columns of datasets, as Python names them.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use arrow_array::{ArrayRef, Int64Array, NullArray, StringArray};
use arrow_schema::{DataType, Field};
use pagefeed_core::decode::NumberType;
use pagefeed_core::engine::Aligned;
use pagefeed_core::error::{Error, Result};
use pagefeed_core::infill::Infilling;
use pagefeed_core::metadata::TableSchema;
use pagefeed_core::pages::aligned_column::AlignedColumn;
use pagefeed_core::pages::dictionaries::DictionaryCache;
use pagefeed_core::pages::flat::FlatField as CoreField;
use pagefeed_core::pages::indexed::Indexed;
use pagefeed_core::pages::infilled::InfilledPages;
use pagefeed_core::pages::numbering::NumberedPages;
use pagefeed_core::pages::row_column::{Column, InfilledRows, mean_row_bytes, row_columns};
use pagefeed_core::pages::row_ranges::SharedPages;
use pagefeed_core::pages::source::ColumnSource;
use pagefeed_core::pages::text::Tokenization;
use pagefeed_core::pages::text_column::TextColumn;
use pagefeed_core::pages::token_column::TokenColumn;
use pagefeed_core::pages::token_ids::TokenIds;
use pagefeed_core::per_token::PerToken;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::error::to_python;
use crate::flat::{FlatField, RecordColumn};
use crate::index::Index;
use crate::metadata::{Asked, Metadata};
use crate::storage::stopped_by;

/// What a column of rows of a dataset is made of.
#[derive(FromPyObject)]
pub enum Values<'py> {
    Index(Bound<'py, Index>),
    Records(Bound<'py, RecordColumn>),
    Numbers(Vec<Option<i64>>),
    Text(Vec<Option<String>>),
}

impl Values<'_> {
    fn into_column(self, verify_checksums: bool) -> Result<Column> {
        Ok(match self {
            Self::Records(records) => {
                let column = records.get().column()?;
                match records.get().infilled(&column) {
                    None => Column::Records(column),
                    Some(how) => Column::Infilled(Box::new(Column::Records(column)), how),
                }
            }
            Self::Index(index) => {
                let (index, rows) = (index.get(), index.get().indexed(verify_checksums));
                let column = match &index.tokenization {
                    None => Column::Pages(rows.clone()),
                    Some(tokenization) => Column::Texts(rows.clone(), tokenization.clone()),
                };
                match index.infilling.clone() {
                    None => column,
                    Some((infilling, filling)) => Column::Infilled(
                        Box::new(column),
                        InfilledRows {
                            rows,
                            infilling,
                            filling,
                        },
                    ),
                }
            }
            Self::Numbers(numbers) => {
                let is_nothing = numbers.iter().all(Option::is_none);
                let array: ArrayRef = match is_nothing {
                    true => Arc::new(NullArray::new(numbers.len())),
                    false => Arc::new(Int64Array::from(numbers)),
                };
                Column::Values(array)
            }
            Self::Text(text) => Column::Values(Arc::new(StringArray::from(text))),
        })
    }
}

/// What comes with the tokens of a dataset, a number for each.
#[derive(FromPyObject)]
pub enum Beside<'py> {
    Column(Bound<'py, Index>),
    Field(Bound<'py, FlatField>),
}

/// What comes with the tokens by a name: how many numbers for each, and what they are.
#[derive(Clone, Copy, FromPyObject)]
#[pyo3(from_item_all)]
pub struct AskedAligned {
    padding: u64,
    behind: u64,
    #[pyo3(default = 1)]
    width: usize,
    #[pyo3(default)]
    is_counted: bool,
    #[pyo3(default)]
    num_without: usize,
    #[pyo3(default)]
    scale: Option<f32>,
    #[pyo3(default)]
    is_shifted: bool,
}

impl AskedAligned {
    pub fn is_shifted(&self) -> bool {
        self.is_shifted
    }

    /// What the column holds for each token.
    pub fn per_token(&self) -> PerToken {
        PerToken {
            width: self.width,
            is_counted: self.is_counted,
            num_without: self.num_without,
            padding: self.padding,
            scale: self.scale,
        }
    }

    /// The columns of a batch that it becomes: the numbers, and how many there are.
    fn columns(&self, number: NumberType) -> impl Iterator<Item = Aligned> + use<> {
        let per_token = self.per_token();
        let numbers = Aligned {
            number: per_token.number(number),
            per_token,
            behind: self.behind,
            is_shifted: self.is_shifted,
        };
        let counts = NumberType::of(&DataType::Int32).filter(|_| self.is_counted);
        let counts = counts.map(|number| Aligned {
            number,
            per_token: PerToken::default(),
            behind: 0,
            is_shifted: self.is_shifted,
        });
        std::iter::once(numbers).chain(counts)
    }
}

/// The same without Python.
enum AlignedPart {
    Column(Indexed),
    Field(CoreField),
    /// Made with the tokens.
    Labels,
}

impl AlignedPart {
    fn number(&self) -> Option<NumberType> {
        match self {
            Self::Column(column) => NumberType::of(column.index.field().data_type()),
            Self::Field(field) => Some(field.number),
            Self::Labels => NumberType::of(&DataType::Int32),
        }
    }
}

/// The columns of datasets before they are numbered through.
pub struct Columns {
    tokens: Vec<(Indexed, Option<Tokenization>)>,
    /// Of each dataset, how its documents are infilled, if they are.
    infillings: Vec<Option<Arc<Infilling>>>,
    /// Of each dataset, the columns that come with its tokens.
    aligned: Vec<Vec<AlignedPart>>,
    metadata: Option<Metadata>,
    rows: Vec<Column>,
    names: Vec<String>,
    token_ids: TokenIds,
    has_tokens: bool,
}

impl Columns {
    /// The token column of each dataset with columns that come with it; and of each,
    /// columns of rows by these names, of which the first holds tokens if `has_tokens`.
    /// There is a flag for each column of tokens and of rows.
    #[expect(clippy::too_many_arguments, reason = "what a constructor is given")]
    pub fn new(
        py: Python<'_>,
        tokens: &[Bound<'_, Index>],
        aligned: &[Vec<Beside<'_>>],
        rows: Vec<Values<'_>>,
        names: Vec<String>,
        verify_checksums: &[bool],
        has_tokens: bool,
        token_ids: TokenIds,
    ) -> PyResult<Self> {
        let count = tokens.len() + rows.len();
        if verify_checksums.len() != count {
            return Err(PyValueError::new_err(format!(
                "verify_checksums has {} flags for {count} columns",
                verify_checksums.len()
            )));
        }
        let (of_tokens, of_rows) = verify_checksums.split_at(tokens.len());
        let aligned = aligned.iter().zip(of_tokens);
        let aligned = aligned.map(|(columns, &verify)| {
            let columns = columns.iter();
            let part = |beside: &Beside<'_>| match beside {
                Beside::Column(index) => match &index.get().tokenization {
                    Some(how) if how.is_labels => AlignedPart::Labels,
                    _ => AlignedPart::Column(index.get().indexed(verify)),
                },
                Beside::Field(field) => AlignedPart::Field(field.get().field),
            };
            columns.map(part).collect()
        });
        let tokens: Vec<_> = tokens.iter().zip(of_tokens).collect();
        let rows = rows.into_iter().zip(of_rows);
        let infillings = tokens.iter().map(|(index, _)| {
            let infilling = index.get().infilling.as_ref();
            infilling.map(|(infilling, _)| Arc::clone(infilling))
        });
        Ok(Self {
            infillings: infillings.collect(),
            aligned: aligned.collect(),
            tokens: tokens
                .into_iter()
                .map(|(index, &verify)| {
                    let index = index.get();
                    (index.indexed(verify), index.tokenization.clone())
                })
                .collect(),
            rows: rows
                .map(|(values, &verify)| values.into_column(verify))
                .collect::<Result<_>>()
                .map_err(|error| to_python(py, &error))?,
            names,
            metadata: None,
            token_ids,
            has_tokens,
        })
    }

    /// The same, with what is told of the documents in a batch.
    pub fn telling(mut self, asked: Option<Asked<'_>>, verify_checksums: &[bool]) -> Result<Self> {
        self.metadata = asked
            .map(|asked| Metadata::new(asked, verify_checksums))
            .transpose()?;
        Ok(self)
    }

    /// What that is, and the bytes it takes for a token.
    pub fn metadata(&self) -> Result<(Option<Arc<TableSchema>>, f64)> {
        let Some(metadata) = &self.metadata else {
            return Ok((None, 0.0));
        };
        let tokens: Vec<&Indexed> = self.tokens.iter().map(|(column, _)| column).collect();
        let bytes = metadata.token_bytes(&tokens)?;
        Ok((Some(Arc::new(metadata.schema()?)), bytes))
    }

    /// The same, of which reads end soon after `stop` becomes true.
    pub fn stopped_by(mut self, stop: &Arc<AtomicBool>) -> Self {
        let tokens = self.tokens.iter_mut().map(|(column, _)| column);
        let aligned = self.aligned.iter_mut().flatten();
        let tokens = tokens.chain(aligned.filter_map(|part| match part {
            AlignedPart::Column(column) => Some(column),
            AlignedPart::Field(_) | AlignedPart::Labels => None,
        }));
        let rows = self.rows.iter_mut().filter_map(|column| match column {
            Column::Pages(pages) | Column::Texts(pages, _) => Some(pages),
            Column::Infilled(column, _) => match &mut **column {
                Column::Pages(pages) | Column::Texts(pages, _) => Some(pages),
                _ => None,
            },
            Column::Records(_) | Column::Values(_) => None,
        });
        for column in tokens.chain(rows) {
            column.storage = stopped_by(&column.storage, stop);
        }
        if let Some(metadata) = &mut self.metadata {
            metadata.stop_by(stop);
        }
        self
    }

    /// Bytes that a row of the columns of rows takes, about.
    pub fn row_payload(&self) -> Result<usize> {
        let mut sum = 0usize;
        for column in self.rows.iter().take(self.names.len()) {
            let plain = match column {
                Column::Infilled(plain, _) => plain,
                column => column,
            };
            let bytes = match plain {
                Column::Pages(pages) | Column::Texts(pages, _) => mean_row_bytes(&pages.index)?,
                Column::Records(records) => records.row_bytes(),
                Column::Values(_) | Column::Infilled(..) => 0,
            };
            sum = sum.saturating_add(usize::try_from(bytes).unwrap_or(usize::MAX));
        }
        Ok(sum)
    }

    /// What comes with the tokens, alike in all datasets, and for each the bits of its
    /// numbers are like in a batch.
    pub fn aligned(&self, asked: &[AskedAligned]) -> Result<Vec<Aligned>> {
        let numbers = |parts: &Vec<AlignedPart>| parts.iter().map(AlignedPart::number).collect();
        let mut each = self.aligned.iter().map(numbers);
        let first: Vec<Option<NumberType>> = each.next().unwrap_or_default();
        let all: Option<Vec<NumberType>> = first.iter().copied().collect();
        let are_alike = each.all(|numbers| numbers == first) && first.len() == asked.len();
        let numbers = all.filter(|_| are_alike).ok_or_else(|| {
            Error::invalid("columns that come with tokens are numbers, alike in all datasets")
        })?;
        let both = numbers.into_iter().zip(asked);
        Ok(both
            .flat_map(|(number, asked)| asked.columns(number))
            .collect())
    }

    /// All of them, numbered through: those of tokens first. Tokens that infilling adds
    /// are like `fillings` say. Of `memory` bytes at most a
    /// quarter is for decoded dictionaries. Columns of rows as they are in all datasets.
    pub fn numbered(
        self,
        memory: usize,
        asked: &[AskedAligned],
        fillings: Vec<PerToken>,
    ) -> Result<(NumberedPages, Vec<Field>)> {
        let dictionaries = Arc::new(DictionaryCache::new(memory / 4));
        // Many pages of tokens share a page of the columns beside them.
        let shared = Arc::new(SharedPages::new(memory / 16 * 3));
        let indexes: Vec<Indexed> = self.tokens.iter().map(|(each, _)| each.clone()).collect();
        let mut sources: Vec<Arc<dyn ColumnSource>> = Vec::new();
        let mut aligned = self.aligned.into_iter();
        for (number, (column, tokenization)) in self.tokens.into_iter().enumerate() {
            let token_ids = Some(self.token_ids);
            let with = aligned.next().unwrap_or_default();
            sources.push(match tokenization {
                Some(how) => Arc::new(text_column(column, how, token_ids, &with)?),
                None => {
                    let tokens = TokenColumn::new(column, &dictionaries, token_ids)?;
                    let (mut columns, mut fields) = (Vec::new(), Vec::new());
                    for (part, asked) in with.into_iter().zip(asked) {
                        match part {
                            AlignedPart::Column(column) => {
                                columns.push(AlignedColumn::new(
                                    column,
                                    asked.per_token(),
                                    &dictionaries,
                                    &shared,
                                )?);
                            }
                            AlignedPart::Field(field) => fields.push(field),
                            AlignedPart::Labels => {
                                return Err(Error::invalid("labels are of chats alone"));
                            }
                        }
                    }
                    // Behind the others, which the batch has too.
                    let metadata = self.metadata.as_ref();
                    fields.extend(metadata.and_then(|metadata| metadata.payload_field(number)));
                    Arc::new(tokens.with(columns)?.with_fields(fields)?)
                }
            });
        }
        if let Some(metadata) = self.metadata {
            let each = sources.into_iter().zip(indexes.iter().cloned()).collect();
            sources = metadata.with(each, &shared)?;
        }
        let with_rows = self.infillings.into_iter().zip(indexes);
        for (source, (infilling, rows)) in sources.iter_mut().zip(with_rows) {
            if let Some(infilling) = infilling {
                let (plain, fillings) = (Arc::clone(source), fillings.clone());
                *source = Arc::new(InfilledPages::new(plain, rows, infilling, fillings));
            }
        }
        let token_ids = self.has_tokens.then_some(self.token_ids);
        let (rows, fields) = row_columns(self.rows, &self.names, token_ids)?;
        sources.extend(rows);
        // A row that a batch lacks is null.
        let nullable = |field: &Arc<Field>| field.as_ref().clone().with_nullable(true);
        let fields = fields.iter().map(nullable).collect();
        Ok((NumberedPages::new(sources, dictionaries, shared), fields))
    }
}

/// A column of texts, whose tokens nothing in the files can be aligned with; or of chats,
/// whose labels are made with them.
fn text_column(
    column: Indexed,
    how: Tokenization,
    token_ids: Option<TokenIds>,
    aligned: &[AlignedPart],
) -> Result<TextColumn> {
    let name = column.index.column().to_owned();
    let texts = TextColumn::new(column, how, token_ids)?;
    match aligned {
        [] => Ok(texts),
        [AlignedPart::Labels] => texts.with_labels(),
        _ => Err(Error::unsupported(format!(
            "no column can have a number for every token of {name:?}, which are made as they \
             are read"
        ))),
    }
}
