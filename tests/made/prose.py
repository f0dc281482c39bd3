"""The prose of a Markdown page: its paragraphs, sentences and words."""

import re
from collections.abc import Iterator

CODE = re.compile(r"^ *```.*?^ *```\s*$", flags=re.DOTALL | re.MULTILINE)
COMMENT = re.compile(r"<!--.*?-->", flags=re.DOTALL)
ITEM = re.compile(r"^ *(?:[-*]|\d+\.) +", flags=re.MULTILINE)
INLINE = re.compile(r"`[^`]*`")
LINK = re.compile(r"!?\[([^\]]*)\]\([^)]*\)")
# Ends where the next sentence begins; a colon or semicolon goes on.
END = re.compile(r"(?<=[.?!])(?:[*)\"']*)\s+(?=[A-Z`*\"(\[]|pagefeed )")
WORD = re.compile(r"[^\W\d_](?:[\w'-]*\w)?|`|\d[\w.,]*")


def paragraphs_of(page: str) -> Iterator[str]:
    """Paragraphs and items of lists: no code, tables, headings or comments."""
    text = COMMENT.sub("\n\n", CODE.sub("\n\n", page))
    for part in re.split(r"\n\s*\n", text):
        lines = [
            line
            for line in part.splitlines()
            if not line.lstrip().startswith(("|", "#", "!!!", "???", "<"))
        ]
        for item in ITEM.split("\n".join(lines)):
            if item.strip():
                yield " ".join(item.split())


def sentences_of(page: str) -> Iterator[str]:
    """Sentences, in which a stretch of inline code is one word: a backquote."""
    for paragraph in paragraphs_of(page):
        plain = LINK.sub(r"\1", INLINE.sub("`", paragraph))
        yield from (part for part in END.split(plain) if part)


def words_of(sentence: str) -> list[str]:
    """Words and numbers; code counts as one."""
    return WORD.findall(sentence)


def first_paragraph(page: str) -> str:
    """What stands right below the title: empty where that is code or a table."""
    body = page.partition("\n")[2].lstrip()
    return (
        "" if body.startswith("```") else next(paragraphs_of(body.split("\n\n")[0]), "")
    )
