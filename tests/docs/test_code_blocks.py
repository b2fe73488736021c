"""Every code block of the docs runs."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import NoReturn

import pytest
from _pytest.mark import ParameterSet

from codeblocks import NEEDS, NotInstalled, Page, extract, missing, wanted
from forked import forked_programs

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
        with forked_programs(names=True):
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


def test_block_that_does_not_run_is_not_python() -> None:
    for page, block in NOT_RUN:
        assert block.language != "python", f"{page}:{block.line}: all of them can be run somehow"


def test_written_files_are_used_and_pages_have_titles() -> None:
    for page in PAGES:
        text = page.read_text("utf-8")
        assert text.startswith("# "), page
        blocks = extract(text)
        for block in blocks:
            if block.note == "file":
                others = [other.code for other in blocks if other is not block]
                stem = block.value.removesuffix(".py")
                assert any(stem in code for code in others), f"{page}: nothing runs {block.value}"
