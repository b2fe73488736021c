"""Requests that search in files: a text, what is still to be done."""

from __future__ import annotations

import re
from collections import Counter

from accord_coder.models.embedded.kit import (
    bullets,
    could_not,
    left_out,
    lines_of,
    literally,
    plural,
    shortened,
    tick,
)
from accord_coder.models.embedded.recipe import Recipe, Say, Use, use
from accord_coder.models.embedded.request import Asked, Request

__all__ = ("MOST_HITS", "SEARCHING", "hits_of")

MOST_HITS = 2000  # lines that a search may give
_MARKS = ("FIXME", "TODO", "XXX", "HACK")
_MARK = re.compile(r"\b(TODO|FIXME|XXX|HACK)\b")
_HIT = re.compile(r"((?:[A-Za-z]:)?[^:]+):(\d+): ?(.*)")


def hits_of(lines: list[str]) -> list[tuple[str, int, str]]:
    """Return the file, line and text of what grep has found."""
    found = map(_HIT.fullmatch, lines)
    return [(hit[1], int(hit[2]), hit[3]) for hit in found if hit is not None]


def _grep(asked: Asked) -> Recipe:
    pattern, text = asked.text("pattern"), asked.text("text")
    where = asked.place("where").path
    if where in asked.attached:
        return (yield from _grep_attached(text, where, asked.attached[where]))
    arguments: dict[str, object] = {"pattern": pattern or literally(text), "path": where}
    arguments["limit"] = MOST_HITS
    if kind := asked.text("kind"):
        arguments["glob"] = kind
    if asked.held.get("any") is not None:
        arguments["ignore_case"] = True
    result = yield from use("grep", **arguments)
    within = "" if where == "." else f" in {tick(where)}"
    what = tick(pattern or text)
    if result.failed:
        yield could_not(f"search for {what}{within}", result)
        return False
    hits = hits_of(lines_of(result))
    out = left_out(result)
    if not hits and out:
        yield Say(f"{what} is in no file that I may show{within}. {out}")
        return True
    if not hits:
        yield Say(
            f"{what} is nowhere{within or ' in this project'}. Case matters; "
            f"`search for {shortened(pattern or text, 40)} ignoring case` takes any."
            if "ignore_case" not in arguments
            else f"{what} is nowhere{within}."
        )
        return True
    behind = f"\n\n{out}" if out else ""
    if asked.held.get("files") is not None:
        counts = Counter(path for path, _, _ in hits)
        rows = [f"{tick(path)}: {plural(count, 'line')}" for path, count in sorted(counts.items())]
        yield Say(
            f"{plural(len(counts), 'file has', 'files have')} {what}{within}:\n\n"
            + bullets(rows, 40)
            + behind
        )
        return True
    yield Say(_head(what, hits, within) + "\n\n" + _grouped(hits, 30) + behind)
    return True


def _find_any(asked: Asked) -> Recipe:
    """Look for a text in files, and in their names."""
    text = asked.text("text")
    inside, names = yield (
        Use("grep", {"pattern": literally(text), "limit": MOST_HITS}),
        Use("glob", {"pattern": f"*{text}*"}),
    )
    hits = [] if inside.failed else hits_of(lines_of(inside))
    paths = [] if names.failed else lines_of(names)
    if inside.failed and names.failed:
        yield could_not(f"search for {tick(text)}", inside)
        return False
    if paths:
        head = f"{plural(len(paths), 'name has', 'names have')} {tick(text)} in it:"
        yield Say(f"{head}\n\n{bullets([*map(tick, paths)], 20)}")
    if hits:
        yield Say(_head(tick(text), hits, "") + "\n\n" + _grouped(hits, 30))
    if out := "" if inside.failed else left_out(inside):
        yield Say(out if hits or paths else f"{tick(text)} is in no file that I may show. {out}")
    elif not (hits or paths):
        yield Say(f"{tick(text)} is nowhere in this project, neither in a file nor in a name.")
    return True


def _grep_attached(text: str, name: str, content: str) -> Recipe:
    numbered = enumerate(content.splitlines(), 1)
    hits = [(name, at, line) for at, line in numbered if text in line]
    if hits:
        yield Say(_head(tick(text), hits, "") + "\n\n" + _grouped(hits, 30))
    else:
        yield Say(f"{tick(text)} is not in {tick(name)}.")
    return True


def _head(what: str, hits: list[tuple[str, int, str]], within: str) -> str:
    files = len({path for path, _, _ in hits})
    at_least = "at least " if len(hits) >= MOST_HITS else ""
    return f"{what} is in {at_least}{plural(len(hits), 'line')} of {plural(files, 'file')}{within}:"


def _grouped(hits: list[tuple[str, int, str]], most: int) -> str:
    """Return the first lines found, below their files."""
    shown: list[str] = []
    before = ""
    for path, line, text in hits[:most]:
        if path != before:
            shown.append(f"- {tick(path)}")
            before = path
        shown.append(f"  - {line}: {tick(shortened(text.strip(), 120))}")
    if len(hits) > most:
        shown.append(f"- … and {plural(len(hits) - most, 'more line')}")
    return "\n".join(shown)


def _todos(asked: Asked) -> Recipe:
    where = asked.place("where").path
    wanted = _wanted_marks(asked)
    out = ""
    if where in asked.attached:
        numbered = enumerate(asked.attached[where].splitlines(), 1)
        hits = [(where, at, line) for at, line in numbered if _MARK.search(line)]
    else:
        pattern = rf"\b({'|'.join(wanted)})\b"
        result = yield from use("grep", pattern=pattern, path=where, limit=MOST_HITS)
        if result.failed:
            yield could_not("look for what is still to be done", result)
            return False
        hits = hits_of(lines_of(result))
        out = left_out(result)
    groups: dict[str, list[tuple[str, int, str]]] = {mark: [] for mark in wanted}
    for hit in hits:
        found = _MARK.search(hit[2])
        if found is not None and found[1] in groups:
            groups[found[1]].append(hit)
    names = " or ".join(wanted)
    within = "" if where == "." else f" in {tick(where)}"
    if not any(groups.values()):
        yield Say(f"There is no {names}{within}" + (f" that I may show. {out}" if out else "."))
        return True
    said: list[str] = []
    for mark, marked in groups.items():
        if marked:
            rows = [f"{tick(f'{path}:{line}')} {_rest(text)}" for path, line, text in marked]
            said.append(f"**{mark}** ({len(marked)})\n\n{bullets(rows, 30)}")
    files = len({path for path, _, _ in hits})
    total = sum(map(len, groups.values()))
    head = f"{plural(total, 'place')} in {plural(files, 'file')}{within}:"
    if out:
        said.append(out)
    yield Say(f"{head}\n\n" + "\n\n".join(said))
    return True


def _wanted_marks(asked: Asked) -> tuple[str, ...]:
    one = asked.text("mark").upper().rstrip("S")
    if one == "TODO" or one not in _MARKS or asked.held.get("more") is not None:
        return _MARKS
    return (one,)


def _rest(text: str) -> str:
    """Return what is said behind the mark."""
    found = _MARK.search(text)
    rest = text[found.end() :].lstrip(":( )-") if found else text
    return shortened(" ".join(rest.replace("`", "'").split()), 140)


_IN = "in|inside|under|within|below|across|from|of|through"
_WHERE = f"{_IN} [all] [file|files|folder|directory] [of|in] <where:place>"
_CASE = "[<any:anycase>]"

SEARCHING = (
    Request(
        "todos",
        "Finds TODO, FIXME, XXX and HACK, with file and line.",
        ("find TODOs in src", "what is left to do?", "list all FIXMEs"),
        (
            "(find|list|show|search|collect|get|grep | look for | search for | go through)"
            f" [all] [open] <mark:mark> [<more:more>] [comments|items|notes|markers] [that are left] [{_WHERE}]",
            f"(what|which) <mark:mark> (are|do|is) [there|we] [have|left] [{_WHERE}]",
            f"(what is | what's | whats) (left|still|there) [left] to (do | be done) [{_WHERE}]",
            f"(are|is) there any|some <mark:mark> [comments|left] [{_WHERE}]",
            f"<mark:mark> [<more:more>] [comments] [{_WHERE}]",
            f"[count] (how many) <mark:mark> [<more:more>] [comments] [are|do] [there|we] [are|have|left] [{_WHERE}]",
            f"count [all] <mark:mark> [<more:more>] [comments] [{_WHERE}]",
        ),
        "read",
        _todos,
    ),
    Request(
        "search",
        "Searches for a text, as it stands, in a file or below a folder.",
        (
            "search for `timeout` in src",
            "which files contain import asyncio?",
            "grep error in logs ignoring case",
            "search for the pattern `def test_\\w+` in tests",
        ),
        (
            f"(grep|search|find|look) [for] (regex|regexp|pattern) <pattern:text> [{_WHERE}] {_CASE}",
            f"(find|list|show) [all] [<kind:kind>] (file|files|modules) [<files:that>]"
            f" (contain|containing|contains|with|mention|mentioning|mentions|use|using|import|importing)"
            f" [text|word|words|string] <text:text> [{_WHERE}] {_CASE}",
            "(what|which) [<kind:kind>] [<files:files>]"
            f" (contain|contains|mention|mentions|use|uses|have|has) [text|word|words|string] <text:text> [{_WHERE}] {_CASE}",
            f"(grep|rg) [for] <text:text> [{_WHERE}] {_CASE}",
            f"(search|look) {_WHERE} for [text|word|words|string] <text:text> {_CASE}",
            f"(search|look|find) {_WHERE} [text|word|words|string] <text:text> {_CASE}",
            f"(search for | search | look for | find text|string|word|words | find [all] occurrences|uses|usages|mentions|references of|to | find)"
            f" [text|string|word|words] [every|all] <text:text> {_WHERE} {_CASE}",
            f"(search for | search | look for | find text|string|word|words | find [all|every] occurrences|occurrence|uses|usages|mentions|references of|to)"
            f" [text|string|word|words] <text:text> {_CASE}",
            f"(where is | where's | where do we | where are | where does) <text:text>"
            f" (used|mentioned|defined|called|use|mention|appear|occur|set|imported) [{_WHERE}]",
        ),
        "read",
        _grep,
    ),
    Request(
        "find text",
        "Finds a word or two, in files and in their names.",
        ("find fetch_all",),
        ("find|locate [text|word|string] <text:few>",),
        "read",
        _find_any,
    ),
)
