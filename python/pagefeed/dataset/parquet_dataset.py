"""A dataset of Parquet files: what rows there are, and parts of them."""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, cast, overload

from pagefeed._base import Facts, check_flag, is_made, lazy, require
from pagefeed.dataset import select
from pagefeed.dataset.aligned import check_aligned_index, parse_aligned
from pagefeed.dataset.dataset import Dataset
from pagefeed.dataset.folders import FolderColumn, folder_columns
from pagefeed.dataset.index_recipe import (
    IndexRecipe,
    PageIndexUse,
    cache_folder,
    part_of,
)
from pagefeed.dataset.page_index import PageIndex
from pagefeed.dataset.recorded import (
    RecordedTokenizer,
    recorded_tokenizer,
    tokenizer_of_file,
)
from pagefeed.dataset.select import Constant, Expression
from pagefeed.dataset.shared_index import SharedIndex
from pagefeed.dataset.source import SourceKind
from pagefeed.dataset.table_columns import TableColumns
from pagefeed.dataset.text import (
    TextColumn,
    TokenizedIndex,
    UncountedText,
    tokenized,
)
from pagefeed.errors import ColumnNotFoundError, InvalidArgumentError, MissingFileError
from pagefeed.storage import Storage
from pagefeed.tokenizer import (
    LABELS,
    Rows,
    TextOfRow,
    Tokenizer,
    check_learned,
    on_day,
    rows_of,
)

__all__ = ["ParquetDataset"]


@dataclass(frozen=True, kw_only=True, repr=False)
class ParquetDataset(Dataset):
    """Parquet files read as one dataset; made by :func:`pagefeed.parquet`."""

    _page_index: PageIndexUse = True
    """How pages are found."""
    verify_checksums: bool = True
    """Verify checksums where they are present."""
    storage: Storage = field(default_factory=Storage)
    """The storage of the files."""
    tokenizer: Tokenizer | None = None
    """The tokenizer of the column, if it holds texts."""
    row_encoder: Rows | None = None
    """Encodes rows, if the column does not hold plain texts."""
    table: TableColumns | None = None
    """What a table says of its columns, if the files are of one."""
    shared: SharedIndex | None = None
    """The index that was written for all nodes, if it was given."""
    _of_more_files: Mapping[str, PageIndex] = field(default_factory=dict)
    """Indexes of columns of these files and of more, which need not be built again."""
    _require_labels: bool = True
    """Refuse chats in which no token has a label."""

    def __getstate__(self) -> dict[str, Any]:
        """Pickle without indexes of other files."""
        return {**vars(self), "_of_more_files": {}}

    def _plain_index(self) -> PageIndex:
        index = self._build_index(self.column)
        # A column that does not exist is an error here.
        for name in (*self.metadata, *self.span_columns):
            if name != self.column:
                self.source_of(name)
        if self.tokenizer is not None:
            return self._tokenized(index, self.tokenizer)
        for each in self.aligned:
            beside = self._build_index(each.column)
            check_aligned_index(index, beside, each)
            self._column_indexes[each.column] = self._beside(each.column, beside)
        return index

    def _tokenized(self, index: PageIndex, tokenizer: Tokenizer) -> TokenizedIndex:
        rows = self.row_encoder
        names = () if rows is None else rows.columns[1:]
        beside = tuple(self.column_index(name) for name in names)
        found = tokenized(TextColumn(index, tokenizer, rows, beside))
        if rows is not None and rows.has_labels:
            required = self._require_labels
            check_learned(found.num_learned, found.num_written, required=required)
        return found

    def _build_index(self, column: str) -> PageIndex:
        table = self.table
        recipe = IndexRecipe(
            files=self.files,
            storage=self.storage,
            column=column,
            cache_dir=cache_folder(self.cache_dir),
            page_index=self._page_index,
            verify_checksums=self.verify_checksums,
            table=table,
            shared=self.shared,
            constants=self._constants_of(column),
        )
        if column in self._of_more_files:
            core = self._of_more_files[column].core
            return PageIndex(part_of(recipe, core), recipe)
        if table is None:
            return PageIndex.of(recipe)
        try:
            return PageIndex.of(recipe)
        except MissingFileError as error:
            error.add_note(
                f"the table had it at {table.snapshot}, and a compaction or a vacuum "
                "removed it: keep the files of a snapshot until the end of the runs "
                "that read it"
            )
            raise
        except ColumnNotFoundError as error:
            if column.partition(".")[0] not in table.types:
                raise
            error.add_note(
                "files that were written before a table got a column lack it: with "
                'missing="null" its rows are null for where() and metadata; tokens are '
                "not made up: write such files anew"
            )
            raise

    def with_files(
        self,
        numbers: Sequence[int],
        why: Literal["pruned", "without_rows"] | None = None,
    ) -> ParquetDataset:
        """Return the same of some of its files.

        Args:
            numbers: Their numbers, rising.
            why: As what a table remembers the others.
        """
        if why is not None and len(numbers) == len(self.files):
            return self
        table = None if self.table is None else self.table.with_files(numbers)
        files = tuple(self.files[number] for number in numbers)
        if table is not None and why is not None:
            gone = getattr(table, why) | ({*self.files} - {*files})
            table = replace(table, **{why: gone})
        part = replace(
            self,
            files=files,
            table=table,
            selection=None,
            erasures=(),
            _of_more_files=self._indexes(),
        )
        return self._over(part)

    def _indexes(self) -> Mapping[str, PageIndex]:
        """Indexes that were built, of columns as the files have them."""
        if self.tokenizer is not None or self.infilling is not None:
            return {}
        is_built = is_made(self, "index") or (
            self.selection is not None and is_made(self.selection, "index")
        )
        own = {self.column: self.index} if is_built else {}
        return {**self._of_more_files, **self._column_indexes, **own}

    def _over(self, part: ParquetDataset) -> ParquetDataset:
        """Return a dataset with the selection and the erasures of this one."""
        if self.selection is None and not self.erasures:
            return part
        spans, chosen = part.spans, self.selection
        return replace(
            part,
            selection=None if chosen is None else chosen.over(spans),
            erasures=tuple(each.over(spans) for each in self.erasures),
        )

    @property
    def kind(self) -> SourceKind:
        """What it is: the table of options says what each kind can do."""
        return "tokens" if self.tokenizer is None else "text"

    def column_index(self, column: str) -> PageIndex:
        """Return the page index of any column of the same rows."""
        if column == self.column:
            return self.index
        if column not in self._column_indexes:
            is_made = self.aligned and self.row_encoder is not None
            plain = (
                cast("TokenizedIndex", self.plain_index).labels
                if is_made and column == LABELS
                else self._build_index(column)
            )
            self._column_indexes[column] = self._beside(column, plain)
        return self._column_indexes[column]

    def source_of(self, column: str) -> PageIndex | FolderColumn:
        """Return where any column of the same rows comes from.

        Raises:
            ColumnNotFoundError: If neither the files nor the names of their folders
                have it, nor what a table says of them.
        """
        table = self.table
        if table is not None and table.decides(column):
            return table.of_files[column]
        try:
            return self.column_index(column)
        except ColumnNotFoundError:
            constants = self._constants_of(column)
            if constants is None and table is None:
                constants = folder_columns(self.files).get(column)
            if constants is None or constants.is_given is not None:
                raise
            return constants

    def _constants_of(self, column: str) -> FolderColumn | None:
        """Return what rows of files have that lack a column of a table."""
        of_tokens = {self.column, *(each.column for each in self.aligned)}
        if self.table is None or column in of_tokens:
            return None
        return self.table.constants_of(column, len(self.files))

    @lazy
    def _column_indexes(self) -> dict[str, PageIndex]:
        return {}

    @lazy
    def schema(self) -> Any:
        """The columns of the first file and of folders: a ``pyarrow.Schema``.

        What ``where``, ``tiers`` and ``metadata`` can name; other files may differ.

        Raises:
            MissingDependencyError: If pyarrow is not installed.
        """
        require("pyarrow", extra="pyarrow", purpose="the schema of files")
        return select.schema_of(self._named_files, 0)

    @property
    def _named_files(self) -> select.Files:
        """The files with their columns that are not stored in them."""
        table = self.table
        columns = folder_columns(self.files) if table is None else table.of_files
        return select.Files(self.storage, self.files, columns, table)

    @lazy
    def recorded_tokenizer(self) -> RecordedTokenizer | None:
        """The tokenizer of the tokens, as files of ``tokenize`` say; else None.

        Footers of some of the files are read.

        Raises:
            InvalidArgumentError: If two of the files name different ones.
        """
        return recorded_tokenizer(self.storage, self.files)

    @lazy
    def recorded_vocab_size(self) -> int | None:
        """Ids are below it, as the tokenizer or the first file says; else None."""
        if self.tokenizer is not None:
            return self.tokenizer.vocab_size
        if not self.files:
            return None
        found = tokenizer_of_file(self.storage, self.files[0])
        return None if found is None else found.vocab_size

    def check_tokenizer(self, tokenizer: Tokenizer) -> None:
        """Refuse a tokenizer that is not the one that made the tokens.

        Raises:
            InvalidArgumentError: Naming both.
        """
        found = self.recorded_tokenizer
        if found and found.fingerprint != tokenizer.fingerprint:
            raise InvalidArgumentError(
                f"{found.file} has tokens of {found.name} ({found.fingerprint}), not "
                f"of {tokenizer.name} ({tokenizer.fingerprint}): give the one that "
                "made them"
            )

    @property
    def columns(self) -> list[str]:
        """Names of all columns, those of folders included, see :attr:`schema`."""
        return list(self.schema.names)

    def facts(self) -> Facts:
        """Return what is known without reading or building anything."""
        facts = dict(super().facts())
        tokenizer = None if self.tokenizer is None else self.tokenizer.name
        table = None if self.table is None else self.table.snapshot
        pruned = None if self.table is None else len(self.table.pruned) or None
        column = facts.pop("column")
        of_table = {"table": table, "pruned": pruned}
        return {"column": column, **of_table, "tokenizer": tokenizer, **facts}

    @overload
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
        today: datetime.date | None = None,
        require_labels: bool = True,
        count: Literal[True] = True,
    ) -> ParquetDataset: ...
    @overload
    def tokenize(
        self, tokenizer: Tokenizer, *, count: Literal[False]
    ) -> UncountedText: ...
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
        today: datetime.date | None = None,
        require_labels: bool = True,
        count: bool = True,
    ) -> ParquetDataset | UncountedText:
        r"""Take the column, which holds texts, for the tokens that they come to.

        The dataset is then like any other: all sequences, shuffles, mixtures and parts
        of it work, and resume. The tokens of every row are counted when they are first
        needed: one pass over all texts, which ``pagefeed count`` does ahead and a cache
        folder keeps. From then on texts are encoded as their pages are loaded.

        A text in a struct (``column="doc.text"``) is taken as it is, and the texts of a
        list that are not empty as lines of one.

        Args:
            tokenizer: What encodes the texts.
            text: What makes the text of a row: a template over columns such as
                ``"{title}\n\n{doc.text}"``, or a function of a row, a dict of the
                column and those that ``columns`` names, which returns a text or None.
                Runs in Python, on the loader's threads. Needs ``pagefeed[pyarrow]``.
            columns: Further columns that such a function reads.
            messages: The column holds chats, and this is its name: they are rendered by
                the chat template, and batches have ``labels`` beside the tokens: -100
                where it is not the assistant who speaks. Templates run in Python, on
                the loader's threads. Needs ``pagefeed[chat,pyarrow]``.
            tools: A column of the tools of each chat.
            roles: What roles of the data are called in the template, such as
                ``{"model": "assistant"}``.
            chat_template: A template in the place of the tokenizer's.
            today: The day that a template writes which asks for it.
            require_labels: Refuse chats of which nothing is learned in any; some such
                are warned of. False takes them.
            count: False for texts that are too many to be counted first: a loader of
                :class:`Windows` begins at once, joins and cuts
                the documents of each of its lanes as they come, and its state is where
                these are. Nothing is known ahead: no length, ``seek`` or ``locate``.

        Returns:
            A dataset of the same rows; without counts a :class:`UncountedText` of them.

        Raises:
            InvalidArgumentError: If it is no tokenizer, or the dataset has one; of
                chats, if there is no template, or none that can be used.
            MissingDependencyError: Of chats, if jinja2 is not installed.

        Example:
            >>> tok = Tokenizer("tokenizer.json")  # doctest: +SKIP
            >>> web = parquet("web/", column="text").tokenize(tok)  # doctest: +SKIP
        """
        if not isinstance(tokenizer, Tokenizer):
            raise InvalidArgumentError(
                f"tokenize({tokenizer!r:.60}): give pagefeed.Tokenizer(...) of a "
                "tokenizer.json, a model, or a function"
            )
        if self.tokenizer is not None or self.aligned:
            raise InvalidArgumentError(
                "tokenize takes texts: the dataset has aligned columns of tokens that "
                f"are in the files, or is tokenized already: {self}"
            )
        rows = rows_of(
            tokenizer,
            self.column,
            messages=messages,
            tools=tools,
            roles=roles,
            template=chat_template,
            text=text,
            columns=columns,
        )
        rows = on_day(rows, today)
        if not check_flag(count, "count"):
            if self.erasures:
                raise InvalidArgumentError(
                    "count=False streams texts, and erased documents keep the places "
                    "of tokens that are counted: select the others by where()"
                )
            if rows is not None:
                raise InvalidArgumentError(
                    "count=False streams texts: chats, and texts made of rows, are "
                    "counted first, leave it out"
                )
            return UncountedText(texts=self, tokenizer=tokenizer)
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
        return self._over(texts)

    def where(self, predicate: str | Expression) -> ParquetDataset:
        """Select the rows for which a predicate over other columns is true.

        Folders such as ``lang=en/`` give columns as well. Only these columns are read,
        once; with a cache folder the result is kept beside the index. A comparison with
        null is neither true nor false, as in SQL.

        Of a table, files are left out of which no row is selected, and its metadata
        prove that of most before they are opened; the columns are read at once.

        Args:
            predicate: Text such as ``"quality > 0.8 and lang in ['en', 'de']"``, or a
                ``pyarrow.compute.Expression``. Columns are named as they are, nested
                ones by their dotted path, any other by ``column('any name')``.

        Returns:
            A dataset of these rows. Of two predicates one after the other, both hold.

        Raises:
            InvalidArgumentError: If it is not a predicate over such columns.
            ColumnNotFoundError: If there is no such column; lists those there are.
            MissingDependencyError: If pyarrow is not installed.

        Example:
            >>> good = web.where("quality > 0.8 and lang == 'en'")  # doctest: +SKIP
            >>> len(good)  # doctest: +SKIP
        """
        if not self._leaves_files_out:
            return self._of(select.where(self.spans, predicate))
        # A run is the same whatever the table proves: all files without such rows go.
        numbers = select.files_that_may_match(self._named_files, predicate)
        part = self.with_files(numbers or [0], "pruned")
        chosen = select.where(part.spans, predicate)
        held = chosen.held_files or range(len(part.files))
        return replace(part, selection=chosen).with_files(held, "without_rows")

    @property
    def _leaves_files_out(self) -> bool:
        """Whether files without selected rows are no files of the selection."""
        counts_rows = self.selection is not None and self.selection.counts_rows
        is_plain = self.tokenizer is None and self.infilling is None
        return self.table is not None and is_plain and not counts_rows

    def tiers(
        self,
        column: str,
        *,
        edges: Sequence[Constant] | None = None,
        quantiles: int | None = None,
    ) -> dict[str, ParquetDataset]:
        """Divide the rows by the value of a column.

        Args:
            column: A column with one value per row, by its dotted path; or one that
                folders name (``year=2024/``).
            edges: Rising values: rows below the first one, from the first one on, ...
            quantiles: Instead, the number of tiers with equally many rows.

        Returns:
            Datasets by name, from the lowest values to the highest; each row is in
            one. Rows without a value (null or NaN) are the last one, ``"quality is
            null"``, which is left out if there are none.

        Raises:
            InvalidArgumentError: If edges do not rise, or equal values would have to
                be divided.
            ColumnNotFoundError: If there is no such column; lists those there are.
            MissingDependencyError: If pyarrow is not installed.

        Example:
            >>> list(web.tiers("quality", edges=[0.3, 0.8]))  # doctest: +SKIP
            ['quality < 0.3', '0.3 <= quality < 0.8', 'quality >= 0.8']
        """
        return self._parts(select.by_tiers(self.spans, column, edges, quantiles))

    def by_length(
        self, edges: Sequence[int], *, column: str | None = None
    ) -> dict[str, ParquetDataset]:
        """Divide the rows by their number of tokens.

        Args:
            edges: Rising numbers of tokens.
            column: A column that has the number. Without one the pages of all rows
                are read, once.

        Returns:
            Datasets by name, from short rows to long ones; each row is in one.

        Raises:
            InvalidArgumentError: If edges are not rising numbers.

        Example:
            >>> list(web.by_length([512, 4096]))  # doctest: +SKIP
            ['tokens < 512', '512 <= tokens < 4096', 'tokens >= 4096']
        """
        if column is not None:
            return self.tiers(column, edges=edges)
        return super().by_length(edges)
