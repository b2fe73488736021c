"""Markdown of agents as HTML that cannot run, load or hide anything; needs `markdown-it-py`.

HTML in the source is shown as text. A link leads only to `http`, `https` and `mailto`, and its
address is shown. Images become links. Characters that hide text are escaped.

`html_of` renders a text, `MarkdownParts` a growing one, and `page_of` a conversation as a file that
can be sent to others. `closed_markdown` keeps a code block that was not closed from swallowing what
follows in a Markdown file.
"""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Iterable, Sequence
from typing import Any

from markdown_it import MarkdownIt
from markdown_it.common.utils import escapeHtml
from markdown_it.rules_core import StateCore
from markdown_it.token import Token

from accord.text.excerpt import visible

SCHEMES = ("http://", "https://", "mailto:")
PART_CHARS = 2_000  # a longer text is split where a block ends
MAX_PART_CHARS = 32_000  # a longer block is split at a line end

_STYLE = """
:root { color-scheme: light dark; --text: #1b1b1f; --muted: #55555f; --page: #fff; --code: #f1f1f4;
  --line: #8a8a95; --link: #0b57a4; --added: #0b5a22; --removed: #a3121c; --accent: #0b57a4 }
@media (prefers-color-scheme: dark) { :root { --text: #e6e6ea; --muted: #b3b3bd; --page: #17171a;
  --code: #242429; --line: #7d7d88; --link: #8ec5ff; --added: #7fdc98; --removed: #ff9aa0;
  --accent: #8ec5ff } }
* { box-sizing: border-box }
body { margin: 0; background: var(--page); color: var(--text);
  font: 1rem/1.6 system-ui, sans-serif; overflow-wrap: anywhere }
main { max-width: 52rem; margin: 0 auto; padding: 1.5rem 1rem 4rem }
h1, h2, h3 { line-height: 1.25 }
h1 ~ h1 { font-size: 1.35rem }
h2 { margin-top: 2.5rem; padding-top: 1rem; border-top: 1px solid var(--line) }
a { color: var(--link) }
.address { color: var(--muted); font-size: .85em }
code, pre { font: .875rem/1.5 ui-monospace, monospace; background: var(--code) }
code { padding: .1em .25em; border-radius: 3px }
pre { padding: .75rem; border-radius: 4px; overflow-x: auto; overflow-wrap: normal }
pre code { padding: 0 }
ins { color: var(--added); text-decoration: none }
del { color: var(--removed) }
pre del { text-decoration: none }
blockquote { margin: 1rem 0; padding: 0 0 0 1rem; border-left: 4px solid var(--accent);
  color: var(--muted) }
.table { overflow-x: auto }
table { border-collapse: collapse }
th, td { border: 1px solid var(--line); padding: .3rem .6rem; text-align: left;
  overflow-wrap: normal }
.align-center { text-align: center }
.align-right { text-align: right }
img { max-width: 100% }
"""
_PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy"
 content="default-src 'none'; img-src data:; style-src 'sha256-{digest}'">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="referrer" content="no-referrer">
<title>{title}</title>
<style>{style}</style>
</head>
<body>
<main>
{body}</main>
</body>
</html>
"""
_DIGEST = base64.b64encode(hashlib.sha256(_STYLE.encode()).digest()).decode()


def html_of(text: str) -> str:
    """Return a text as HTML."""
    return _parser.render(visible(text.replace("\r\n", "\n")))


def page_of(title: str, parts: Iterable[str]) -> str:
    """Return texts of Markdown as a page of HTML in one file, which loads and runs nothing.

    Each text is rendered on its own, so one that ends in a list or in code does not change others.
    Lines of code blocks in `diff` are coloured. The page fits a phone, and light and dark screens.
    """
    body = "".join(_page_parser.render(visible(part.replace("\r\n", "\n"))) for part in parts)
    return _PAGE.format(title=escapeHtml(visible(title)), style=_STYLE, digest=_DIGEST, body=body)


def closed_markdown(text: str) -> str:
    """Return a text of Markdown; if it ends in an open code block, with the end of the block."""
    tokens = _parser.parse(text)
    if not tokens or tokens[-1].type != "fence" or tokens[-1].map is None:
        return text
    begin, end = tokens[-1].map
    last = text.rstrip("\n").split("\n")[-1]
    fence = tokens[-1].markup
    if end - begin > 1 and re.fullmatch(rf" {{0,3}}{re.escape(fence)}{fence[0]}*[ \t]*", last):
        return text
    return f"{text.rstrip(chr(10))}\n{fence}"


class MarkdownParts:
    """A growing text as parts of HTML, of which only the last one still changes."""

    __slots__ = ("_closed_chars", "_env", "_opening", "parts")

    def __init__(self) -> None:
        self.parts: list[str] = []
        self._closed_chars = 0  # of the text in all parts but the last
        self._opening = ""  # of the code block that the last part continues
        self._env: dict[str, Any] = {}  # has the link definitions

    def update(self, text: str) -> int:
        """Render the new text; return the number of parts that did not change."""
        kept = max(len(self.parts) - 1, 0)
        del self.parts[kept:]
        while True:
            tail = text[self._closed_chars :].replace("\r\n", "\n")
            source = self._opening + visible(tail)
            tokens = _parser.parse(source, self._env)
            blocks = [t for t in tokens if t.level == 0 and t.map is not None and t.nesting >= 0]
            line = self._split_line(source, blocks)
            if line is None:
                self.parts.append(self._html(tokens))
                return kept
            if blocks[-1].map is not None and blocks[-1].map[0] == line:
                before = tokens[: tokens.index(blocks[-1])]
            else:  # a block is cut
                lines = source.split("\n")
                before = _parser.parse("\n".join(lines[:line]), self._env)
            self.parts.append(self._html(before))
            closed = len(self._raw_lines(text, line - self._opening.count("\n")))
            self._opening = next((_opening(block) for block in blocks if _is_cut(block, line)), "")
            self._closed_chars += closed

    def _html(self, tokens: Sequence[Token]) -> str:
        return _parser.renderer.render(tokens, _parser.options, self._env)

    def _split_line(self, source: str, blocks: Sequence[Token]) -> int | None:
        """Return the line before which a part ends, None if there is only one part left."""
        if len(source) <= PART_CHARS:
            return None
        opening = self._opening.count("\n")
        limit = source.count("\n", 0, MAX_PART_CHARS)
        starts = [block.map[0] for block in blocks[1:] if block.map is not None]
        fitting = [start for start in starts if opening < start <= limit]
        if fitting:
            return fitting[-1]
        if len(source) > MAX_PART_CHARS and limit > opening:
            return limit
        return None

    def _raw_lines(self, text: str, count: int) -> str:
        """Return the next lines of the text as it was received."""
        end = self._closed_chars
        for _ in range(count):
            end = text.index("\n", end) + 1
        return text[self._closed_chars : end]


def _is_cut(block: Token, line: int) -> bool:
    return block.map is not None and block.map[0] < line < block.map[1]


def _opening(block: Token) -> str:
    return f"{block.markup}{block.info}\n" if block.type == "fence" else ""


def _is_allowed(url: str) -> bool:
    return url.lower().startswith(SCHEMES)


def _harden(state: StateCore) -> None:
    """Show the addresses of links, replace images by links, and use no inline styles."""
    for token in state.tokens:
        if token.type in ("th_open", "td_open") and "style" in token.attrs:
            token.attrs = {"class": str(token.attrs["style"]).replace("text-align:", "align-")}
        if token.type == "inline" and token.children:
            token.children = _inline(token.children)


def _inline(children: list[Token]) -> list[Token]:
    new: list[Token] = []
    address, label = "", ""
    for token in children:
        token.content = visible(token.content)  # an entity can be any character
        if token.type == "image":
            source = str(token.attrs.get("src", ""))
            shown = f"Image: {token.content or source}"
            new += [_token("text", shown)] if address else _link(shown, source)
            continue
        new.append(token)
        if token.type == "link_open":
            address, label = str(token.attrs.get("href", "")), ""
            token.attrs = _link_attributes(address)
        elif token.type == "link_close":
            if address not in (label, f"mailto:{label}"):
                new.append(_token("address", address))
            address = ""
        else:
            label += token.content
    return new


def _link(label: str, address: str) -> list[Token]:
    start = Token("link_open", "a", 1)
    start.attrs = _link_attributes(address)
    return [
        start,
        _token("text", label),
        Token("link_close", "a", -1),
        _token("address", address),
    ]


def _link_attributes(address: str) -> dict[str, str | int | float]:
    return {"href": address, "rel": "noopener noreferrer nofollow", "target": "_blank"}


def _token(kind: str, content: str) -> Token:
    token = Token(kind, "", 0)
    token.content = content
    return token


def _address(_renderer: Any, tokens: Sequence[Token], index: int, *_: Any) -> str:
    return f' <span class="address">‹{escapeHtml(tokens[index].content)}›</span>'


def _new_parser() -> MarkdownIt:
    parser = MarkdownIt("commonmark", {"html": False}).enable(["table", "strikethrough"])
    parser.validateLink = _is_allowed
    parser.core.ruler.push("harden", _harden)
    parser.add_render_rule("address", _address)
    return parser


def _diff_lines(code: str, language: str, _attributes: str) -> str:
    """Return the HTML of a code block: added and removed lines of a diff are marked."""
    if language != "diff":
        return ""  # as it is
    return "\n".join(
        f"<{tag}>{escapeHtml(line)}</{tag}>" if tag else escapeHtml(line)
        for line in code.split("\n")
        for tag in ({"+": "ins", "-": "del"}.get(line[:1], ""),)
    )


def _new_page_parser() -> MarkdownIt:
    parser = _new_parser()
    parser.options["highlight"] = _diff_lines
    # A wide table scrolls on its own; the keyboard reaches it, and wide code.
    parser.add_render_rule("table_open", _table_open)
    parser.add_render_rule("table_close", _table_close)
    code_rules = ("fence", "code_block")
    for rule in code_rules:
        parser.add_render_rule(rule, _reachable(getattr(parser.renderer, rule)))
    return parser


def _table_open(*_: Any) -> str:
    return '<div class="table" tabindex="0" role="group" aria-label="Table"><table>\n'


def _table_close(*_: Any) -> str:
    return "</table></div>\n"


def _reachable(render: Any) -> Any:
    """Return a rule that makes a block of code one that the keyboard can scroll."""

    def rendered(_renderer: Any, *given: Any) -> str:
        return str(render(*given)).replace("<pre>", '<pre tabindex="0">', 1)

    return rendered


_parser = _new_parser()
_page_parser = _new_page_parser()
