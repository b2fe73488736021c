"""Hooks of mkdocs: the changelog, file names above code blocks, and llms.txt and llms-full.txt.

llms.txt lists the pages with their first sentences; each page is also written as Markdown. The
pages of the API reference have their text from docstrings: they are converted from HTML.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

SUMMARY = """\
# Accord

> The Agent Client Protocol (ACP) for Python: agents, clients, a command line and a conformance kit,
> for version 1 and 2 of the protocol.

All pages in one file: [llms-full.txt](llms-full.txt)
"""
# A comment that only the tests read, and the code block that it belongs to.
FILE = re.compile(r"^<!-- file: (.+?) -->\n```(\w+)$", re.MULTILINE)
COMMENT = re.compile(r"^[ \t]*<!--.*?-->[ \t]*\n", re.MULTILINE | re.DOTALL)
texts: dict[str, str] = {}


def on_pre_build(**_: Any) -> None:
    """Forget the pages of an earlier build."""
    texts.clear()


def on_files(files: Any, config: Any, **_: Any) -> Any:
    """Add CHANGELOG.md, whose links are made for the folder that it is in."""
    from mkdocs.structure.files import File

    changelog = Path(config["config_file_path"]).with_name("CHANGELOG.md").read_text("utf-8")
    text = changelog.replace("](docs/", "](")
    files.append(File.generated(config, "changelog.md", content=text))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Show the names of files, and remember a page without its comments."""
    markdown = FILE.sub(r'```\2 title="\1"', markdown)
    texts[page.file.src_uri] = COMMENT.sub("", markdown).strip()
    return markdown


def on_page_content(html: str, page: Any, **_: Any) -> str:
    """Remember a page of the API reference as it is shown."""
    if "\n::: " in texts[page.file.src_uri]:
        from markdownify import markdownify

        html_only = re.sub(r'<a [^>]*class="headerlink".*?</a>', "", html, flags=re.DOTALL)
        text = markdownify(
            html_only,
            heading_style="ATX",
            strip=["a", "span"],
            escape_underscores=False,
            escape_asterisks=False,
        )
        texts[page.file.src_uri] = re.sub(r"\n{3,}", "\n\n", text).strip()
    return html


def on_post_build(config: Any, **_: Any) -> None:
    """Write the list, each page, and all pages in one file."""
    site = Path(config["site_dir"])
    pages = _by_section(config["nav"])
    lines = [SUMMARY]
    for section, names in pages.items():
        lines.append(f"\n## {section}\n")
        lines += [f"- [{_title(texts[name])}]({name}){_about(texts[name])}" for name in names]
    (site / "llms.txt").write_text("\n".join(lines) + "\n", "utf-8")
    for name, text in texts.items():
        (site / name).write_text(text + "\n", "utf-8")
    ordered = [texts[name] for names in pages.values() for name in names]
    (site / "llms-full.txt").write_text("\n\n---\n\n".join(ordered) + "\n", "utf-8")


def _by_section(nav: list[Any]) -> dict[str, list[str]]:
    return {
        section: list(_names(entries))
        for entry in nav
        if isinstance(entry, dict)
        for section, entries in entry.items()
        if isinstance(entries, list)
    }


def _names(entries: Any) -> list[str]:
    if isinstance(entries, str):
        return [entries]
    if isinstance(entries, dict):
        entries = list(entries.values())
    return [name for entry in entries for name in _names(entry)]


def _title(text: str) -> str:
    return text.partition("\n")[0].lstrip("# ")


def _about(text: str) -> str:
    for paragraph in re.split(r"\n{2,}", text)[1:]:
        if paragraph[0].isalpha() or paragraph[0] in "`[":
            sentence = re.split(r"(?<=[.:])\s", re.sub(r"\[(.*?)\]\(.*?\)", r"\1", paragraph))[0]
            return f": {' '.join(sentence.split()).rstrip(':.')}."
    return ""
