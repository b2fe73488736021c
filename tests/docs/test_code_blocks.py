"""Every code block of the docs runs."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from codeblocks import Block, Page, extract, wanted

ROOT = Path(__file__).parent.parent.parent
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted(ROOT.glob("docs/**/*.md"))]
NOT_RUN = [
    (page, block)
    for page in PAGES
    for block in extract(page.read_text("utf-8"))
    if block.note == "skip"
]
WITH_CODE = [page for page in PAGES if any(map(wanted, extract(page.read_text("utf-8"))))]


@pytest.mark.parametrize("page", WITH_CODE, ids=lambda page: str(page.relative_to(ROOT)))
def test_page_runs(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    programs = Path(sys.executable).parent  # where `accord` is
    monkeypatch.setenv("PATH", f"{programs}{os.pathsep}{os.environ['PATH']}")
    Page(str(page), tmp_path).run(extract(page.read_text("utf-8")))


@pytest.mark.parametrize(
    ("page", "block"),
    NOT_RUN,
    ids=[f"{page.relative_to(ROOT)}:{block.line}" for page, block in NOT_RUN],
)
def test_block_that_is_not_run_says_why(page: Path, block: Block) -> None:
    assert block.language != "python", "all of them can be run somehow"
    pytest.skip(f"{page.relative_to(ROOT)}:{block.line}: {block.value}")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_written_file_is_used(page: Path) -> None:
    text = page.read_text("utf-8")
    for block in extract(text):
        if block.note == "file":
            others = [other.code for other in extract(text) if other is not block]
            stem = block.value.removesuffix(".py")
            assert any(stem in code for code in others), f"{block.value} is run by no block"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_page_has_a_title(page: Path) -> None:
    assert page.read_text("utf-8").startswith("# ")
