"""Requests that move, copy and delete files; what is not surely a file is asked back about."""

from __future__ import annotations

from accord_coder.loop.messages import ToolResult
from accord_coder.models.embedded.families.changing import exists
from accord_coder.models.embedded.kit import (
    bullets,
    could_not,
    lines_of,
    plural,
    shortened,
    tick,
    whole,
)
from accord_coder.models.embedded.place import Place
from accord_coder.models.embedded.recipe import Recipe, Say, Steps, Use, use
from accord_coder.models.embedded.request import Asked, Request

__all__ = ("MOVING",)

_MOST = 60  # files to delete at a time
_DELETE = "Delete them"
_KEEP = "Keep them"


def _doubt_delete(asked: Asked) -> str:
    places = asked.places() or (asked.place(),)
    named = asked.held.get("named") is not None
    unclear = [place.path for place in places if not (place.sure or named)]
    if any(place.path.strip("./~\\") == "" or place.refers == "here" for place in places):
        return "I do not delete the whole project. Nothing was deleted; name the files."
    if unclear:
        name = unclear[0]
        return (
            f"I understood that something is to be deleted, but not whether {tick(name)} is a file."
            f" Nothing was deleted. If it is one, say `delete the file {name}`."
        )
    if len(places) > 1 and any(char in place.path for place in places for char in "*?"):
        return "Delete by one pattern at a time, please. Nothing was deleted."
    return ""


def _delete(asked: Asked) -> Recipe:
    places = asked.places() or (asked.place(),)
    patterns = [place.path for place in places if any(char in place.path for char in "*?")]
    if patterns:
        return (yield from _delete_matching(asked, patterns[0], "."))
    return (yield from _delete_all([place.path for place in places]))


def _delete_kind(asked: Asked) -> Recipe:
    pattern = asked.text("kind") or asked.text("pattern")
    return (yield from _delete_matching(asked, pattern, asked.place("where").path))


def _delete_matching(asked: Asked, pattern: str, where: str) -> Recipe:
    """List what matches, and delete only what the user has seen and agreed to."""
    wide = pattern if "/" in pattern else f"**/{pattern}"
    found = yield from use("glob", pattern=wide, path=where)
    if found.failed:
        yield could_not(f"look for {tick(pattern)}", found)
        return False
    paths = [line for line in lines_of(found) if not line.endswith("/")]
    if not paths:
        yield Say(f"No file matches {tick(wide)}; nothing was deleted.")
        return True
    head = f"{plural(len(paths), 'file matches', 'files match')} {tick(wide)}:"
    yield Say(f"{head}\n\n{bullets([*map(tick, paths)], _MOST)}")
    if len(paths) > _MOST:
        yield Say(f"That is more than {_MOST}, so I deleted nothing. Narrow it down.")
        return False
    answer = None
    if "ask" in asked.tools:
        question = f"Delete {plural(len(paths), 'file')} matching {pattern}?"
        answer = yield from use("ask", question=question, choices=[_DELETE, _KEEP])
    if answer is None or answer.failed:
        names = " ".join(f'"{path}"' for path in paths[:3]) + (" …" if len(paths) > 3 else "")
        yield Say(f"I delete by a pattern only what you confirm: say `delete {names}`.")
        return False
    if _DELETE not in answer.text:
        yield Say("Nothing was deleted.")
        return False
    return (yield from _delete_all(paths))


def _delete_all(paths: list[str]) -> Recipe:
    results = yield tuple(Use("delete", {"path": path}) for path in paths[:_MOST])
    gone = [path for path, r in zip(paths, results, strict=False) if not r.failed]
    left = [(path, r) for path, r in zip(paths, results, strict=False) if r.failed]
    if len(paths) == 1 and left:
        yield could_not(f"delete {tick(paths[0])}", left[0][1])
        return False
    if gone:
        shown = ", ".join(map(tick, gone[:10])) + (" …" if len(gone) > 10 else "")
        yield Say(f"Deleted {shown}.")
    if left:
        rows = [f"{tick(path)}: {shortened(result.text, 200)}" for path, result in left]
        yield Say(f"{plural(len(left), 'file was', 'files were')} not deleted:\n\n{bullets(rows)}")
    return not left


def _unclear_delete(asked: Asked) -> Recipe:
    yield Say(
        "I understood that something is to be deleted or taken out, but not exactly what. Nothing"
        " was changed. I can delete files (`delete old.txt`), files by a pattern, after showing"
        " them (`delete all *.pyc files in src`), lines (`delete line 3 of notes.txt`) and a text"
        ' (`remove "DEBUG" from app.py`).'
    )
    return False


def _doubt_move(asked: Asked) -> str:
    source, target = asked.place("source"), asked.place("target")
    if source.path.strip("./~\\") == "":
        return "I do not move the whole project. Nothing was moved."
    if not (source.sure or asked.held.get("named") is not None):
        return (
            f"I understood that something is to be moved, but not whether {tick(source.path)} is a"
            f" file. Nothing was moved. If it is one, say"
            f" `move the file {source.path} to {target.path}`."
        )
    return ""


def _move(asked: Asked) -> Recipe:
    source, target = asked.place("source"), asked.place("target")
    path = yield from _target(asked, source.path, target)
    result = yield from use("move", source=source.path, target=path)
    if result.failed:
        yield could_not(f"move {tick(source.path)} to {tick(path)}", result)
        return False
    did = "Renamed" if asked.held.get("renaming") is not None else "Moved"
    yield Say(f"{did} {tick(source.path)} to {tick(path)}.")
    return True


def _target(asked: Asked, source: str, target: Place) -> Steps:
    """Return the path of what is moved: below the target when that is a folder."""
    path = target.path
    folder, _, name = source.rstrip("/").rpartition("/")
    if asked.held.get("renaming") is not None:
        return f"{folder}/{path}" if folder and "/" not in path else path
    if path.endswith("/") or path in (".", ".."):
        return f"{path.rstrip('/')}/{name}" if path != "." else name
    if asked.held.get("inside") is not None:
        return f"{path}/{name}"
    if "." not in path.rpartition("/")[2] and "." in name:
        # Without a suffix it may be a folder that is there.
        above, _, last = path.rpartition("/")
        listed = yield from use("list", path=above or ".", depth=1)
        entries = [] if listed.failed else lines_of(listed)
        if any(
            entry.rstrip("/").rpartition("/")[2] == last and entry[-1] == "/" for entry in entries
        ):
            return f"{path}/{name}"
    return path


def _copy(asked: Asked) -> Recipe:
    source = asked.place("source")
    path = yield from _target(asked, source.path, asked.place("target"))
    if (yield from exists(path)):
        yield Say(f"{tick(path)} exists already, so I copied nothing.")
        return False
    text = yield from whole(asked, source.path)
    if isinstance(text, ToolResult):
        yield could_not(f"read {tick(source.path)}", text)
        return False
    result = yield from use("write", path=path, text=text)
    if result.failed:
        yield could_not(f"write {tick(path)}", result)
        return False
    yield Say(f"Copied {tick(source.path)} to {tick(path)}.")
    return True


_VERB = "delete|remove|erase|rm|trash"
_FILE = "<named:filewords>"

MOVING = (
    Request(
        "delete",
        "Deletes files. By a pattern, it shows which match and asks before it deletes any.",
        ("delete old.txt", "delete a.txt and b.txt", "delete all *.pyc files in src"),
        (
            f"({_VERB}) {_FILE} <paths:places>",
            f"({_VERB}) <paths:places>",
            f"({_VERB}) <path:place> file|folder|directory <named:nothing>",
            f"(get rid of) [{_FILE}] <paths:places>",
        ),
        "delete",
        _delete,
        doubt=_doubt_delete,
    ),
    Request(
        "delete by pattern",
        "See `delete`.",
        (),
        (
            f"({_VERB}) [all|every] [files] [matching|named|called] <pattern:glob> [files]"
            " [in|from|under|below|inside [folder|directory] <where:place>]",
            f"({_VERB}) [all|every] <kind:kind> files"
            " [in|from|under|below|inside [folder|directory] <where:place>]",
        ),
        "delete",
        _delete_kind,
    ),
    Request(
        "delete what",
        "Asks back what to delete.",
        (),
        (f"({_VERB}) [<rest:rest>]",),
        "none",
        _unclear_delete,
        asks_back=True,
    ),
    Request(
        "move",
        "Moves a file, or gives it another name.",
        (
            "move notes.txt to docs/",
            "rename old.py to new.py",
            "rename the file LICENSE to COPYING",
        ),
        (
            "(move|mv) <named:filewords> <source:place> to [folder|directory] <target:place>",
            "(move|mv) <source:place> to [folder|directory] <target:place>",
            "(move|mv) <named:filewords> <source:place> into [folder|directory] <target:place> <inside:nothing>",
            "(move|mv) <source:place> into [folder|directory] <target:place> <inside:nothing>",
            "mv <source:place> <target:place>",
            "(rename) <named:filewords> <source:place> (to|as|into) <target:place> <renaming:nothing>",
            "(rename) <source:file> (to|as|into) <target:place> <renaming:nothing>",
        ),
        "delete",
        _move,
        doubt=_doubt_move,
    ),
    Request(
        "copy",
        "Copies a text file; what exists is not overwritten.",
        ("copy config.toml to config.old.toml",),
        (
            "(copy|cp|duplicate) [file] <source:place> (to|as) <target:place>",
            "(copy|cp) [file] <source:place> into [folder|directory] <target:place> <inside:nothing>",
            "cp <source:place> <target:place>",
        ),
        "edit",
        _copy,
    ),
)
