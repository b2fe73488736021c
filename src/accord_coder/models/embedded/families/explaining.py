"""Requests that explain: the outline of a Python file, what a file or the project is made of."""

from __future__ import annotations

import msgspec

from accord_coder.loop.messages import ToolResult
from accord_coder.models.embedded.kit import (
    bullets,
    could_not,
    lines_of,
    paths_in,
    plural,
    shortened,
    tick,
    whole,
)
from accord_coder.models.embedded.recipe import Recipe, Say, use
from accord_coder.models.embedded.request import Asked, Request
from accord_coder.models.embedded.structure import structure_of
from accord_coder.models.embedded.syntax import NotPython, explanation, outline

__all__ = ("EXPLAINING",)

_AT_ONCE = 20  # files
_MANIFESTS = ("pyproject.toml", "package.json", "Cargo.toml", "go.mod")


def _outline(asked: Asked) -> Recipe:
    return (yield from _each(asked, brief=False))


def _explain(asked: Asked) -> Recipe:
    return (yield from _each(asked, brief=True))


def _each(asked: Asked, *, brief: bool) -> Recipe:
    done = True
    for place in (asked.places() or (asked.place(),))[:_AT_ONCE]:
        if place.path in (".", "..") or place.path.endswith("/"):
            done &= yield from _folder(asked, place.path)
            continue
        text = yield from whole(asked, place.path)
        if isinstance(text, ToolResult):
            yield could_not(f"read {tick(place.path)}", text)
            done = False
            continue
        yield Say(_made_of(place.path, text, brief=brief))
    return done


def _made_of(path: str, text: str, *, brief: bool) -> str:
    if path.endswith((".py", ".pyi")):
        try:
            return explanation(path, text) if brief else outline(path, text)
        except NotPython as error:
            return f"{tick(path)} is not valid Python ({error})."
    return structure_of(path, text) or ""


def _project(asked: Asked) -> Recipe:
    return (yield from _folder(asked, "."))


def _folder(asked: Asked, where: str) -> Recipe:
    """Say what a folder is: by its manifest, its README, and its files by kind."""
    listed = yield from use("list", path=where, depth=1)
    if listed.failed:
        yield could_not(f"list {tick(where)}", listed)
        return False
    entries = {line.rstrip("/").rpartition("/")[2]: line for line in lines_of(listed)}
    said: list[str] = []
    for name in _MANIFESTS:
        if name in entries:
            text = yield from whole(asked, _below(where, name))
            if isinstance(text, str) and (about := _about(name, text)):
                said.append(about)
                break
    readme = next((name for name in entries if name.lower() in ("readme.md", "readme")), None)
    if readme is not None and not said:
        text = yield from whole(asked, _below(where, readme))
        if isinstance(text, str) and (first := _first_paragraph(text)):
            said.append(f"{tick(readme)} says: “{shortened(first, 400)}”")
    globbed = yield from use("glob", pattern="**/*", path=where)
    if not globbed.failed:
        said.append(_kinds(paths_in(lines_of(globbed))))
    top = sorted(entries.values(), key=lambda line: (not line.endswith("/"), line))
    said.append("At its top:\n\n" + bullets([*map(tick, top)], 30) if top else "It is empty.")
    yield Say("\n\n".join(said))
    return True


def _below(where: str, name: str) -> str:
    return name if where == "." else f"{where.rstrip('/')}/{name}"


def _about(name: str, text: str) -> str:
    """Return what a manifest says of the project."""
    import tomllib

    try:
        match name:
            case "package.json":
                table = msgspec.json.decode(text, type=dict[str, object])
            case "go.mod":
                return f"It is the Go module {tick(text.partition('module ')[2].split()[0])}."
            case _:
                loaded = tomllib.loads(text)
                table: dict[str, object] = loaded.get("project") or loaded.get("package") or {}
    except (ValueError, IndexError, msgspec.MsgspecError, RecursionError):
        return ""
    title, about = table.get("name"), table.get("description")
    if not isinstance(title, str):
        return ""
    kind = {"package.json": "npm package", "Cargo.toml": "Rust crate"}.get(name, "Python project")
    said = f"It is the {kind} {tick(title)}."
    return f"{said} “{shortened(about, 300)}”" if isinstance(about, str) else said


def _first_paragraph(text: str) -> str:
    for paragraph in text.split("\n\n")[:20]:
        plain = " ".join(paragraph.split())
        if plain and not plain.startswith(("#", "<", "[!", "![", "```", "|")):
            return plain
    return ""


def _kinds(paths: list[str]) -> str:
    counts: dict[str, int] = {}
    for path in paths:
        name = path.rpartition("/")[2]
        suffix = "." + name.rpartition(".")[2] if "." in name.lstrip(".") else "no suffix"
        counts[suffix] = counts.get(suffix, 0) + 1
    most = sorted(counts, key=lambda suffix: (-counts[suffix], suffix))[:6]
    rows = ", ".join(f"{counts[suffix]:,} {suffix}" for suffix in most)
    return f"It has {plural(len(paths), 'file')}" + (f": {rows}." if rows else ".")


_ABOUT = "explain|describe|summarize|summarise|analyze|analyse|understand"
_HERE = "project|repository|repo|codebase|workspace"

EXPLAINING = (
    Request(
        "project",
        "Says what the project is, how many files of which kinds it has, and what is at its top.",
        ("explain this project", "what is this project?"),
        (
            f"({_ABOUT}) [structure|content|layout] [of] [this] {_HERE} [to me]",
            f"(tell) [me] [about] [this] {_HERE}",
            f"(what is | what's | whats) [this] {_HERE} [about|for|structure]",
            f"(what does) [this] {_HERE} (do|contain|have)",
            f"(how is) [this] {_HERE} (structured|organised|organized)",
            f"(give) [me] [an|a] (overview|summary|tour) [of] [this] [{_HERE}]",
            "(overview)",
        ),
        "read",
        _project,
    ),
    Request(
        "outline",
        "Outlines a Python file: its classes, functions and constants with their lines.",
        ("outline src/app.py", "which functions are in app.py?"),
        (
            "outline [file|files|module] <paths:places>",
            "(show|give|print|make|draw|create|get) [an|the] (outline|symbols|overview) (of|in|for) [file|module] <paths:places>",
            "(what|which) [public] (classes|functions|methods|symbols|definitions) [and classes|functions|methods]"
            " (are|does|do|has|is) [there|defined] [in] [file|module] <paths:places> [have|has|define|contain]",
            "(list|show|find|get) [all] (classes|functions|methods|symbols|definitions) [and classes|functions|methods]"
            " [defined] (in|of) [file|module] <paths:places>",
        ),
        "read",
        _outline,
    ),
    Request(
        "explain",
        "Says what a file is made of: Python, headings of Markdown, keys of TOML and JSON, others by"
        " their shape. Of a folder, what it holds.",
        ("explain src/app.py", "what is in pyproject.toml?", "summarize this file"),
        (
            f"({_ABOUT}) [structure|content|contents|layout] [of] [file|files|module] <paths:places>",
            "(show|give) [me] [a|the] (summary|explanation|description) of [file|module] <paths:places>",
            "(what is | what's | whats) (in|inside) [file] <path:file>",
            "(tell) [me] (about) [file|module] <paths:places>",
            "(what) (does|is) [file|module] <path:file> [do|for|about]",
            "(what) [file|module] <path:file> (does|is) [about|for]",
            "(how is) [file|module] <path:file> (structured|organised|organized|built)",
            "(what do i have | what is) in [file] <path:file>",
        ),
        "read",
        _explain,
    ),
)
