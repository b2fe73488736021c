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


def test_page_of_the_api_reference_is_written_as_it_is_shown(hooks: dict[str, Any]) -> None:
    pytest.importorskip("markdownify")
    hooks["on_page_markdown"]("# A\n\n::: accord.Agent\n", page("a.md"))
    link = '<a class="headerlink" href="#b" title="Link">&para;</a>'
    hooks["on_page_content"](
        f"<h1>A{link}</h1><h2>set_title{link}</h2><p>Set it.</p>", page("a.md")
    )
    assert hooks["texts"]["a.md"] == "# A\n\n## set_title\n\nSet it."


def test_changelog_is_a_page_with_links_for_its_folder(
    hooks: dict[str, Any], tmp_path: Path
) -> None:
    files = pytest.importorskip("mkdocs.structure.files")
    load_config = pytest.importorskip("mkdocs.config").load_config
    (tmp_path / "docs").mkdir()
    (tmp_path / "mkdocs.yml").write_text("site_name: x\n", "utf-8")
    (tmp_path / "CHANGELOG.md").write_text("See [Errors](docs/reference/errors.md).\n", "utf-8")
    config = load_config(str(tmp_path / "mkdocs.yml"))
    config.plugins._current_plugin = "hooks"  # as in a build
    [added] = hooks["on_files"](files.Files([]), config)
    assert added.src_uri == "changelog.md"
    assert added.content_string == "See [Errors](reference/errors.md).\n"
