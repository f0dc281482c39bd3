"""Links between files of the repository lead somewhere; `make docs` checks its own."""

import re
import subprocess
import tomllib

from made.prose import CODE
from made.shared_data import ROOT

LINK = re.compile(r"\]\(([^)\s]+)\)")
LISTED = ["git", "ls-files", "*.md"]
PAGES = subprocess.run(LISTED, cwd=ROOT, capture_output=True, text=True, check=True)


def slugs_of(page: str) -> set[str]:
    """The anchors of headings, as sites make them."""
    headings = re.findall(r"^#+ +(.*)$", CODE.sub("", page), re.MULTILINE)
    plain = (re.sub(r"[^\w\s-]", "", each.lower()).strip() for each in headings)
    return {re.sub(r"[-\s]+", "-", each) for each in plain}


def test_links_of_files_lead_to_files_and_headings():
    links = [
        (name, link)
        for name in PAGES.stdout.split()
        for link in LINK.findall(CODE.sub("", (ROOT / name).read_text()))
    ]
    for name, link in links:
        path, _, anchor = link.partition("#")
        target = (ROOT / name).parent / path if path else ROOT / name
        if re.match(r"\w+:", link):  # Other sites.
            continue
        assert target.exists(), (name, link)
        assert not anchor or anchor in slugs_of(target.read_text()), (
            name,
            link,
        )


def test_the_index_shows_pictures_once_the_project_has_an_address():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    pictures = re.findall(r"!\[[^\]]*\]\(([^)]+)\)", (ROOT / "README.md").read_text())
    assert pictures
    if "urls" in project:  # The index shows no file of the repository.
        assert all(picture.startswith("https://") for picture in pictures)
