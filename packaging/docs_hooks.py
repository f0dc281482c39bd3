"""Pages of the documentation that are made of the package: a reference of every name.

MkDocs calls `on_files`; the pages are made in memory, from signatures and docstrings.
"""

from __future__ import annotations

import json
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page
from reference_pages import errors_page, names_pages, verbs_page, with_links

NAMES = "reference/names"
"""Folder of the pages of public names."""


def on_page_markdown(
    markdown: str, page: Page, config: MkDocsConfig, files: Files
) -> str:
    """Link the public names in the table of all names to their pages."""
    del config, files
    if page.file.src_uri != "reference/api.md":
        return markdown
    return with_links(markdown, names_pages(), "names")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add a page for the public names and one for the command line."""
    pages = {
        "reference/errors.md": errors_page(),
        "reference/command-line.md": verbs_page(),
    }
    pages |= {f"{NAMES}/{name}.md": text for name, text in names_pages().items()}
    for path in Path(config.docs_dir).glob("notebooks/*.ipynb"):
        pages[f"notebooks/{path.stem}.md"] = _notebook_page(path)
    for name, text in pages.items():
        files.append(File.generated(config, name, content=text))
    return files


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Fill the navigation: recipes by their titles, and the generated pages."""
    parts = {name: pages for part in config.nav or () for name, pages in part.items()}
    parts["Recipes"] += _titles(Path(config.docs_dir), "recipes")
    parts["Notebooks"] += [
        {
            _notebook_page(path)
            .partition("\n")[0]
            .lstrip("# "): f"notebooks/{path.stem}.md"
        }
        for path in sorted(Path(config.docs_dir).glob("notebooks/*.ipynb"))
    ]
    parts["Reference"] += [
        {"Classes and functions": [f"{NAMES}/{name}.md" for name in names_pages()]},
        {"Errors": "reference/errors.md"},
        {"Command line": "reference/command-line.md"},
    ]
    return config


def _titles(docs: Path, folder: str) -> list[dict[str, str]]:
    """Return the pages of a folder by their titles, its index first."""
    pages = (docs / folder).glob("*.md")
    titles = {page.read_text().partition("\n")[0].lstrip("# "): page for page in pages}
    order = sorted(titles, key=lambda title: (titles[title].stem != "index", title))
    return [{title: f"{folder}/{titles[title].name}"} for title in order]


def _notebook_page(path: Path) -> str:
    """A notebook as Markdown: its texts, its code, and what that printed."""
    lines = []
    for cell in json.loads(path.read_text())["cells"]:
        source = "".join(cell["source"])
        if cell["cell_type"] == "markdown":
            lines += [source, ""]
            continue
        is_command = source.startswith("!")
        lines += [
            "```bash" if is_command else "```python",
            source.lstrip("!"),
            "```",
            "",
        ]
        for output in cell["outputs"]:
            lines += ["```text", "".join(output["text"]).rstrip(), "```", ""]
    name = f"[{path.name}]({path.name})"
    return "\n".join([*lines, f"Run it yourself: {name}."])
