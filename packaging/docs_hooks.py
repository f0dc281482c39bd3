"""Pages of the documentation that are made of the package: a reference of every name.

MkDocs calls `on_files`; the pages are made in memory, from signatures and docstrings.
"""

from __future__ import annotations

import html
import inspect
import json
import posixpath
import re
import subprocess
from functools import cache, partial
from itertools import cycle
from pathlib import Path

from check_site import faults
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files
from mkdocs.structure.nav import Navigation
from mkdocs.structure.pages import Page
from reference_pages import (
    errors_page,
    linked_table,
    names_pages,
    public_names,
    subjects,
    verbs_page,
    with_links,
)

import pagefeed

NAMES = "reference/names"
"""Folder of the pages of public names."""
LONG = 24
"""A word of code with as many characters breaks, where a line ends inside it."""
LONG_IN_TABLES = 14
BREAK = re.compile(r"(?<=\w)(?<!\bpf)([._/=(\[,]+)(?=\w)(?!(?:py|json|md)\b)")
"""Where long words break: behind signs between names, but not before a suffix."""
LONGEST_LINE = 100
"""Printed lines with more characters than this are wrapped."""
PAGES: list[str] = []
"""Paths of all pages, in the order of the navigation."""
TEXTS: dict[str, tuple[str, str]] = {}
"""URL and Markdown of each guide, by the path of its page."""
TABLE = "reference/api.md"
"""The table of all names, by subject."""


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Fill the navigation: recipes and names by subject, and the generated pages."""
    docs = Path(config.docs_dir)
    parts = {name: pages for part in config.nav or () for name, pages in part.items()}
    parts["Recipes"] += _recipes(docs)
    parts["Notebooks"] += [
        {_title(_notebook_page(path)): f"notebooks/{path.stem}.md"}
        for path in sorted(docs.glob("notebooks/*.ipynb"))
    ]
    by_subject = subjects((docs / TABLE).read_text(), names_pages())
    parts["Reference"] += [
        {"Errors": "reference/errors.md"},
        {"Command line": "reference/command-line.md"},
    ]
    parts["Reference"] += [
        {subject: [f"{NAMES}/{name}.md" for name in names]}
        for subject, names in by_subject.items()
    ]
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages of public names, errors, the command line and notebooks."""
    docs = Path(config.docs_dir)
    pages = {
        "reference/errors.md": errors_page(),
        "reference/command-line.md": verbs_page(),
    }
    for path in docs.glob("notebooks/*.ipynb"):
        pages[f"notebooks/{path.stem}.md"] = _notebook_page(path)
    names = names_pages()
    written = {
        str(path.relative_to(docs)): path.read_text() for path in docs.rglob("*.md")
    }
    used = _uses(written | pages, names)
    for name, text in names.items():
        pages[f"{NAMES}/{name}.md"] = text + used[name]
    for name, text in pages.items():
        files.append(File.generated(config, name, content=text))
    return files


def on_page_markdown(
    markdown: str, page: Page, config: MkDocsConfig, files: Files
) -> str:
    """Link names to their pages, and say which version the page is true of."""
    del files
    source = page.file.src_uri
    names = dict(names_pages())
    own = posixpath.basename(source).removesuffix(".md")
    if source.startswith(NAMES):
        names.pop(own)  # No page links to itself.
    if source == TABLE:
        markdown = linked_table(markdown)
    else:
        folder = posixpath.relpath(NAMES, posixpath.dirname(source) or ".")
        markdown = with_links(markdown, names, folder)
    root = Path(config.docs_dir).parent
    if not source.startswith(NAMES):
        TEXTS[page.file.dest_uri] = (page.url, markdown)
    markdown = _with_guides(markdown, root, posixpath.dirname(source))
    date = _dates(str(root)).get(_written_in(source, root))
    changed = f", last changed {date}" if date else ""
    version = f"True of version {pagefeed.__version__}{changed}."
    glossary = posixpath.relpath("reference/words", page.url or ".")
    words = f'<a href="{glossary}/">Glossary</a>'
    return f'{markdown}\n\n<p class="checked">{version} {words}</p>\n'


def on_nav(nav: Navigation, config: MkDocsConfig, files: Files) -> None:
    """Keep the order of the pages."""
    del config, files
    PAGES[:] = [page.file.dest_uri for page in nav.pages]


def on_post_build(config: MkDocsConfig) -> None:
    """Write texts for programs; refuse pages that lead nowhere or have no date."""
    _write_texts(config)
    dates = _dates(str(Path(config.docs_dir).parent))
    if lacking := faults(Path(config.site_dir), PAGES, date=bool(dates)):
        raise PluginError("\n".join(lacking))


def _write_texts(config: MkDocsConfig) -> None:
    """Write llms.txt, what each guide is about, and llms-full.txt, all their text."""
    lines = [f"# {config.site_name}", "", f"> {config.site_description}", ""]
    whole = []
    for url, text in (TEXTS[path] for path in PAGES if path in TEXTS):
        first = " ".join(text.partition("\n")[2].strip().partition("\n\n")[0].split())
        said = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", first)
        lines.append(f"- [{_title(text)}]({url or './'}): {said}")
        whole.append(text)
    site = Path(config.site_dir)
    (site / "llms.txt").write_text("\n".join([*lines, ""]))
    (site / "llms-full.txt").write_text("\n\n".join([*whole, ""]))


def _with_guides(markdown: str, root: Path, folder: str) -> str:
    """Return a page on which docstrings link the guides that they name by path."""

    def link(match: re.Match[str]) -> str:
        path = match[1]
        title = _title((root / "docs" / path).read_text())
        return f"[{title}]({posixpath.relpath(path, folder or '.')})"

    return re.sub(r"`?(?<![\w/])docs/([\w/-]+\.md)`?", link, markdown)


def _written_in(source: str, root: Path) -> str:
    """Return the path of the file that a page is made of."""
    folder, name = posixpath.split(source.removesuffix(".md"))
    if (root / "docs" / source).exists():
        return f"docs/{source}"
    if folder == NAMES:
        written = inspect.getsourcefile(inspect.unwrap(public_names()[name]))
        return str(Path(written or "").relative_to(root))
    return {
        "reference/errors": "python/pagefeed/errors.py",
        "reference/command-line": "python/pagefeed/cli/__init__.py",
    }.get(source.removesuffix(".md"), f"docs/{folder}/{name}.ipynb")


def on_page_content(
    content: str, page: Page, config: MkDocsConfig, files: Files
) -> str:
    """Wrap long lines of output, and let names break behind a dot or an underscore."""
    del page, config, files
    content = re.sub(
        r'<div class="highlight(?=">(.*?)</pre>)',
        # A search finds words of texts: code is a third of all words.
        lambda block: (
            block[0].replace("<div", "<div data-search-exclude")
            + " wrapped" * _has_long_lines(block[1])
        ),
        content,
        flags=re.DOTALL,
    )
    parts = re.split(r"(<table>.*?</table>)", content, flags=re.DOTALL)
    return "".join(
        re.sub(
            r"(?<!</span>)(?<!<pre>)<code>([^<]*)</code>",
            partial(_breakable, long=LONG_IN_TABLES if is_table else LONG),
            part,
        )
        for part, is_table in zip(parts, cycle((False, True)), strict=False)
    )


def _has_long_lines(block: str) -> bool:
    text = html.unescape(re.sub(r"<[^>]*>", "", block))
    return any(len(line) > LONGEST_LINE for line in text.splitlines())


def _breakable(code: re.Match[str], long: int) -> str:
    """Return the code in which long words break between their parts, others nowhere."""
    words = [
        BREAK.sub(r"\1<wbr>", word)
        if len(html.unescape(word)) >= long
        else re.sub(r".*[-/].*", r'<span class="word">\g<0></span>', word)
        for word in code[1].split(" ")
    ]
    return f"<code>{' '.join(words)}</code>"


def _uses(pages: dict[str, str], names: dict[str, str]) -> dict[str, str]:
    """Return, by name, the list of the guides that use it."""
    found: dict[str, list[str]] = {name: [] for name in names}
    for path, text in sorted(pages.items()):
        if path.startswith("reference/"):
            continue
        for name in set(
            re.findall(r"\(NAMES/([\w.]+)\.md", with_links(text, names, "NAMES"))
        ):
            found[name].append(f"- [{_title(text)}](../../{path})")
    return {
        name: "\n".join(["", "## Guides that use it", "", *lines, ""]) if lines else ""
        for name, lines in found.items()
    }


@cache
def _dates(root: str) -> dict[str, str]:
    """Return the day of the last change of each page, as git knows it."""
    command = [
        "git",
        "-C",
        root,
        "log",
        "--format=%x00%cs",
        "--name-only",
        "--",
        "docs",
        "python",
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    dates: dict[str, str] = {}
    for commit in done.stdout.split("\0")[1:]:
        day, *paths = commit.split("\n")
        for path in filter(None, paths):
            dates.setdefault(path, day)
    return dates


def _recipes(docs: Path) -> list[dict[str, list[dict[str, str]] | str]]:
    """Return the recipes by subject, as their index has them."""
    index = (docs / "recipes/index.md").read_text()
    rows = re.findall(r"^\| (\w[^|]*) \| (.+) \|$", index, re.MULTILINE)
    entries: list[dict[str, list[dict[str, str]] | str]] = [
        {_title(index): "recipes/index.md"}
    ]
    for subject, links in rows:
        names = re.findall(r"\(([\w-]+\.md)\)", links)
        pages = [
            (_title((docs / "recipes" / name).read_text()), name) for name in names
        ]
        entries.append({subject: [{title: f"recipes/{name}"} for title, name in pages]})
    return entries


def _title(text: str) -> str:
    return text.partition("\n")[0].lstrip("# ")


def _notebook_page(path: Path) -> str:
    """A notebook as Markdown: its texts, its code, and what that printed."""
    lines = []
    for cell in json.loads(path.read_text())["cells"]:
        source = "".join(cell["source"])
        if cell["cell_type"] == "markdown":
            lines += [source, ""]
            continue
        is_command = source.startswith(("!", "%"))
        lines += [
            "```bash" if is_command else "```python",
            source.lstrip("!%"),
            "```",
            "",
        ]
        for output in cell["outputs"]:
            lines += ["```text", "".join(output["text"]).rstrip(), "```", ""]
    name = f"[{path.name}]({path.name})"
    return "\n".join([*lines, f"Run it yourself: {name}."])
