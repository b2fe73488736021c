"""What recipes share: reading whole files, and saying things in Markdown."""

from __future__ import annotations

import re
from collections.abc import Generator, Iterable, Sequence

from accord_coder.loop.messages import ToolResult
from accord_coder.models.embedded.recipe import Found, Say, Use, use
from accord_coder.models.embedded.request import Asked

__all__ = (
    "bullets",
    "could_not",
    "fenced",
    "is_cut",
    "language",
    "left_out",
    "lines_of",
    "lines_of_range",
    "literally",
    "paths_in",
    "plural",
    "shortened",
    "tick",
    "whole",
)

_PAGE = 2000  # lines in one reading
_MOST_PAGES = 50
_CUT = re.compile(r"\n?\[lines (\d+)-(\d+) of (\d+)\]\s*\Z")
_SECRETS = re.compile(r"^\[not shown, as they may hold secrets: (.*)\]\Z", re.MULTILINE)
_SPECIAL = frozenset("\\.^$*+?{}[]|()")
_LANGUAGES = {
    "cfg": "ini",
    "htm": "html",
    "js": "javascript",
    "md": "markdown",
    "py": "python",
    "rs": "rust",
    "sh": "sh",
    "ts": "typescript",
    "yml": "yaml",
}


def plural(count: int, noun: str, many: str = "") -> str:
    """Return `1 line`, `2 lines`."""
    return f"{count:,} {noun if count == 1 else many or noun + 's'}"


def tick(text: str) -> str:
    """Return text as inline code, on one line."""
    text = shortened(" ".join(text.split()), 200) or " "
    if "`" in text:
        return f"`` {text} ``" if "``" not in text else text
    return f"`{text}`"


def shortened(text: str, most: int) -> str:
    """Return text with at most so many characters."""
    return text if len(text) <= most else text[: most - 1] + "…"


def language(path: str) -> str:
    """Return what to write behind a fence for a file."""
    suffix = path.rpartition(".")[2].lower() if "." in path else ""
    return _LANGUAGES.get(suffix, suffix if suffix.isalnum() else "")


def fenced(text: str, kind: str = "") -> str:
    """Return text as a code block that nothing in it closes."""
    longest = max((len(run) for run in re.findall(r"`{3,}", text)), default=2)
    fence = "`" * max(3, longest + 1)
    return f"{fence}{kind}\n{text.rstrip(chr(10))}\n{fence}"


def bullets(items: Sequence[str], most: int = 20) -> str:
    """Return a list of the first items, and how many more there are."""
    shown = [f"- {item}" for item in items[:most]]
    if len(items) > most:
        shown.append(f"- … and {len(items) - most:,} more")
    return "\n".join(shown)


def lines_of(result: ToolResult) -> list[str]:
    """Return the lines of a result, without those that are empty or in brackets."""
    lines = result.text.splitlines()
    return [line for line in lines if line.strip() and not _is_remark(line)]


def _is_remark(line: str) -> bool:
    return line.startswith("[") and line.endswith("]")


def is_cut(result: ToolResult) -> bool:
    """Tell whether a search has found more than it gave."""
    return "; there are more]" in result.text[-400:]


def left_out(result: ToolResult) -> str:
    """Return what a search has found and does not show, as a sentence; mostly nothing."""
    found = _SECRETS.search(result.text)
    return "" if found is None else f"Left out, as they may hold secrets: {tick(found[1])}."


def could_not(what: str, result: ToolResult) -> Say:
    """Say that something was refused or has failed, with the reason that the tool gave."""
    return Say(f"I could not {what}: {shortened(result.text.strip() or 'no reason given', 500)}")


def literally(text: str, *, word: bool = False) -> str:
    """Return the regular expression for a text as it stands, by itself if it is a word."""
    pattern = "".join("\\" + char if char in _SPECIAL else char for char in text)
    return rf"\b{pattern}\b" if word else pattern


def whole(asked: Asked, path: str) -> Generator[tuple[Use, ...], Found, str | ToolResult]:
    """Read a file from its first to its last line; return its text, or why not."""
    if (text := asked.attached.get(path)) is not None:
        return text
    parts: list[str] = []
    line = 1
    while True:
        result = yield from use("read", path=path, line=line, limit=_PAGE)
        if result.failed:
            return result
        if not all(isinstance(part, str) for part in result.content):
            return _instead(result, "it is not text.")
        cut = _CUT.search(result.text)
        if cut is None or int(cut[1]) != line:
            return "".join([*parts, result.text])
        parts.append(result.text[: cut.start()] + "\n")
        line = int(cut[2]) + 1
        if line > int(cut[3]):
            return "".join(parts)
        if len(parts) == _MOST_PAGES:
            break
    return _instead(result, f"it has more than {_PAGE * _MOST_PAGES:,} lines.")


def lines_of_range(asked: Asked) -> tuple[int, int]:
    """Return the first and the last line that were asked for; 0 for none."""
    if (found := asked.held.get("range")) is not None:
        return found
    first = asked.get("first", int) or 0
    return first, asked.get("last", int) or first


def _instead(result: ToolResult, why: str) -> ToolResult:
    return ToolResult(result.use_id, result.name, (why,), failed=True)


def paths_in(lines: Iterable[str]) -> list[str]:
    """Return the files among the lines of a listing."""
    return [line for line in lines if not line.endswith("/")]
