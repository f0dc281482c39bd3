"""Texts without token counts, read in passes that can begin anywhere."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, NoReturn

from pagefeed.core._base import Facts, html_of, text_of
from pagefeed.core.dataset import Dataset, Source, SourceKind
from pagefeed.core.wiring import provided
from pagefeed.errors import UncountedError
from pagefeed.tokenizer import Tokenizer

__all__ = ["UncountedText"]


@dataclass(frozen=True, kw_only=True, repr=False)
class UncountedText(Source):
    """Texts whose tokens are not counted; made by ``tokenize(count=False)``.

    A :class:`Loader` of it begins at once. Its sequences have no numbers, so that
    nothing can be planned or looked up ahead.
    """

    texts: Dataset
    """The rows, and the column of texts."""
    tokenizer: Tokenizer
    """Tokenizer of the texts."""

    can_seek: ClassVar[bool] = False
    has_length: ClassVar[bool] = False

    @property
    def kind(self) -> SourceKind:
        """Kind of the source: the table of options has a column for each kind."""
        return "uncounted"

    @property
    def parts(self) -> Mapping[str, Dataset]:
        """The texts, which have no name."""
        return {"": self.texts}

    def open_session(self, settings: Any) -> Any:
        """Return what delivers it."""
        return provided("session of uncounted text")(settings)

    @property
    def column(self) -> str:
        """The column of texts."""
        return self.texts.column

    @property
    def files(self) -> tuple[str, ...]:
        """Names of the files, in the order of the dataset."""
        return self.texts.files

    @property
    def fingerprint(self) -> str:
        """Identifies the contents: the texts and the tokenizer."""
        text = f"uncounted {self.texts.fingerprint} {self.tokenizer.fingerprint}"
        return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()

    def infill(self, infill: object) -> NoReturn:
        """Raise an error: infilling needs the lengths of documents.

        Raises:
            UncountedError: Always.
        """
        raise UncountedError(
            f"infill({infill!r:.60}) needs documents of known lengths, and these texts "
            "are not counted: give tokenize(tokenizer) without count=False"
        )

    def erase(self, **documents: object) -> NoReturn:  # noqa: ARG002
        """Raise an error: erasing needs counted tokens.

        Raises:
            UncountedError: Always.
        """
        raise UncountedError(
            "erase() keeps the place of every token, and these texts are not counted: "
            "give tokenize(tokenizer) without count=False, or select the others by "
            "where() of the texts"
        )

    def facts(self) -> Facts:
        """Return facts that are known without reading or building anything."""
        facts = dict(self.texts.facts())
        facts |= {"tokens": None, "tokenizer": self.tokenizer.name, "counted": False}
        return facts

    def __repr__(self) -> str:
        return text_of(type(self).__name__, self.facts())

    def _repr_html_(self) -> str:
        return html_of(type(self).__name__, self.facts())
