"""Markdown of agents as HTML that cannot run, load or hide anything.

HTML in the source is shown as text. A link leads only to `http`, `https` and `mailto`, and its
address is shown. Images become links. Characters that hide text are escaped.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from markdown_it import MarkdownIt
from markdown_it.common.utils import escapeHtml
from markdown_it.rules_core import StateCore
from markdown_it.token import Token

from accord.text.excerpt import visible

__all__ = ("MarkdownParts", "html_of")

SCHEMES = ("http://", "https://", "mailto:")
PART_CHARS = 2_000  # a longer text is split where a block ends
MAX_PART_CHARS = 32_000  # a longer block is split at a line end


def html_of(text: str) -> str:
    """Return a text as HTML."""
    return _parser.render(visible(text.replace("\r\n", "\n")))


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


_parser = _new_parser()
