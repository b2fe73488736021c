"""The hooks of the site: file names above code blocks, and llms.txt."""

from __future__ import annotations

import runpy
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

HOOKS = Path(__file__).parent.parent.parent / "docs" / "hooks.py"


@pytest.fixture
def hooks() -> dict[str, Any]:
    return runpy.run_path(str(HOOKS))


def page(name: str) -> Any:
    return SimpleNamespace(file=SimpleNamespace(src_uri=name))


def test_code_block_shows_the_name_of_its_file(hooks: dict[str, Any]) -> None:
    text = "# T\n\n<!-- file: a.py -->\n```python\nx = 1\n```\n"
    shown = hooks["on_page_markdown"](text, page("t.md"))
    assert shown == '# T\n\n```python title="a.py"\nx = 1\n```\n'


def test_llms_txt_lists_the_pages_by_section(hooks: dict[str, Any], tmp_path: Path) -> None:
    pages = {
        "a.md": "# First\n\n<!-- needs: x -->\n\nSee [b](b.md). More.\n",
        "b.md": "# Second\n\n| a |\n|---|\n\nUse `it`:\n",
    }
    for name, text in pages.items():
        hooks["on_page_markdown"](text, page(name))
    nav = [{"Home": "index.md"}, {"Guides": ["a.md", {"More": ["b.md"]}]}]
    hooks["on_post_build"]({"site_dir": str(tmp_path), "nav": nav})
    lines = (tmp_path / "llms.txt").read_text("utf-8").splitlines()
    assert lines[-3:] == ["", "- [First](a.md): See b.", "- [Second](b.md): Use `it`."]
    assert "## Guides" in lines
    assert "<!--" not in (tmp_path / "a.md").read_text("utf-8")
    assert "# Second" in (tmp_path / "llms-full.txt").read_text("utf-8")
