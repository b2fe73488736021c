"""Every code block of the docs runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from codeblocks import Page, extract, wanted

ROOT = Path(__file__).parent.parent.parent
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted(ROOT.glob("docs/**/*.md"))]
WITH_CODE = [page for page in PAGES if any(map(wanted, extract(page.read_text("utf-8"))))]


@pytest.mark.parametrize("page", WITH_CODE, ids=lambda page: str(page.relative_to(ROOT)))
def test_page_runs(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Page(str(page), tmp_path).run(extract(page.read_text("utf-8")))


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
