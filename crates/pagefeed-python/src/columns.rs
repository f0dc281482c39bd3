//! Input of an engine: columns of datasets, as Python names them.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use arrow_schema::Field;
use pagefeed_core::engine::Aligned;
use pagefeed_core::engine::PageSource;
use pagefeed_core::error::{Error, Result};
use pagefeed_core::index::Indexed;
use pagefeed_core::infill::Infilling;
use pagefeed_core::metadata::TableSchema;
use pagefeed_core::pages::absent::WithAbsent;
use pagefeed_core::pages::aligned_column::AlignedColumn;
use pagefeed_core::pages::dictionaries::DictionaryCache;
use pagefeed_core::pages::flat::FlatField as CoreField;
use pagefeed_core::pages::infilled::InfilledPages;
use pagefeed_core::pages::numbering::NumberedPages;
use pagefeed_core::pages::row_column::{Column, mean_row_bytes, row_columns};
use pagefeed_core::pages::row_ranges::SharedPages;
use pagefeed_core::pages::text::Tokenization;
use pagefeed_core::pages::text_column::TextColumn;
use pagefeed_core::pages::token_column::TokenColumn;
use pagefeed_core::pages::token_ids::TokenIds;
use pagefeed_core::tokens::{NumberType, PerToken};
use pyo3::prelude::*;

use crate::aligned::AskedAligned;
use crate::asked::asked;
use crate::index::Index;
use crate::metadata::{Asked, Metadata};
use crate::storage::stopped_by;
use crate::values::{Beside, Values};

/// [`Beside`] without Python.
enum AlignedSource {
    Column(Indexed),
    Field(CoreField),
    /// Made with the tokens.
    Labels,
    /// Column of other datasets: tokens of this one get padding.
    Absent,
}

impl AlignedSource {
    fn number_type(&self) -> Option<NumberType> {
        match self {
            Self::Column(column) => NumberType::of(column.index.field().data_type()),
            Self::Field(field) => Some(field.number),
            Self::Labels => Some(NumberType::I32),
            Self::Absent => None,
        }
    }
}

/// Tokens of a dataset, and their aligned columns.
struct Tokens {
    column: Indexed,
    tokenization: Option<Tokenization>,
    infilling: Option<Arc<Infilling>>,
    aligned: Vec<AlignedSource>,
}

impl Tokens {
    fn new(index: &Index, aligned: &[Option<Beside<'_>>], verify_checksums: bool) -> Self {
        let source = |beside: &Option<Beside<'_>>| match beside {
            None => AlignedSource::Absent,
            Some(Beside::Column(index)) => match &index.get().tokenization {
                Some(how) if how.is_labels => AlignedSource::Labels,
                _ => AlignedSource::Column(index.get().indexed(verify_checksums)),
            },
            Some(Beside::Field(field)) => AlignedSource::Field(field.get().field),
        };
        let infilling = index.infilling.as_ref();
        Self {
            column: index.indexed(verify_checksums),
            tokenization: index.tokenization.clone(),
            infilling: infilling.map(|(infilling, _)| Arc::clone(infilling)),
            aligned: aligned.iter().map(source).collect(),
        }
    }

    fn stored(&mut self) -> impl Iterator<Item = &mut Indexed> {
        let aligned = self.aligned.iter_mut().filter_map(|source| match source {
            AlignedSource::Column(column) => Some(column),
            AlignedSource::Field(_) | AlignedSource::Labels | AlignedSource::Absent => None,
        });
        let texts = self.tokenization.as_mut();
        let beside = texts.into_iter().flat_map(|how| &mut how.beside);
        std::iter::once(&mut self.column)
            .chain(aligned)
            .chain(beside)
    }

    /// Returns the pages of these tokens, with numbers as `asked` for, followed by
    /// those of `payloads`.
    fn source(
        mut self,
        token_ids: TokenIds,
        asked: &[AskedAligned],
        payloads: Option<CoreField>,
        dictionaries: &Arc<DictionaryCache>,
        shared: &Arc<SharedPages>,
    ) -> Result<Arc<dyn PageSource>> {
        let is_there = |kind: &AlignedSource| !matches!(kind, AlignedSource::Absent);
        if !self.aligned.iter().all(is_there) {
            let both = self.aligned.iter().zip(asked);
            let has = both
                .flat_map(|(kind, asked)| std::iter::repeat_n(is_there(kind), asked.num_columns()));
            let has = has.collect();
            let both = self.aligned.into_iter().zip(asked.iter().copied());
            let (own, asked): (_, Vec<_>) = both.filter(|(kind, _)| is_there(kind)).unzip();
            self.aligned = own;
            let pages = self.source(token_ids, &asked, payloads, dictionaries, shared)?;
            return Ok(Arc::new(WithAbsent::new(pages, has)));
        }
        if let Some(how) = self.tokenization {
            return text_column(self.column, how, token_ids, &self.aligned);
        }
        let tokens = TokenColumn::new(self.column, dictionaries, Some(token_ids))?;
        let (mut columns, mut fields) = (Vec::new(), Vec::new());
        for (kind, asked) in self.aligned.into_iter().zip(asked) {
            match kind {
                AlignedSource::Column(column) => {
                    let per_token = asked.per_token();
                    columns.push(AlignedColumn::new(column, per_token, dictionaries, shared)?);
                }
                AlignedSource::Field(field) => fields.push(field),
                _ => return Err(Error::invalid("labels are of chats alone")),
            }
        }
        fields.extend(payloads);
        Ok(Arc::new(tokens.with(columns)?.with_fields(fields)?))
    }
}

asked! {
    /// The columns that an engine reads. `verify_checksums` has a flag for each of
    /// `tokens`, then for each of `columns`.
    pub struct AskedColumns<'py> {
        /// Token column of each dataset.
        tokens: Vec<Bound<'py, Index>> = Vec::new(),
        /// Columns of rows, dataset after dataset.
        columns: Vec<Values<'py>> = Vec::new(),
        /// Names of the columns of a dataset.
        names: Vec<String> = Vec::new(),
        /// Whether the first of them holds token ids.
        has_tokens: bool = false,
        /// For each dataset, its columns with numbers for each token, if it has them.
        aligned: Vec<Vec<Option<Beside<'py>>>> = Vec::new(),
        /// Types of these numbers.
        per_token: Vec<AskedAligned> = Vec::new(),
        /// Metadata to read for the documents of a batch.
        metadata: Option<Asked<'py>> = None,
        verify_checksums: Vec<bool>,
        /// Size of the vocabulary, if known.
        vocab_size: Option<u64> = None,
    }
}

/// The columns of datasets before they are numbered consecutively.
pub struct Columns {
    tokens: Vec<Tokens>,
    /// Metadata to read for the documents of a batch.
    metadata: Option<Metadata>,
    /// Columns of rows, in the same order for each dataset.
    rows: Vec<Column>,
    names: Vec<String>,
    /// Types of the aligned numbers.
    per_token: Vec<AskedAligned>,
    token_ids: TokenIds,
    /// Whether the first column of rows of each dataset holds tokens.
    has_tokens: bool,
}

impl Columns {
    /// Takes the columns that Python asks for.
    pub fn new(asked: AskedColumns<'_>) -> Result<Self> {
        let (tokens, flags) = (asked.tokens, asked.verify_checksums);
        let count = tokens.len() + asked.columns.len();
        if flags.len() != count {
            return Err(Error::invalid(format!(
                "verify_checksums has {} flags for {count} columns",
                flags.len()
            )));
        }
        let (of_tokens, of_rows) = flags.split_at(tokens.len());
        let aligned = asked.aligned.iter().map(Vec::as_slice);
        let aligned = aligned.chain(std::iter::repeat(&[][..]));
        let of_datasets = tokens.iter().zip(aligned).zip(of_tokens);
        let rows = asked.columns.into_iter().zip(of_rows);
        let metadata = asked.metadata.map(|asked| Metadata::new(asked, &flags));
        Ok(Self {
            tokens: of_datasets
                .map(|((index, aligned), &verify)| Tokens::new(index.get(), aligned, verify))
                .collect(),
            metadata: metadata.transpose()?,
            rows: rows
                .map(|(values, &verify)| values.into_column(verify))
                .collect::<Result<_>>()?,
            names: asked.names,
            per_token: asked.per_token,
            token_ids: TokenIds::new(asked.vocab_size),
            has_tokens: asked.has_tokens,
        })
    }

    /// Whether numbers of any aligned column depend on where documents begin.
    pub fn need_borders(&self) -> bool {
        self.per_token.iter().any(AskedAligned::needs_borders)
    }

    /// Returns the schema of metadata, and its bytes for each token.
    pub fn metadata(&self) -> Result<(Option<Arc<TableSchema>>, f64)> {
        let Some(metadata) = &self.metadata else {
            return Ok((None, 0.0));
        };
        let tokens: Vec<&Indexed> = self.tokens.iter().map(|dataset| &dataset.column).collect();
        let bytes = metadata.token_bytes(&tokens)?;
        Ok((Some(Arc::new(metadata.schema()?)), bytes))
    }

    /// Returns the columns with reads that end soon after `stop` becomes true.
    pub fn stopped_by(mut self, stop: &Arc<AtomicBool>) -> Self {
        let tokens = self.tokens.iter_mut().flat_map(Tokens::stored);
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

    /// Returns the aligned columns, which are the same for all datasets that have them.
    pub fn aligned(&self) -> Result<Vec<Aligned>> {
        let mut columns = Vec::new();
        for (column, asked) in self.per_token.iter().enumerate() {
            let parts = self.tokens.iter().map(|tokens| tokens.aligned.get(column));
            let mut numbers = parts.filter(|source| !matches!(source, Some(AlignedSource::Absent)));
            let number =
                |source: Option<&AlignedSource>| source.and_then(AlignedSource::number_type);
            let first = numbers.next().and_then(number);
            let common = first.filter(|_| numbers.all(|source| number(source) == first));
            columns.extend(asked.columns(common.ok_or_else(|| {
                Error::invalid("aligned columns are numbers, of one type in all datasets")
            })?));
        }
        Ok(columns)
    }

    /// Returns all columns under common page numbers, tokens first. At most a quarter
    /// of `memory` is for decoded dictionaries. Also returns the fields of columns of
    /// rows.
    pub fn numbered(self, memory: usize) -> Result<(NumberedPages, Vec<Field>)> {
        let aligned = self.aligned()?.into_iter();
        let fillings: Vec<PerToken> = aligned.map(|column| column.per_token).collect();
        let asked = &self.per_token;
        let dictionaries = Arc::new(DictionaryCache::new(memory / 4));
        // Many pages of tokens share a page of another column.
        let shared = Arc::new(SharedPages::new(memory / 16 * 3));
        let payloads = |dataset| self.metadata.as_ref()?.payload_field(dataset);
        let mut sources: Vec<(Arc<dyn PageSource>, Indexed)> = Vec::new();
        let mut infillings = Vec::new();
        for (dataset, tokens) in self.tokens.into_iter().enumerate() {
            let rows = tokens.column.clone();
            infillings.push(tokens.infilling.clone());
            let payloads = payloads(dataset);
            let source = tokens.source(self.token_ids, asked, payloads, &dictionaries, &shared)?;
            sources.push((source, rows));
        }
        if let Some(metadata) = self.metadata {
            sources = metadata.with(sources, &shared)?;
        }
        let infilled = |((source, rows), infilling): ((_, _), Option<_>)| match infilling {
            None => source,
            Some(how) => Arc::new(InfilledPages::new(source, rows, how, fillings.clone())),
        };
        let mut sources: Vec<_> = sources.into_iter().zip(infillings).map(infilled).collect();
        let token_ids = self.has_tokens.then_some(self.token_ids);
        let (rows, fields) = row_columns(self.rows, &self.names, token_ids)?;
        sources.extend(rows);
        // A row that a batch lacks is null.
        let nullable = |field: &Arc<Field>| field.as_ref().clone().with_nullable(true);
        let fields = fields.iter().map(nullable).collect();
        Ok((NumberedPages::new(sources, dictionaries, shared), fields))
    }
}

/// Pages of texts, whose tokens nothing in the files can be aligned with; or of chats,
/// whose labels are made with them.
fn text_column(
    column: Indexed,
    how: Tokenization,
    token_ids: TokenIds,
    aligned: &[AlignedSource],
) -> Result<Arc<dyn PageSource>> {
    let name = column.index.column().to_owned();
    let texts = TextColumn::new(column, how, Some(token_ids))?;
    match aligned {
        [] => Ok(Arc::new(texts)),
        [AlignedSource::Labels] => Ok(Arc::new(texts.with_labels()?)),
        _ => Err(Error::unsupported(format!(
            "no column can have a number for every token of {name:?}, which are made as they \
             are read"
        ))),
    }
}
