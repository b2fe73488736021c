"""What a file is made of: Python by its syntax tree, others by their headings, keys or shape."""

from __future__ import annotations

import re
from collections import Counter
from typing import Any, cast

import msgspec

from accord_coder.models.embedded.kit import bullets, plural, shortened, tick

__all__ = ("structure_of",)

_BIGGEST = 2_000_000  # characters; the syntax tree of more takes too long
_DECLARATION = re.compile(
    r"(?:(?:export|default|public|private|protected|static|async|abstract|final|pub(?:\(\w+\))?|"
    r"unsafe|const|inline) )*"
    r"(?:function|class|def|fn|func|struct|enum|impl|trait|interface|type|module|namespace|record)\b"
    r"[^{;]{0,120}"
)
_TARGET = re.compile(r"([\w./-]+)\s*:(?![=:])")
_TOP_KEY = re.compile(r"([\w.\"'-]+):(?:\s|$)")


def structure_of(path: str, text: str) -> str | None:
    """Return what a file is made of, as Markdown; None for Python, which has its own."""
    name = path.rpartition("/")[2].lower()
    suffix = name.rpartition(".")[2]
    lines = text.splitlines()
    found = ""
    if suffix in ("md", "markdown", "rst"):
        found = _headings(lines)
    elif suffix == "toml":
        found = _toml(text)
    elif suffix in ("json", "webmanifest"):
        found = _json(text)
    elif suffix in ("yaml", "yml"):
        found = _named("top-level key", [m[1] for m in map(_TOP_KEY.match, lines) if m])
    elif suffix in ("ini", "cfg", "conf"):
        sections = [line.strip()[1:-1] for line in lines if re.match(r"\[[^\]]+\]\s*$", line)]
        found = _named("section", sections)
    elif suffix in ("csv", "tsv"):
        found = _table(lines, "\t" if suffix == "tsv" else ",")
    elif name in ("makefile", "gnumakefile") or suffix == "mk":
        targets = [m[1] for m in map(_TARGET.match, lines) if m and not m[1].startswith(".")]
        found = _named("target", targets)
    else:
        found = _declarations(lines)
    return "\n\n".join(part for part in (_shape(path, lines, text), found) if part)


def _shape(path: str, lines: list[str], text: str) -> str:
    blank = sum(not line.strip() for line in lines)
    longest = max(map(len, lines), default=0)
    said = f"{tick(path)} has {plural(len(lines), 'line')}"
    said += f" ({blank:,} of them blank, the longest has {plural(longest, 'character')})"
    said += f" and {plural(len(text.split()), 'word')}."
    if lines and lines[0].startswith("#!"):
        said += f" It is a script for {tick(lines[0][2:].strip())}."
    return said


def _headings(lines: list[str]) -> str:
    rows: list[str] = []
    fence = ""
    for number, line in enumerate(lines, 1):
        mark = line.lstrip()[:3]
        if mark in ("```", "~~~") and fence in ("", mark):
            fence = "" if fence else mark
        elif not fence and (found := re.match(r"(#{1,6}) +(.+)", line)) is not None:
            level = len(found[1]) - 1
            rows.append(f"{'  ' * level}- {shortened(found[2].strip(' #'), 100)} ({number})")
    if not rows:
        return "It has no headings."
    more = f"\n- … and {len(rows) - 60} more" if len(rows) > 60 else ""
    return "Its headings, with their lines:\n\n" + "\n".join(rows[:60]) + more


def _toml(text: str) -> str:
    import tomllib

    try:
        return _keys(tomllib.loads(text[:_BIGGEST]))
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        return f"It is not valid TOML: {error}"


def _json(text: str) -> str:
    try:
        value: Any = msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError) as error:
        return f"It is not valid JSON: {error}"
    if isinstance(value, dict):
        return _keys(cast("dict[str, Any]", value))
    return f"It holds {_kind(value)}."


def _keys(table: dict[str, Any]) -> str:
    """Return the keys of a table and of the tables in it."""
    rows: list[str] = []
    for key, value in table.items():
        rows.append(f"- {tick(key)}: {_kind(value)}")
        if isinstance(value, dict):
            inner = cast("dict[str, Any]", value)
            rows += [
                f"  - {tick(name)}: {_kind(found)}" for name, found in list(inner.items())[:12]
            ]
            if len(inner) > 12:
                rows.append(f"  - … and {len(inner) - 12} more")
    if not rows:
        return "It is empty."
    more = "\n- … and more" if len(rows) > 80 else ""
    return "Its keys:\n\n" + "\n".join(rows[:80]) + more


def _kind(value: Any) -> str:
    match value:
        case dict():
            return plural(len(cast("dict[str, Any]", value)), "key")
        case list():
            return f"list of {len(cast('list[Any]', value)):,}"
        case str():
            return tick(shortened(value, 60)) if value else "empty text"
        case bool():
            return "true" if value else "false"
        case None:
            return "null"
        case _:
            return tick(shortened(str(value), 60))


def _table(lines: list[str], comma: str) -> str:
    columns = lines[0].split(comma) if lines else []
    said = _named("column", [column.strip(' "') for column in columns])
    return f"{said}\n\nBelow them: {plural(max(0, len(lines) - 1), 'row')}."


def _named(noun: str, names: list[str]) -> str:
    if not names:
        return ""
    unique = list(dict.fromkeys(names))
    return f"{plural(len(unique), noun)}:\n\n" + bullets([*map(tick, unique)], 40)


def _declarations(lines: list[str]) -> str:
    """Return lines that look like declarations in one of many languages."""
    rows: list[str] = []
    for number, line in enumerate(lines, 1):
        start = line.strip()[:200]
        if len(line) - len(line.lstrip()) <= 4 and (found := _DECLARATION.match(start)):
            rows.append(f"{tick(found[0].strip())} ({number})")
    if rows:
        return "What it seems to declare, with lines:\n\n" + bullets(rows, 40)
    words = Counter(word.lower() for line in lines[:5000] for word in line.split() if len(word) > 4)
    often = [f"{tick(word)} ({count})" for word, count in words.most_common(5) if count > 2]
    return "Most frequent: " + ", ".join(often) + "." if often else ""
