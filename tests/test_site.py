"""Pages of the site lead on, and say when they were true."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from made.shared_data import ROOT

sys.path.insert(0, str(ROOT / "packaging"))
from check_site import faults

MKDOCS = ROOT / ".venv/docs/bin/mkdocs"
PAGE = """<h1 id="a">A</h1>
<p class="checked">True of version 1, last changed 2026-01-02.
<a href="./">Glossary</a></p>
<a class="md-footer__link md-footer__link--prev"><a class="md-footer__link--next">
"""


def test_a_page_that_leads_nowhere_is_found(tmp_path):
    pages = ["first.html", "second.html", "third.html"]
    for name in pages:
        (tmp_path / name).write_text(PAGE)
    assert not faults(tmp_path, pages, date=True)
    for part in ("<h1 ", "True of", "Glossary", "2026", "link--prev", "link--next"):
        (tmp_path / "second.html").write_text(PAGE.replace(part, ""))
        [fault] = faults(tmp_path, pages, date=True)
        assert fault.startswith("second.html has not ")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site, as `make docs` builds it: strictly."""
    if not MKDOCS.exists():
        pytest.skip("mkdocs is not installed: `make docs` does it")
    folder: Path = tmp_path_factory.mktemp("site")
    subprocess.run(
        [MKDOCS, "build", "--strict", "--quiet", "--site-dir", folder],
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": "python:packaging", "NO_MKDOCS_2_WARNING": "1"},
        check=True,
    )
    return folder


def test_links_of_the_site_lead_to_its_pages(site):
    pages = sorted(site.rglob("index.html"))
    assert len(pages) > 200
    for page in pages:
        for link in re.findall(r'<a href="([^":#?]+)["#]', page.read_text()):
            assert (page.parent / link).exists(), f"{page}: {link}"
