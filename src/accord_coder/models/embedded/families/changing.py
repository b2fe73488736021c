"""Requests that change text: replace, rename a symbol, create, append, insert, take lines out."""

from __future__ import annotations

from accord_coder.loop.messages import ToolResult
from accord_coder.models.embedded.edits import insertion, removal, word_edits
from accord_coder.models.embedded.families.searching import MOST_HITS, hits_of
from accord_coder.models.embedded.kit import (
    bullets,
    could_not,
    is_cut,
    left_out,
    lines_of,
    lines_of_range,
    literally,
    plural,
    shortened,
    tick,
    whole,
)
from accord_coder.models.embedded.place import Place
from accord_coder.models.embedded.recipe import Recipe, Say, Steps, Think, Use, use
from accord_coder.models.embedded.request import Asked, Request
from accord_coder.models.embedded.slots import is_bare

__all__ = ("CHANGING", "exists")

_MOST_FILES = 60
_JOINTS = frozenset(("with", "by", "to", "into", "in", "for", "and"))


def _doubt_replace(asked: Asked) -> str:
    old, new = asked.text("old"), asked.text("new")
    place = asked.get("path", Place)
    unclear = [t for t in (old, new) if is_bare(t) and _JOINTS & set(t.lower().split())]
    if place is None or unclear or not old:
        where = "in which file" if place is None else "where the one text ends"
        return (
            f"I understood that something is to be replaced, but not {where}. Nothing was changed."
            f' Say it like this: `replace "{_short(old)}" with "{_short(new)}" in FILE`.'
        )
    return ""


def _replace(asked: Asked) -> Recipe:
    old, new, place = asked.text("old"), asked.text("new"), asked.place()
    if old == new:
        yield Say("Both texts are the same; there is nothing to replace.")
        return True
    if place.refers == "here" or place.path.endswith("/"):
        return (yield from _replace_below(asked, old, new, place.path))
    text = yield from whole(asked, place.path)
    if isinstance(text, ToolResult):
        yield could_not(f"read {tick(place.path)}", text)
        return False
    times = text.count(old)
    if not times:
        yield Say(_not_there(old, text, place.path))
        return False
    edit = {"old": old, "new": new, "all": times > 1}
    result = yield from use("edit", path=place.path, edits=[edit])
    if result.failed:
        yield could_not(f"change {tick(place.path)}", result)
        return False
    what = f"{plural(times, 'occurrence')} of {tick(old)}"
    done = f"with {tick(new)}" if new else "with nothing"
    yield Say(f"Replaced {what} {done} in {tick(place.path)}.")
    return True


def _short(text: str) -> str:
    return shortened(" ".join(text.split()).replace("`", "'"), 40) or "…"


def _not_there(old: str, text: str, path: str) -> str:
    said = f"{tick(old)} is not in {tick(path)}, so nothing was changed."
    if old.lower() in text.lower():
        at = text.lower().index(old.lower())
        said += f" There is {tick(text[at : at + len(old)])}: case matters."
    return said


def _nothing(old: str, within: str, found: ToolResult) -> str:
    """Say that a search has found no place to change, or none that may be looked at."""
    if out := left_out(found):
        return f"{tick(old)} is in no file {within} that I may show; nothing was changed. {out}"
    return f"{tick(old)} is nowhere {within}, so nothing was changed."


def _replace_below(asked: Asked, old: str, new: str, where: str) -> Recipe:
    if "\n" in old:
        yield Say("A text of several lines I can replace in one file at a time: say in which.")
        return False
    found = yield from use("grep", pattern=literally(old), path=where, limit=MOST_HITS)
    if found.failed:
        yield could_not(f"search for {tick(old)}", found)
        return False
    if is_cut(found):
        yield Say(_too_many(old, MOST_HITS))
        return False
    hits = hits_of(lines_of(found))
    counts: dict[str, int] = {}
    for path, _, line in hits:
        counts[path] = counts.get(path, 0) + max(1, line.count(old))
    if not counts:
        yield Say(_nothing(old, f"below {tick(where)}", found))
        return False
    if len(counts) > _MOST_FILES:
        yield Say(_too_many(old))
        return False
    yield Say(_planned(old, new, counts))
    uses = [
        Use("edit", {"path": path, "edits": [{"old": old, "new": new, "all": True}]})
        for path in counts
    ]
    yield from _read_first(list(counts))
    results = yield tuple(uses)
    return (yield from _tell("Replaced", old, new, counts, results))


def _read_first(paths: list[str]) -> Steps:
    """Read files, so that what changes them meanwhile is noticed."""
    yield tuple(Use("read", {"path": path, "limit": 1}) for path in paths)


def _planned(old: str, new: str, counts: dict[str, int]) -> str:
    rows = [f"{tick(path)}: {plural(count, 'occurrence')}" for path, count in counts.items()]
    head = f"{tick(old)} becomes {tick(new)} in {plural(len(counts), 'file')}:"
    return f"{head}\n\n{bullets(rows, _MOST_FILES)}"


def _too_many(old: str, lines: int = 0) -> str:
    where = f"{lines:,} lines or more" if lines else f"more than {_MOST_FILES} files"
    return f"{tick(old)} is in {where}; that is too much at a time. Nothing was changed: name a folder."


def _tell(
    did: str, old: str, new: str, counts: dict[str, int], results: tuple[ToolResult, ...]
) -> Recipe:
    """Say which files were changed and which were not; the reasons once each."""
    changed = [path for path, r in zip(counts, results, strict=False) if not r.failed]
    left = [(path, r) for path, r in zip(counts, results, strict=False) if r.failed]
    if changed:
        times = sum(counts[path] for path in changed)
        what = f"{plural(times, 'occurrence')} of {tick(old)}"
        joint = "to" if did == "Renamed" else "with"
        yield Say(f"{did} {what} {joint} {tick(new)} in {plural(len(changed), 'file')}.")
    if left:
        rows = [f"{tick(path)}: {shortened(result.text, 200)}" for path, result in left]
        yield Say(f"{plural(len(left), 'file was', 'files were')} not changed:\n\n{bullets(rows)}")
    return not left


def _rename(asked: Asked) -> Recipe:
    old, new, where = asked.text("old"), asked.text("new"), asked.place("where").path
    yield Think(
        f"Looking for {old} as a whole word, so that longer names with it in them stay;"
        f" and for {new}, in case that name is taken."
    )
    pair = yield (
        Use("grep", {"pattern": literally(old, word=True), "path": where, "limit": MOST_HITS}),
        Use("grep", {"pattern": literally(new, word=True), "path": where, "limit": 50}),
    )
    if pair[0].failed:
        yield could_not(f"search for {tick(old)}", pair[0])
        return False
    if is_cut(pair[0]):
        yield Say(_too_many(old, MOST_HITS))
        return False
    paths = list(dict.fromkeys(path for path, _, _ in hits_of(lines_of(pair[0]))))
    if not paths:
        yield Say(_nothing(old, f"in {_named(where)}", pair[0]))
        return False
    if len(paths) > _MOST_FILES:
        yield Say(_too_many(old))
        return False
    texts: dict[str, str] = {}
    for path in paths:
        text = yield from whole(asked, path)
        if isinstance(text, ToolResult):
            yield could_not(f"read {tick(path)}", text)
            return False
        texts[path] = text
    edits = {path: word_edits(text, old, new) for path, text in texts.items()}
    counts = {path: times for path, (_, times) in edits.items() if times}
    said = _planned(old, new, counts)
    taken = [] if pair[1].failed else hits_of(lines_of(pair[1]))
    if taken:
        path, line, _ = taken[0]
        said += f"\n\nMind: {tick(new)} is in use already, at {tick(f'{path}:{line}')} for one."
    yield Say(said)
    results = yield tuple(Use("edit", {"path": path, "edits": edits[path][0]}) for path in counts)
    return (yield from _tell("Renamed", old, new, counts, results))


def _named(where: str) -> str:
    return "this project" if where == "." else tick(where)


def _rename_what(asked: Asked) -> Recipe:
    old, new = asked.text("old"), asked.text("new")
    yield Say(
        f"Is `{old}` a file or a name in the code? Nothing was changed. Say\n\n"
        f"- `rename the file {old} to {new}`, or\n"
        f"- `rename the symbol {old} to {new}`, with `in src`, say, to stay below a folder."
    )
    return False


def exists(path: str) -> Steps:
    """Look whether a file is there, by its name alone."""
    folder, _, name = path.replace("\\", "/").rpartition("/")
    escaped = "".join(f"[{char}]" if char in "*?[" else char for char in name)
    if path.startswith(("/", "~", "..")) or path[1:2] == ":":
        result = yield from use("glob", pattern=escaped, path=folder or "/")
    else:
        pattern = f"{folder.removeprefix('./')}/{escaped}" if folder else escaped
        result = yield from use("glob", pattern=pattern)
    if result.failed:
        return False
    # A pattern without a folder finds the name anywhere below.
    plain = "/" + path.replace("\\", "/").removeprefix("./").lstrip("/")
    found = ["/" + line.rstrip("/").lstrip("/") for line in lines_of(result)]
    return any(
        plain == line or (path.startswith(("/", "~", "..")) and plain.endswith(line))
        for line in found
    )


def _doubt_create(asked: Asked) -> str:
    path, loose = asked.place().path, asked.text("loose")
    if is_bare(loose):
        return _quote(f"create {tick(path)}", loose, f'create {path} with "…"')
    return ""


def _doubt_add(asked: Asked) -> str:
    path, loose = asked.place().path, asked.text("loose")
    if is_bare(loose):
        return _quote(f"add something to {tick(path)}", loose, f'append "…" to {path}')
    return ""


def _create(asked: Asked) -> Recipe:
    path, content = asked.place().path, asked.text("content") or asked.text("loose")
    if path in (".", "..") or path.endswith("/"):
        yield Say(f"{tick(path)} is the name of a folder, not of a file. Nothing was created.")
        return False
    there = yield from exists(path)
    if there and asked.held.get("over") is None:
        yield Say(
            f"{tick(path)} exists already, so I did not write it. Say `overwrite {path} with …` to"
            f" put the text in its place, or `append … to {path}` to add to it."
        )
        return False
    if there:
        yield from _read_first([path])
    text = content if not content or content.endswith("\n") else content + "\n"
    result = yield from use("write", path=path, text=text)
    if result.failed:
        yield could_not(f"write {tick(path)}", result)
        return False
    size = plural(len(text.splitlines()), "line")
    did = "Overwrote" if there else "Created"
    yield Say(f"{did} {tick(path)}, {size if text else 'empty'}.")
    return True


def _quote(what: str, loose: str, form: str) -> str:
    return (
        f"I understood that I am to {what}, but not whether “{shortened(_short(loose), 60)}” is the"
        f" very text or describes it; only a language model can write what is described. Nothing"
        f" was changed. If it is the text, put it in quotes or between fences: `{form}`."
    )


def _add(asked: Asked) -> Recipe:
    path, content = asked.place().path, asked.text("content") or asked.text("loose")
    text = yield from whole(asked, path)
    if isinstance(text, ToolResult):
        yield could_not(f"read {tick(path)}", text)
        return False
    lines = text.splitlines()
    at = yield from _line(asked, lines, path)
    if at is None:
        return False
    if lines and any(lines):
        result = yield from use("edit", path=path, edits=[insertion(text, at, content)])
    else:
        body = content if content.endswith("\n") else content + "\n"
        result = yield from use("write", path=path, text=body)
    if result.failed:
        yield could_not(f"change {tick(path)}", result)
        return False
    count = plural(max(1, len(content.splitlines())), "line")
    where = "at the end" if at > len(lines) else f"before line {at}" if at > 1 else "at the top"
    yield Say(f"Added {count} {where} of {tick(path)}.".replace(f"{at} of", f"{at} in"))
    return True


def _line(asked: Asked, lines: list[str], path: str) -> Steps:
    """Return the line before which to insert, None when that is not clear."""
    if asked.held.get("top") is not None:
        return 1
    if (line := asked.get("before", int)) is not None:
        return max(1, line)
    if (line := asked.get("after", int)) is not None:
        return line + 1
    anchor = asked.text("above") or asked.text("below")
    if not anchor:
        return len(lines) + 1
    found = [number for number, line in enumerate(lines, 1) if anchor in line]
    if len(found) == 1:
        return found[0] if asked.text("above") else found[0] + 1
    where = ", ".join(map(str, found[:10]))
    why = f"is in several lines ({where})" if found else "is in no line"
    yield Say(f"{tick(anchor)} {why} of {tick(path)}, so I changed nothing. Name the line.")
    return None


def _take_out(asked: Asked) -> Recipe:
    path = asked.place().path
    first, last = lines_of_range(asked)
    text = yield from whole(asked, path)
    if isinstance(text, ToolResult):
        yield could_not(f"read {tick(path)}", text)
        return False
    count = len(text.splitlines())
    if not 1 <= first <= last <= count:
        yield Say(f"{tick(path)} has {plural(count, 'line')}; I took none out.")
        return False
    result = yield from use("edit", path=path, edits=[removal(text, first, last)])
    if result.failed:
        yield could_not(f"change {tick(path)}", result)
        return False
    which = f"line {first}" if first == last else f"lines {first}–{last}"
    yield Say(f"Took {which} out of {tick(path)}.")
    return True


def _folder(asked: Asked) -> Recipe:
    import shlex

    path = asked.place().path
    result = yield from use("execute", command=shlex.join(["mkdir", "-p", "--", path]))
    if result.failed:
        yield could_not(f"create the folder {tick(path)}", result)
        return False
    yield Say(f"Created the folder {tick(path)}.")
    return True


_FILE = "[file|module|script] [named|called]"
_WITH = "(with|containing|having|saying | that contains | that says | which contains) [following|this|these]"
_CONTENT = f"({_WITH} content|contents|text|line|lines | containing|saying | that contains | that says) [following|this]"
_NAMED = "symbol|function|class|variable|method|identifier|constant|name|parameter|argument|word|attribute|type"
_THROUGH = "in|across|throughout|within|inside|below|under"

CHANGING = (
    Request(
        "replace",
        "Replaces a text wherever it stands in a file, or in the files below a folder (with a slash"
        " at its end).",
        (
            'replace "colour" with "color" in notes.txt',
            "change `DEBUG = True` to `DEBUG = False` in settings.py",
            'replace "http:" with "https:" in docs/',
        ),
        (
            "(replace|substitute|swap) [all|every|each] [occurrences|occurrence|instances|instance of]"
            " [text|word|string] <old:text> (with|by) [text|word|string] <new:text>"
            f" {_THROUGH} [file] <path:place>",
            "(change|turn|edit|update|correct|fix) [all|every|each] [occurrences|occurrence|instances of]"
            f" [text|word|string] <old:text> (to|into) <new:text> {_THROUGH} [file] <path:place>",
            "in [file] <path:place> , (replace|substitute) [all|every] [occurrences of] <old:text> (with|by) <new:text>",
            "in [file] <path:place> , change [all|every] [occurrences of] <old:text> (to|into) <new:text>",
            "in [file] <path:place> (replace|substitute) [all|every] [occurrences of] <old:text> (with|by) <new:text>",
            "in [file] <path:place> change [all|every] [occurrences of] <old:text> (to|into) <new:text>",
            "(replace|substitute) [all|every] [occurrences|occurrence of] <old:text> (with|by) <new:text>",
            "(remove|delete|erase) [all|every] [occurrences|occurrence of] [text|word|string] <old:quoted> (from|in) [file] <path:file>",
        ),
        "edit",
        _replace,
        doubt=_doubt_replace,
    ),
    Request(
        "rename a symbol",
        "Renames a name in the code wherever it stands as a whole word, below a folder or in a file;"
        " says first in which files.",
        (
            "rename the symbol fetch_all to load_all in src",
            "rename class User to Account everywhere",
        ),
        (
            f"(rename|change) [all|every] ({_NAMED}) <old:name> (to|as|into) <new:name>"
            f" [({_THROUGH}) [all] [file|files|folder] [in|of] <where:place>] [everywhere|throughout]",
            f"rename [all|every] [{_NAMED}] <old:name> (to|as|into) <new:name>"
            f" ({_THROUGH}) [all] [file|files|folder] [in|of] <where:place>",
            "rename <old:name> (to|as|into) <new:name> everywhere|throughout",
            f"(rename) [{_NAMED}] <old:name> everywhere (to|as|into) <new:name>",
        ),
        "edit",
        _rename,
    ),
    Request(
        "rename",
        "Asks back: a file, or a name in the code?",
        (),
        ("rename <old:name> (to|as|into) <new:name>",),
        "none",
        _rename_what,
        asks_back=True,
    ),
    Request(
        "create",
        "Creates a file, empty or with a text; what exists is not overwritten unless that is said.",
        (
            'create notes.txt with "Buy milk"',
            "create an empty file src/app/__init__.py",
            'write "hello" to greeting.txt',
            'overwrite notes.txt with "Buy bread"',
        ),
        (
            "(create|make|write|add) [new] [empty] file|module|script [named|called] <path:place>",
            "(create|make|touch) [new] [empty] <path:file>",
            f"(create|make|write|add) [new] file|module|script [named|called] <path:place> {_CONTENT} <content:content>",
            f"(create|make|write|add) [new] {_FILE} <path:file> {_CONTENT} <content:content>",
            f"(create|make|write|add) [new] file|module|script [named|called] <path:place> {_WITH} <loose:content>",
            f"(create|make|write|add) [new] {_FILE} <path:file> {_WITH} <loose:content>",
            f"(create|make|write) [new] {_FILE} <path:file> [with|containing|following] <content:block>",
            f"(write|save|store|put) [text|line|lines|following|this] (to|into|in) [new] {_FILE} <path:file> <content:block>",
            "<over:over> [file] <path:place> [with] <content:block>",
            "(write|save|store) [text|line|lines] <loose:content> (to|into|in) [new] [file] [named|called] <path:file>",
            "<over:over> [file] <path:place> {_WITH} [content|contents|text] <loose:content>".replace(
                "{_WITH}", _WITH
            ),
        ),
        "edit",
        _create,
        doubt=_doubt_create,
    ),
    Request(
        "create a folder",
        "Creates a folder (with `mkdir`).",
        ("create the folder src/new",),
        ("(create|make|add) [new] [empty] folder|directory [named|called] <path:place>",),
        "run",
        _folder,
    ),
    Request(
        "add",
        "Adds lines to a file: at its end or top, before or after a line.",
        (
            'append "- done" to TODO.md',
            'insert "import os" at the top of app.py',
            'insert "# setup" before line 10 of app.py',
            'add "import sys" after "import os" in app.py',
        ),
        (
            "append [text|line|lines] <content:content> (to|at) [end|bottom of] [file] <path:place>",
            "(append|add) [text|line|lines|following|this] to [end of] [file] <path:file> <content:block>",
            "(add|insert|put|write) [text|line|lines] <loose:content> (to|at|in|into) end|bottom of|in [file] <path:place>",
            "(add|insert|put|write) [text|line|lines] <loose:content> (to|at|in|into) <top:top> of|in [file] <path:place>",
            "prepend [text|line|lines] <loose:content> (to|at|in) [file] <path:place> <top:nothing>",
            "(add|insert|put) [text|line|lines] <loose:content> (before|at) line <before:number> (of|in|to|into) [file] <path:place>",
            "(add|insert|put) [text|line|lines] <loose:content> after line <after:number> (of|in|to|into) [file] <path:place>",
            "(add|insert|put) [text|line|lines] <loose:content> after [line|text] <below:quoted> (of|in|to|into) [file] <path:place>",
            "(add|insert|put) [text|line|lines] <loose:content> before [line|text] <above:quoted> (of|in|to|into) [file] <path:place>",
            "(add) [text|line|lines|following] <loose:content> (to|into) [file] <path:file>",
        ),
        "edit",
        _add,
        doubt=_doubt_add,
    ),
    Request(
        "take out lines",
        "Takes lines out of a file, by their numbers.",
        ("delete line 3 of notes.txt", "remove lines 10-12 from app.py"),
        (
            "(delete|remove|erase | take out) line|lines (<range:range> | <first:number> [to|through|until|and|- <last:number>])"
            " (of|from|in) [file] <path:file>",
        ),
        "edit",
        _take_out,
    ),
)
