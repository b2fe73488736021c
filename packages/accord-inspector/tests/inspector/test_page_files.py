"""The files of the page: nothing from other hosts, nothing inline, HTML in one place only."""

from __future__ import annotations

import re
from pathlib import Path

import accord_inspector
from accord_terminal import conversation

PAGES = (
    Path(accord_inspector.__file__).parent / "page",
    Path(conversation.__file__).parent / "page",
)
MOST_LINES = 500


def test_page_names_no_other_host_and_parses_no_html() -> None:
    files = [file for page in PAGES for file in page.rglob("*") if file.is_file()]
    assert len(files) > 40
    for file in files:
        text = file.read_text("utf-8").replace("http://www.w3.org/2000/svg", "")
        assert not re.search(r"https?://(?!127|\$)|[\"'(]//[a-z]", text), file
        assert "<script>" not in text, file
        assert not re.search(r"\bstyle=|insertAdjacentHTML|outerHTML|\beval\(", text), file


def test_html_is_inserted_in_one_function() -> None:
    files = [file for page in PAGES for file in page.rglob("*.js")]
    found = [file.name for file in files if "innerHTML" in file.read_text("utf-8")]
    assert len(found) == 1, found


def test_files_are_short() -> None:
    long = {
        file.name: lines
        for page in PAGES
        for file in page.rglob("*.js")
        if (lines := file.read_text("utf-8").count("\n")) > MOST_LINES
    }
    assert not long, long


def test_no_file_of_the_page_hides_one_of_the_conversation() -> None:
    own, shared = ({file.name for file in page.iterdir()} for page in PAGES)
    assert not own & shared
