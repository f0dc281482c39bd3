"""What is said of texts that cannot be encoded."""

from collections.abc import Sequence

from pagefeed.errors import InvalidArgumentError

__all__ = ["no_text"]


def no_text(texts: Sequence[object]) -> InvalidArgumentError:
    """Return the error of the first that is no text."""
    for number, text in enumerate(texts):
        if not isinstance(text, str):
            return InvalidArgumentError(
                f"text {number} is {type(text).__name__}, not str: decode bytes first"
            )
        try:
            text.encode()
        except UnicodeEncodeError as problem:
            return InvalidArgumentError(
                f"text {number} is not Unicode text: {problem}; read it with "
                "errors='replace', or leave it out"
            )
    return InvalidArgumentError("texts must be a list of str")
