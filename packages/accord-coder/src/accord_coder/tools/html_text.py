"""Converts HTML to plain text for models: headings, lists, links and code.

Pages can be hostile, so they are read in one pass: an unclosed element lasts to the end of the
page. The parser of the standard library, which markdownify uses by default, takes minutes for
100 KB of `<a <a <a …`; markdownify also fails on deeply nested elements.
"""

from __future__ import annotations

import html
import re
from collections import Counter
from string import ascii_lowercase, ascii_uppercase

_SILENT = frozenset({"head", "noscript", "script", "style", "svg", "template"})
_BLOCKS = frozenset(
    """
    address article aside blockquote dd details div dl dt fieldset figcaption figure footer form
    h1 h2 h3 h4 h5 h6 header hr li main nav ol p pre section summary table td th tr ul
    """.split()  # noqa: SIM905  # a list of words
)


_RAW = frozenset({"script", "style"})  # their content is not HTML
_ASCII_LOWER = str.maketrans(dict(zip(map(ord, ascii_uppercase), ascii_lowercase, strict=True)))
_NAME = re.compile(r"[a-z][^\s/>]*", re.IGNORECASE)
_ATTRIBUTE = re.compile(r"[^\s/>=][^\s/>=]*")
_BLANK = re.compile(r"\s*")
_SPACE = re.compile(r"[\s/]*")
_UNQUOTED = re.compile(r"[^\s>]*")


def text_of_html(page: str) -> str:
    """Return the text of a page; text that is not HTML is returned almost unchanged."""
    reader = _Reader()
    _read(page, reader)
    return reader.text()


def _read(page: str, reader: _Reader) -> None:
    """Pass the tags and texts of a page to a reader."""
    lower = page.translate(_ASCII_LOWER)
    at, end, text_begins = 0, len(page), 0
    while (at := page.find("<", at)) >= 0:
        closes = page.startswith("/", at + 1)
        name = _NAME.match(page, at + 1 + closes)
        if name is None and not (closes or page.startswith(("!", "?"), at + 1)):
            at += 1  # an ordinary character
            continue
        reader.handle_data(_unescaped(page[text_begins:at]))
        if name is None:
            comment = page.startswith("!--", at + 1)
            found = page.find("-->" if comment else ">", at + 2)
            at = end if found < 0 else found + (3 if comment else 1)
        else:
            tag = name[0].translate(_ASCII_LOWER)
            attributes, at = _attributes(page, name.end())
            if closes:
                reader.handle_endtag(tag)
            else:
                reader.handle_starttag(tag, attributes)
                if tag in _RAW:
                    found = lower.find(f"</{tag}", at)
                    at = end if found < 0 else found
        text_begins = at
    reader.handle_data(_unescaped(page[text_begins:]))


def _attributes(page: str, at: int) -> tuple[dict[str, str], int]:
    """Return the attributes of a tag, and its end."""
    found: dict[str, str] = {}
    while True:
        at = _matched(_SPACE, page, at)
        if at >= len(page) or page[at] == ">":
            return found, min(at + 1, len(page))
        begins = at
        at = _matched(_ATTRIBUTE, page, at) if page[at] != "=" else at + 1
        name = page[begins:at].translate(_ASCII_LOWER)
        value_at = _matched(_BLANK, page, at)
        if not page.startswith("=", value_at):
            continue
        at = _matched(_BLANK, page, value_at + 1)
        quote = page[at : at + 1]
        if quote and quote in "\"'":
            closed = page.find(quote, at + 1)
            closed = len(page) if closed < 0 else closed
            value, at = page[at + 1 : closed], closed + 1
        else:
            begins, at = at, _matched(_UNQUOTED, page, at)
            value = page[begins:at]
        found.setdefault(name, _unescaped(value))


def _matched(expression: re.Pattern[str], page: str, at: int) -> int:
    """Return the end of the match of an expression."""
    found = expression.match(page, at)
    return at if found is None else found.end()


def _unescaped(text: str) -> str:
    try:
        return html.unescape(text)
    except ValueError:  # a number with thousands of digits
        return text


class _Reader:
    def __init__(self) -> None:
        self._parts: list[str] = []
        self._silent: list[str] = []  # open elements without visible text
        self._silent_counts: Counter[str] = Counter()
        self._links: list[str | None] = []
        self._pre = 0
        self._title: list[str] | None = None
        self._titles: list[str] = []

    def handle_starttag(self, tag: str, attributes: dict[str, str]) -> None:
        if tag == "title" and not self._titles:
            self._title = []
        if tag in _SILENT:
            self._silent.append(tag)
            self._silent_counts[tag] += 1
        if self._silent:
            return
        if tag == "br":
            self._parts.append("\n")
        elif tag in _BLOCKS:
            self._parts.append("\n")
            self._begin_block(tag)
        elif tag == "a":
            self._links.append(attributes.get("href"))
        elif tag == "img" and (alt := attributes.get("alt")):
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
            if self._silent_counts[tag]:
                popped = ""
                while popped != tag:
                    popped = self._silent.pop()
                    self._silent_counts[popped] -= 1
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
        """Return the text without redundant white space."""
        text = "".join(self._parts)
        lines = [line.rstrip() for line in text.split("\n")]
        lines = [line[1:] if line.startswith(" ") and line[1:2] != " " else line for line in lines]
        body = re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).strip("\n")
        title = self._titles[0] if self._titles else ""
        return f"{title}\n\n{body}".strip("\n") + "\n"
