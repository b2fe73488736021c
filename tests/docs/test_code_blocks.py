"""Every code block of the docs runs."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import NoReturn

import pytest
from _pytest.mark import ParameterSet

from codeblocks import NEEDS, Block, NotInstalled, Page, extract, missing, wanted

ROOT = Path(__file__).parent.parent.parent
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted(ROOT.glob("docs/**/*.md"))]
NOT_RUN = [
    (page, block)
    for page in PAGES
    for block in extract(page.read_text("utf-8"))
    if block.note == "skip"
]
WITH_CODE = [page for page in PAGES if any(map(wanted, extract(page.read_text("utf-8"))))]


def with_mark(page: Path) -> ParameterSet:
    """Return the page as a parameter, with a mark if it needs more packages."""
    text = page.read_text("utf-8")
    more = NEEDS.search(text) or any(block.note == "run" and block.value for block in extract(text))
    marks = [pytest.mark.programs] if more else []
    return pytest.param(page, marks=marks, id=str(page.relative_to(ROOT)))


@pytest.mark.parametrize("page", [with_mark(page) for page in WITH_CODE])
def test_page_runs(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = page.read_text("utf-8")
    if names := missing(text):
        leave_out(f"not installed: {', '.join(names)}; sh tests/docs/install.sh")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))  # modules written by the page
    modules = set(sys.modules)
    programs = Path(sys.executable).parent  # where `accord` is
    monkeypatch.setenv("PATH", f"{programs}{os.pathsep}{os.environ['PATH']}")
    try:
        Page(str(page), tmp_path).run(extract(text))
    except NotInstalled as exc:
        leave_out(str(exc))
    finally:
        for name in set(sys.modules) - modules:
            file = getattr(sys.modules[name], "__file__", None)
            if file is not None and Path(file).is_relative_to(tmp_path):
                del sys.modules[name]


def leave_out(reason: str) -> NoReturn:
    if os.environ.get("ACCORD_REQUIRE_INTEROP"):
        pytest.fail(reason)
    pytest.skip(reason)


@pytest.mark.parametrize(
    ("page", "block"),
    NOT_RUN,
    ids=[f"{page.relative_to(ROOT)}:{block.line}" for page, block in NOT_RUN],
)
def test_block_that_does_not_run_has_a_reason(page: Path, block: Block) -> None:
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
