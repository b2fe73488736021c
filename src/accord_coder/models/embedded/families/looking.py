"""Requests that look at files: list, find, read, count."""

from __future__ import annotations

import re
from collections.abc import Generator, Iterator

from msgspec.structs import replace

from accord_coder.loop.messages import ToolResult
from accord_coder.models.embedded.families.searching import MOST_HITS
from accord_coder.models.embedded.kit import (
    bullets,
    could_not,
    fenced,
    language,
    left_out,
    lines_of,
    literally,
    paths_in,
    plural,
    tick,
    whole,
)
from accord_coder.models.embedded.place import Place
from accord_coder.models.embedded.recipe import Found, Recipe, Say, Use, use
from accord_coder.models.embedded.request import Asked, Request

__all__ = ("LOOKING",)

_SHOWN = 60  # lines of a file, when no lines were asked for
_ASKED = 400  # lines of a file, when they were
_CHARACTERS = 12_000
_AT_ONCE = 20  # files


def _list(asked: Asked) -> Recipe:
    where = asked.place("where").path
    result = yield from use("list", path=where, depth=1)
    if result.failed:
        yield could_not(f"list {tick(where)}", result)
        return False
    yield Say(_listing(where, lines_of(result)))
    return True


def _list_all(asked: Asked) -> Recipe:
    done = True
    for place in asked.places()[:_AT_ONCE]:
        done &= yield from _list(replace(asked, held={"where": place}))
    return done


def _tree(asked: Asked) -> Recipe:
    where = asked.place("where").path
    result = yield from use("list", path=where, depth=3)
    if result.failed:
        yield could_not(f"list {tick(where)}", result)
        return False
    lines = lines_of(result)
    yield Say(_counted(where, lines) + "\n\n" + fenced("\n".join(lines[:200])))
    if len(lines) > 200:
        yield Say(f"… and {len(lines) - 200:,} more.")
    return True


def _listing(where: str, lines: list[str]) -> str:
    if not lines:
        return f"{_named(where)} is empty."
    folders = [line for line in lines if line.endswith("/")]
    return _counted(where, lines) + "\n\n" + bullets([*map(tick, folders + paths_in(lines))], 60)


def _counted(where: str, lines: list[str]) -> str:
    files = len(paths_in(lines))
    return (
        f"{_named(where)} has {plural(files, 'file')} and {plural(len(lines) - files, 'folder')}."
    )


def _named(where: str) -> str:
    return "The working directory" if where == "." else tick(where)


def _find(asked: Asked) -> Recipe:
    pattern = asked.text("pattern") or asked.text("kind") or "*"
    where = asked.place("where").path
    if not any(char in pattern for char in "*?[{/"):
        # A bare word is a part of a name, a name with a dot is one.
        pattern = pattern if "." in pattern else f"*{pattern}*"
    if "/" not in pattern:
        pattern = f"**/{pattern}"
    result = yield from use("glob", pattern=pattern, path=where)
    if result.failed:
        yield could_not(f"look for {tick(pattern)}", result)
        return False
    found = lines_of(result)
    within = "" if where == "." else f" in {tick(where)}"
    if not found:
        yield Say(f"No file matches {tick(pattern)}{within}.")
    elif asked.held.get("counting"):
        yield Say(f"{plural(len(found), 'file matches', 'files match')} {tick(pattern)}{within}.")
    else:
        head = f"{plural(len(found), 'file matches', 'files match')} {tick(pattern)}{within}:"
        yield Say(head + "\n\n" + bullets([*map(tick, found)], 40))
    return True


def _count_files(asked: Asked) -> Recipe:
    return (yield from _find(replace(asked, held={**asked.held, "counting": True})))


def _read(asked: Asked) -> Recipe:
    first, last = _wanted(asked)
    places = asked.places() or (asked.place(),)
    done = True
    for place in places[:_AT_ONCE]:
        if place.path.endswith("/") or place.path in (".", ".."):
            done &= yield from _list(Asked(asked.request, {"where": place}, ""))
            continue
        a, b = (first, last) if first else (place.first, place.last)
        if asked.held.get("tail") is not None:
            done &= yield from _read_end(asked, place, asked.get("tail", int) or 10)
        elif a and place.path not in asked.attached:
            done &= yield from _read_lines(place, a, b or a)
        else:
            done &= yield from _read_whole(asked, place)
    return done


def _wanted(asked: Asked) -> tuple[int | None, int | None]:
    if (lines := asked.held.get("range")) is not None:
        return max(1, lines[0]), max(lines)
    if (head := asked.get("head", int)) is not None:
        return 1, max(1, head)
    first = asked.get("first", int)
    if first is None:
        return None, None
    last = asked.get("last", int)
    return max(1, first), max(1, first, last or first)


def _read_lines(place: Place, first: int, last: int) -> Recipe:
    last = min(last, first + _ASKED - 1)
    result = yield from use("read", path=place.path, line=first, limit=last - first + 1)
    if result.failed:
        yield could_not(f"read {tick(place.path)}", result)
        return False
    lines = result.text.splitlines()
    note = ""
    if lines and (cut := re.fullmatch(r"\[lines (\d+)-(\d+) of (\d+)\]", lines[-1])):
        lines.pop()
        last = int(cut[2])
        note = f" of {int(cut[3]):,}"
    if not lines:
        yield Say(f"{tick(place.path)} has no line {first}.")
        return True
    last = min(last, first + len(lines) - 1)
    which = f"line {first}" if first == last else f"lines {first}–{last}"
    body = fenced("\n".join(lines), language(place.path))
    yield Say(f"{tick(place.path)}, {which}{note}:\n\n{body}")
    return True


def _read_whole(asked: Asked, place: Place) -> Recipe:
    text = yield from whole(asked, place.path)
    if isinstance(text, ToolResult):
        yield could_not(f"read {tick(place.path)}", text)
        return False
    lines = text.splitlines()
    if not lines:
        yield Say(f"{tick(place.path)} is empty.")
        return True
    shown = _start(lines, _SHOWN)
    said = f"{tick(place.path)}, {plural(len(lines), 'line')}:\n\n"
    said += fenced("\n".join(shown), language(place.path))
    left = len(lines) - len(shown)
    if left:
        said += f"\n\n… {plural(left, 'more line')}; `read {place.path} lines "
        said += f"{len(shown) + 1}-{min(len(lines), len(shown) + _ASKED)}` shows them."
    yield Say(said)
    return True


def _read_end(asked: Asked, place: Place, count: int) -> Recipe:
    text = yield from whole(asked, place.path)
    if isinstance(text, ToolResult):
        yield could_not(f"read {tick(place.path)}", text)
        return False
    lines = text.splitlines()
    shown = lines[-max(1, min(count, _ASKED)) :]
    body = fenced("\n".join(shown), language(place.path))
    yield Say(f"The last {plural(len(shown), 'line')} of {tick(place.path)}:\n\n{body}")
    return True


def _start(lines: list[str], most: int) -> list[str]:
    """Return the first lines that are not too much to show."""
    shown: list[str] = []
    left = _CHARACTERS
    for line in lines[:most]:
        left -= len(line) + 1
        if left < 0 and shown:
            break
        shown.append(line if len(line) <= _CHARACTERS else line[:2000] + " …")
    return shown


def _count_text(asked: Asked) -> Recipe:
    """Count lines, words and characters of files."""
    rows: list[tuple[str, str]] = []
    done = True
    for place in (asked.places() or (asked.place(),))[:_AT_ONCE]:
        text = yield from whole(asked, place.path)
        if isinstance(text, ToolResult):
            yield could_not(f"count in {tick(place.path)}", text)
            done = False
        else:
            rows.append((place.path, text))
    for path, text in rows:
        yield Say(
            f"{tick(path)} has {plural(len(text.splitlines()), 'line')}, "
            f"{plural(len(text.split()), 'word')} and {plural(len(text), 'character')}."
        )
    if len(rows) > 1:
        lines = sum(len(text.splitlines()) for _, text in rows)
        yield Say(f"Together: {plural(lines, 'line')}.")
    return done


def _count_kind(asked: Asked) -> Recipe:
    """Count the lines of all files of a kind."""
    pattern = asked.text("kind") or asked.text("pattern")
    pattern = pattern if "/" in pattern else f"**/{pattern}"
    where = asked.place("where").path
    found = yield from use("glob", pattern=pattern, path=where)
    if found.failed:
        yield could_not(f"look for {tick(pattern)}", found)
        return False
    paths = paths_in(lines_of(found))
    texts = yield from _texts(paths[:200])
    lines = {path: len(text.splitlines()) for path, text in texts}
    most = sorted(lines, key=lambda path: (-lines[path], path))
    said = f"{plural(len(paths), 'file matches', 'files match')} {tick(pattern)}"
    said += f", with {plural(sum(lines.values()), 'line')}"
    said += "." if len(lines) == len(paths) else f" in the {len(lines)} that I read."
    if len(most) > 1:
        rows = [f"{tick(path)}: {lines[path]:,}" for path in most]
        said += " The longest:\n\n" + bullets(rows[:10], 10)
    yield Say(said)
    return True


def _texts(paths: list[str]) -> Generator[tuple[Use, ...], Found, list[tuple[str, str]]]:
    """Read files side by side, as far as they are text."""
    texts: list[tuple[str, str]] = []
    for batch in _batches(paths, _AT_ONCE):
        results = yield tuple(Use("read", {"path": path, "limit": 1_000_000}) for path in batch)
        texts += [
            (path, result.text)
            for path, result in zip(batch, results, strict=True)
            if not result.failed
        ]
    return texts


def _batches(paths: list[str], size: int) -> Iterator[list[str]]:
    for at in range(0, len(paths), size):
        yield paths[at : at + size]


def _occurrences(asked: Asked) -> Recipe:
    text, where = asked.text("text"), asked.place("where").path
    if where in asked.attached:
        yield Say(f"{tick(text)} occurs {_times(asked.attached[where].count(text))}.")
        return True
    result = yield from use("grep", pattern=literally(text), path=where, limit=MOST_HITS)
    if result.failed:
        yield could_not(f"count {tick(text)}", result)
        return False
    lines = [line for line in lines_of(result) if text in line]
    times = 0
    by_file: dict[str, int] = {}
    for line in lines:
        path, _, rest = line.partition(":")
        count = max(1, rest.partition(": ")[2].count(text))
        times += count
        by_file[path] = by_file.get(path, 0) + count
    within = "" if where == "." else f" in {tick(where)}"
    said = f"{tick(text)} occurs {_times(times)}{within}"
    if len(by_file) > 1:
        most = sorted(by_file, key=lambda path: (-by_file[path], path))
        rows = [f"{tick(path)}: {by_file[path]:,}" for path in most]
        said += f", in {plural(len(by_file), 'file')}:\n\n" + bullets(rows, 15)
    else:
        said += "."
    if out := left_out(result):
        said += f"\n\n{out}"
    yield Say(said)
    return True


def _times(count: int) -> str:
    return {0: "nowhere", 1: "once", 2: "twice"}.get(count, f"{count:,} times")


_IN = "in|inside|under|within|from|of|below"
_SHOW = "show|read|open|display|print|view|cat|see|give"
_LINES = "(<range:range> | <first:number> [to|until|through|and|- <last:number>])"

LOOKING = (
    Request(
        "list",
        "Lists what is in a folder, the working directory if none is named.",
        ("list the files in src", "ls", "what files are in src?", "show me the folder tests"),
        (
            f"list|ls|dir [all] [files|contents|content|everything|entries|folders|directories]"
            f" [and folders|directories] [(there are)] [{_IN}] [folder|directory] [<where:place>]",
            f"(show|print|display|see|give) [all] (files|contents|folders|directories|listing)"
            f" [and folders|directories] [{_IN}] [folder|directory] [<where:place>]",
            "show|open|display [the] folder|directory <where:place>",
            f"(what|which) (files|folders) (are|exist|do|can) [there|i|we|you] [have|see]"
            f" [{_IN}] [folder|directory] [<where:place>]",
            "(what is | what's | whats) (in|inside) [folder|directory] <where:place> [folder|directory]",
            "(what is | what's | whats) there|here",
        ),
        "read",
        _list,
    ),
    Request(
        "list several",
        "See `list`.",
        (),
        (f"list|ls [files|contents] [{_IN}] [folders|directories] <paths:places>",),
        "read",
        _list_all,
    ),
    Request(
        "tree",
        "Lists a folder with the folders in it, three deep.",
        ("show the tree of src", "list src recursively"),
        (
            f"(show|print|list|display|draw|give) [folder|directory|file|project] tree|hierarchy|structure"
            f" [{_IN}] [folder|directory] [<where:place>]",
            f"tree [{_IN}] [folder|directory] [<where:place>]",
            f"list [all] [files] [{_IN}] [folder|directory] <where:place> recursively",
            f"list [all] files recursively [{_IN} [folder|directory] <where:place>]",
        ),
        "read",
        _tree,
    ),
    Request(
        "find",
        "Finds files by name, by pattern or by kind (Python, Markdown, …).",
        (
            "find *.toml in docs",
            "find all python files in src",
            "where is settings.py?",
            "find files named test_*.py",
        ),
        (
            f"(find|locate | look for | search for) [all|every|any] [file|files]"
            f" [named|called|matching|like (with the name) (whose name is)] <pattern:glob>"
            f" [files] [{_IN} [folder|directory] <where:place>]",
            f"(find|locate|list|show | look for | search for) [all|every|any] file|files"
            f" (named|called|matching|like) <pattern:glob> [{_IN} [folder|directory] <where:place>]",
            f"(find|locate | look for | search for) [all|every|any] file|files"
            f" (named|called|matching | like | with the name) <pattern:text>"
            f" [{_IN} [folder|directory] <where:place>]",
            f"(find|locate|list|show | look for | search for) [all|every|any] <kind:kind> file|files|scripts|sources|modules"
            f" [{_IN} [folder|directory] <where:place>]",
            f"(what|which) <kind:kind> (files|modules) (are|exist|do) [there|we|i] [have]"
            f" [{_IN} [folder|directory] <where:place>]",
            "(where is | where's | wheres) [file] <pattern:glob>",
        ),
        "read",
        _find,
    ),
    Request(
        "read",
        "Shows a file or several, whole or by lines.",
        (
            "read README.md",
            "show lines 10-20 of src/app.py",
            "show me the last 5 lines of notes.txt",
            "read a.py and b.py",
        ),
        (
            f"{_SHOW} [(contents|content|text) of|in|from] [file|files] <paths:places>",
            f"{_SHOW} [file] <path:place> [from|at|,] line|lines {_LINES}",
            f"{_SHOW} [only] line|lines {_LINES} {_IN} [file] <path:place>",
            f"({_SHOW}|head) first|top <head:number> [line|lines] [{_IN}] [file] <path:place>",
            f"({_SHOW}|tail) last|final <tail:number> [line|lines] [{_IN}] [file] <path:place>",
            "(what does [file] <path:place> (say|contain|have) [in it])",
            "(take a look | have a look | look) at [file|files] <paths:places>",
            f"(what is | what's | whats) (on|in|at) line|lines {_LINES} {_IN} [file] <path:place>",
            f"line|lines {_LINES} {_IN} [file] <path:place>",
            f"{_SHOW} first|top <head:number> line|lines <path:it>",
            f"{_SHOW} last|final <tail:number> line|lines <path:it>",
            f"{_SHOW} line|lines {_LINES} <path:it>",
        ),
        "read",
        _read,
    ),
    Request(
        "count",
        "Counts lines, words and characters of files.",
        ("count the lines of README.md", "how many words are in notes.txt?"),
        (
            "count [number] [of] [all] (lines|words|characters|letters|chars)"
            " [and|, lines|words|characters|letters] [and lines|words|characters]"
            f" [of code] [{_IN}] [file|files] <paths:places>",
            "(how many) (lines|words|characters|letters|chars) [of code] [and words|characters]"
            f" [are|does|has|is|do] [there] [{_IN}] [file|files] <paths:places> [have|has|contain]",
            "(how long|big) (is|are) [file] <paths:places>",
            "word|line count (of|for|in) [file] <paths:places>",
            "wc [-l] <paths:places>",
            "count <paths:places> lines|words|characters",
        ),
        "read",
        _count_text,
    ),
    Request(
        "count lines of a kind",
        "Counts the lines of all files of a kind, and names the longest.",
        ("count the lines of all python files in src", "how many lines of python are there?"),
        (
            "count [number] lines [of code] [of|in] [all|every] (<kind:kind> [files|code] | files matching <pattern:glob>)"
            f" [{_IN} [folder|directory] <where:place>]",
            "(how many) lines [of code] [of|are|do|does|in] [there] [in] [all] <kind:kind> [files|code] [are|have|has]"
            f" [there] [{_IN} [folder|directory] <where:place>]",
        ),
        "read",
        _count_kind,
    ),
    Request(
        "count files",
        "Counts files, all or those of a name or kind.",
        ("how many python files are in src?", "count the files in docs"),
        (
            "(count|number) [of] [all] [number] [<kind:kind>] files [matching|named|called <pattern:glob>]"
            f" [{_IN} [folder|directory] <where:place>]",
            "(how many) [<kind:kind>] files [matching|named|called <pattern:glob>]"
            f" [are|exist|do|does] [we|i] [have] [there] [{_IN} [folder|directory] <where:place>] [have|has|contain]",
            "(how many) files does [folder|directory] <where:place> have|contain",
            f"count [all] <pattern:glob> files  [{_IN} [folder|directory] <where:place>]",
        ),
        "read",
        _count_files,
    ),
    Request(
        "count occurrences",
        "Counts how often a text occurs, in a file or below a folder.",
        ("how often does TODO occur in src?", "count the occurrences of `import` in app.py"),
        (
            "count [number] [all] [of] (occurrences|uses|mentions|appearances|instances) of|for <text:text>"
            f" [{_IN} [file|folder|directory] <where:place>]",
            "count [how many times | how often] <text:text> (occurs|appears|is used|is mentioned)"
            f" [{_IN} [file|folder|directory] <where:place>]",
            "(how often | how many times) (does|is|do|are) <text:text>"
            f" (occur|appear|used|mentioned|occurs|appears|exist|stand) [{_IN} [file|folder|directory] <where:place>]",
            "(how many) occurrences|uses|instances|mentions of <text:text> [are] [there]"
            f" [{_IN} [file|folder|directory] <where:place>]",
        ),
        "read",
        _occurrences,
    ),
)
