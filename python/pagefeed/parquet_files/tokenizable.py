"""Columns of texts taken for tokens: a method of datasets, mixed into them."""

from __future__ import annotations

import datetime
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar, NamedTuple, Self, cast

import numpy as np

from pagefeed import _core
from pagefeed.aligned import parse_aligned
from pagefeed.core._base import LABELS, Facts, check_flag, in_order, lazy
from pagefeed.core.dataset import PageIndex, ParquetRows, SourceKind, footer_of
from pagefeed.core.storage import Storage
from pagefeed.errors import InvalidArgumentError
from pagefeed.parsing import SENSELESS

if TYPE_CHECKING:
    from pagefeed.text import TokenizedIndex
    from pagefeed.tokenizer import Rows, TextOfRow, Tokenizer, TrainOn

KEY = "pagefeed.tokenizer"
MOST_FILES = 16
"""Files of a dataset that are read, evenly from first to last."""


class RecordedTokenizer(NamedTuple):
    """The tokenizer of a file's tokens."""

    name: str
    """Name of the tokenizer, for messages."""
    fingerprint: str
    """Fingerprint of the tokenizer."""
    vocab_size: int
    """Ids are below."""
    file: str
    """File that records it."""


def recorded_tokenizer(
    storage: Storage, files: tuple[str, ...]
) -> RecordedTokenizer | None:
    """Return the tokenizer that files of a dataset record; None if none records one.

    Raises:
        InvalidArgumentError: If two of them name different tokenizers.
    """
    file_numbers = np.linspace(0, len(files) - 1, min(len(files), MOST_FILES)).astype(
        int
    )
    chosen = [files[file_number] for file_number in file_numbers.tolist()]
    tokenizer = None
    for other in in_order(lambda file: tokenizer_of_file(storage, file), chosen):
        if tokenizer is not None and other is not None:
            if tokenizer.fingerprint != other.fingerprint:
                raise InvalidArgumentError(
                    f"{tokenizer.file} has tokens of {tokenizer.name} "
                    f"({tokenizer.fingerprint}), {other.file} of {other.name} "
                    f"({other.fingerprint}): a dataset has tokens of one tokenizer"
                )
        else:
            tokenizer = tokenizer or other
    return tokenizer


def tokenizer_of_file(storage: Storage, file: str) -> RecordedTokenizer | None:
    """Return the tokenizer that a file records; None if it records none."""
    recorded = _core.footer_value(footer_of(storage, file), KEY)
    try:
        record = {} if recorded is None else json.loads(recorded)
        return RecordedTokenizer(
            str(record["name"]),
            str(record["fingerprint"]),
            int(record["vocab_size"]),
            file,
        )
    except SENSELESS:
        return None  # The key is missing, or another program wrote it.


@dataclass(frozen=True, kw_only=True, repr=False)
class Tokenizable(ParquetRows):
    """Parquet files whose column holds tokens, or texts that a tokenizer encodes."""

    tokenizer: Tokenizer | None = None
    """The tokenizer of the column, if it holds texts."""
    row_encoder: Rows | None = None
    """Encodes rows, if the column does not hold plain texts."""
    _records_tokenizer: ClassVar[bool] = True
    """Whether files of this kind may record the tokenizer of their tokens."""
    _require_labels: bool = True
    """Refuse chats in which no token has a label."""

    @property
    def kind(self) -> SourceKind:
        """Kind of the source, a column of the table of options."""
        return "tokens" if self.tokenizer is None else "text"

    @property
    def has_columns_of_files(self) -> bool:
        """Whether the indexes of its columns are those of the files."""
        return self.tokenizer is None and super().has_columns_of_files

    def _token_index(self, index: PageIndex) -> PageIndex:
        if self.tokenizer is None:
            return super()._token_index(index)
        return self._tokenized(index, self.tokenizer)

    def _index_beside(self, column: str) -> PageIndex:
        if self.row_encoder is not None and self.aligned and column == LABELS:
            return cast("TokenizedIndex", self.index.plain).labels
        return super()._index_beside(column)

    def _tokenized(self, index: PageIndex, tokenizer: Tokenizer) -> TokenizedIndex:
        from pagefeed.text import TextColumn, tokenized
        from pagefeed.tokenizer import check_learned

        rows = self.row_encoder
        names = () if rows is None else rows.columns[1:]
        beside = tuple(self.column_index(name) for name in names)
        index_of_tokens = tokenized(TextColumn(index, tokenizer, rows, beside))
        if rows is not None and rows.has_labels:
            required = self._require_labels
            check_learned(
                index_of_tokens.num_learned,
                index_of_tokens.num_written,
                required=required,
            )
        return index_of_tokens

    @lazy
    def recorded_tokenizer(self) -> RecordedTokenizer | None:
        """The tokenizer of the tokens, as recorded by ``tokenize``; None if unknown.

        It reads the footers of some files.

        Raises:
            InvalidArgumentError: If two of the files name different ones.
        """
        files = self.files if self._records_tokenizer else ()
        return recorded_tokenizer(self.storage, files)

    def check_tokenizer(self, tokenizer: Tokenizer) -> None:
        """Refuse a tokenizer that is not the one that made the tokens.

        Raises:
            InvalidArgumentError: Naming both.
        """
        from pagefeed.tokenizer import require_tokenizer

        require_tokenizer(tokenizer)
        recorded = self.recorded_tokenizer
        if recorded and recorded.fingerprint != tokenizer.fingerprint:
            raise InvalidArgumentError(
                f"{recorded.file} has tokens of {recorded.name} "
                f"({recorded.fingerprint}), not of {tokenizer.name} "
                f"({tokenizer.fingerprint}): give the one that made them"
            )

    @lazy
    def recorded_vocab_size(self) -> int | None:
        """Size of the vocabulary, from the tokenizer or the first file.

        None if unknown.
        """
        if self.tokenizer is not None:
            return self.tokenizer.vocab_size
        if not self.files or not self._records_tokenizer:
            return None
        recorded = tokenizer_of_file(self.storage, self.files[0])
        return None if recorded is None else recorded.vocab_size

    def labels_end(self, token: int) -> bool:
        """Whether rows have labels that teach a token at their end."""
        rows = self.row_encoder
        return rows is not None and rows.writes(token)

    def facts(self) -> Facts:
        """Return facts that are known without reading or building anything."""
        return {**super().facts(), "tokenizer": self.tokenizer and self.tokenizer.name}

    def tokenize(
        self,
        tokenizer: Tokenizer,
        *,
        text: TextOfRow | None = None,
        columns: Sequence[str] = (),
        messages: str | None = None,
        tools: str | None = None,
        roles: Mapping[str, str] | None = None,
        chat_template: str | None = None,
        train_on: TrainOn = "answers",
        mask: Iterable[str] = (),
        today: datetime.date | None = None,
        require_labels: bool = True,
    ) -> Self:
        r"""Return a dataset of the tokens of the column's texts.

        It works like any other dataset: with all sequences, shuffles, mixtures and
        parts of it, and it resumes. When the tokens of its rows are first needed, one
        pass over all texts counts them. ``pagefeed count`` makes this pass ahead, and a
        cache folder keeps the counts. From then on texts are encoded as their pages are
        loaded. For texts that are too many to be counted first, use a
        :class:`TextLoader`.

        A text in a struct (``column="doc.text"``) is taken as it is. The non-empty
        texts of a list become lines of one text.

        Args:
            tokenizer: What encodes the texts.
            text: What makes the text of a row: a template over columns such as
                ``"{title}\n\n{doc.text}"``, or a function of a row, a dict of the
                column and those that ``columns`` names, which returns a text or None.
                Runs in Python, on the loader's threads. Needs ``pagefeed[pyarrow]``.
            columns: Further columns that such a function reads.
            messages: Name of the column if it holds chats. The chat template renders
                them, and batches have ``labels`` with the tokens: -100 except where
                the assistant speaks. Templates run in Python, on the loader's threads.
                Needs ``pagefeed[chat,pyarrow]``.
            tools: A column of the tools of each chat.
            roles: Names that the template uses for roles of the data, such as
                ``{"model": "assistant"}``.
            chat_template: A template to use instead of the tokenizer's.
            train_on: ``"last"`` labels only answers after the last message of a user,
                ``"weighted"`` messages of any role whose ``weight`` is 1.
            mask: Parts of answers without labels: ``"reasoning"``, ``"tool_calls"``,
                ``"tool_results"``.
            today: The date for templates that write the current date.
            require_labels: Refuse the dataset if no chat has a learned token; if some
                have none, warn. False accepts them.

        Returns:
            A dataset of the same rows.

        Raises:
            InvalidArgumentError: If ``tokenizer`` is not a tokenizer, or the dataset is
                tokenized already. For chats, if there is no template, or none that can
                be used.
            MissingDependencyError: For chats, if jinja2 is not installed.

        Example:
            >>> tok = Tokenizer("tokenizer.json")  # doctest: +SKIP
            >>> web = parquet("web/", column="text").tokenize(tok)  # doctest: +SKIP
        """
        from pagefeed.tokenizer import on_day, require_tokenizer, row_encoder

        require_tokenizer(tokenizer)
        if self.tokenizer is not None or self.aligned:
            raise InvalidArgumentError(
                "tokenize takes texts: the dataset has aligned columns of tokens that "
                f"are in the files, or is tokenized already: {self}"
            )
        rows = row_encoder(
            tokenizer,
            self.column,
            messages=messages,
            tools=tools,
            roles=roles,
            template=chat_template,
            train_on=train_on,
            mask=mask,
            text=text,
            columns=columns,
        )
        rows = on_day(rows, today)
        texts = replace(
            self,
            selection=None,
            erasures=(),
            tokenizer=tokenizer,
            row_encoder=rows,
            _require_labels=check_flag(require_labels, "require_labels"),
        )
        if rows is not None and rows.has_labels:
            texts = replace(texts, aligned=parse_aligned([LABELS], [self.column]))
        return self.over(texts)
