"""The reference that is made of docstrings reads as these were written."""

import importlib.util
import re
from itertools import chain

import pytest

import pagefeed
from made.shared_data import ROOT


@pytest.fixture(scope="module")
def pages():
    path = ROOT / "packaging" / "reference_pages.py"
    spec = importlib.util.spec_from_file_location("reference_pages", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def paragraphs(text):
    """The paragraphs outside code."""
    return re.sub(r"```.*?```", "", text, flags=re.DOTALL).split("\n\n")


def test_causes_and_remedies_are_paragraphs_with_whole_code_spans(pages):
    page = pages.errors_page()
    kinds = [getattr(pagefeed.errors, name) for name in pagefeed.errors.__all__]
    codes = [kind.code for kind in kinds if hasattr(kind, "code")]
    assert page.count("**Cause**") == len(codes) - 1  # Not of the base of all.
    for head, body in zip(paragraphs(page), paragraphs(page)[1:], strict=False):
        if head.strip() in ("**Cause**", "**Remedy**"):
            assert not body.lstrip().startswith("- ")
            assert body.count("`") % 2 == 0


def test_no_page_breaks_a_code_span(pages):
    texts = [pages.errors_page(), *pages.names_pages().values()]
    for text in texts:
        for paragraph in paragraphs(text):
            items = re.split(r"\n(?=- )", paragraph)
            assert all(item.count("`") % 2 == 0 for item in items), paragraph


def test_each_name_has_a_page_and_the_table_links_it(pages):
    names = pages.names_pages()
    assert len({name.lower() for name in names}) == len(names)
    assert all(text.startswith(f"# {name}\n") for name, text in names.items())
    table = (ROOT / "docs" / "reference" / "api.md").read_text()
    linked = pages.linked_table(table)
    missing = [name for name in names if f"[`{name}`](names/{name}.md)" not in linked]
    assert not missing
    by_subject = pages.subjects(table, names)
    assert sorted(chain.from_iterable(by_subject.values())) == sorted(names)
    assert "Loader" in by_subject["Sequences and batches"]


def test_names_link_where_they_come_first(pages):
    text = """# `Loader`

Give `pf.Loader` a `tokens` column, `Loader` again, and `loader.seek(3)`.
No `loader.no(1)`. A [`Packed`](other.md) stays, and `pf.tokens` links.

```python
`Windows`
```
"""
    linked = pages.with_links(text, pages.names_pages(), "names")
    assert linked.startswith("# `Loader`\n")
    assert "Give [`pf.Loader`](names/Loader.md) a `tokens` column, `Loader`" in linked
    assert "[`loader.seek(3)`](names/Loader.md#seek).\nNo `loader.no(1)`." in linked
    assert "A [`Packed`](other.md) stays, and [`pf.tokens`](names/tokens.md)" in linked
    assert "`Windows`\n```" in linked
