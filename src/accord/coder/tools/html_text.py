"""HTML as plain text that models can read: headings, lists, links and code, no more."""

from __future__ import annotations

import re
from html.parser import HTMLParser

__all__ = ("text_of_html",)

_SILENT = frozenset({"head", "noscript", "script", "style", "svg", "template"})
_BLOCKS = frozenset(
    """
    address article aside blockquote dd details div dl dt fieldset figcaption figure footer form
    h1 h2 h3 h4 h5 h6 header hr li main nav ol p pre section summary table td th tr ul
    """.split()  # noqa: SIM905  # a list of words
)


def text_of_html(html: str) -> str:
    """Return the text; what is no HTML comes out as it is, more or less."""
    reader = _Reader()
    reader.feed(html)
    reader.close()
    return reader.text()


class _Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self._parts: list[str] = []
        self._silent: list[str] = []
        self._links: list[str | None] = []
        self._pre = 0
        self._title: list[str] | None = None
        self._titles: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "title" and not self._titles:
            self._title = []
        if tag in _SILENT:
            self._silent.append(tag)
        if self._silent:
            return
        if tag == "br":
            self._parts.append("\n")
        elif tag in _BLOCKS:
            self._parts.append("\n")
            self._begin_block(tag)
        elif tag == "a":
            self._links.append(dict(attrs).get("href"))
        elif tag == "img" and (alt := dict(attrs).get("alt")):
            self._parts.append(f"[{alt}]")

    def _begin_block(self, tag: str) -> None:
        if tag[0] == "h" and tag[1:].isdigit():
            self._parts.append("\n" + "#" * int(tag[1:]) + " ")
        elif tag == "li":
            self._parts.append("- ")
        elif tag == "p":
            self._parts.append("\n")
        elif tag == "pre":
            self._pre += 1

    def handle_endtag(self, tag: str) -> None:
        if tag == "title" and self._title is not None:
            self._titles.append("".join(self._title).strip())
            self._title = None
        if self._silent:
            if tag in self._silent:
                while self._silent.pop() != tag:
                    pass
            return
        if tag in _BLOCKS:
            self._parts.append("\n")
            if tag == "pre" and self._pre:
                self._pre -= 1
        elif tag == "a" and self._links:
            href = self._links.pop()
            if href and href.startswith(("http://", "https://", "/")):
                self._parts.append(f" ({href})")

    def handle_data(self, data: str) -> None:
        if self._title is not None:
            self._title.append(data)
        if not self._silent:
            self._parts.append(data if self._pre else re.sub(r"\s+", " ", data))

    def text(self) -> str:
        """Return what was read, without the white space that means nothing."""
        text = "".join(self._parts)
        lines = [line.rstrip() for line in text.split("\n")]
        lines = [line[1:] if line.startswith(" ") and line[1:2] != " " else line for line in lines]
        body = re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).strip("\n")
        title = self._titles[0] if self._titles else ""
        return f"{title}\n\n{body}".strip("\n") + "\n"
