"""What a tool call of a framework does, found from its name and arguments.

Frameworks give a name and JSON; editors show a title, an icon, files and diffs. Names are compared
without case, dots, dashes and underscores, so that `read_file`, `ReadFile` and `fs.read-file` are
one tool.
"""

from __future__ import annotations

import base64
import binascii
import json
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, cast

import msgspec
from msgspec import Struct

from accord import AudioContent, ContentBlock, Diff, EmbeddedResource, ImageContent, PlanEntry

_KINDS: dict[str, str] = {
    name: kind
    for kind, names in {
        "read": "read readfile cat view viewfile open openfile loadfile getfile fileread ls listdir"
        " listfiles listdirectory readmanyfiles notebookread readtextfile",
        "edit": "edit editfile write writefile create createfile strreplace strreplaceeditor"
        " strreplacebasededittool multiedit applypatch applydiff patch notebookedit savefile"
        " overwritefile appendfile insert filewrite writetextfile replaceinfile searchreplace",
        "delete": "delete deletefile remove removefile rm unlink",
        "move": "move movefile rename renamefile mv",
        "search": "grep glob search find ripgrep findfiles searchfiles filesearch codesearch"
        " toolsearch searchcode globsearch grepsearch",
        "execute": "bash shell run runcommand execute executecommand terminal cmd powershell exec"
        " runshell runshellcommand shellcommand computer python pythoninterpreter codeinterpreter"
        " codeexecution executecode runcode runpython localshell killshell bashoutput",
        "fetch": "fetch webfetch websearch browse geturl fetchurl httprequest curl download"
        " visitwebpage duckduckgosearch googlesearch tavilysearch bravesearch"
        " webbrowser urlcontext",
        "think": "think todowrite writetodos updateplan task agent plan sequentialthinking"
        " managetodolist settodos finalanswer",
    }.items()
    for name in names.lower().split()
}
# For names such as `update_config_file`, by the first word.
_OBJECTS = frozenset(("file", "files", "command", "url", "code", "directory", "page", "folder"))
_VERBS = {
    **dict.fromkeys(("read", "get", "list", "open", "view"), "read"),
    **dict.fromkeys(("edit", "write", "update", "create", "change"), "edit"),
    **dict.fromkeys(("delete", "remove"), "delete"),
    **dict.fromkeys(("move", "rename"), "move"),
    **dict.fromkeys(("search", "find", "grep"), "search"),
    **dict.fromkeys(("run", "execute"), "execute"),
    **dict.fromkeys(("fetch", "browse", "download"), "fetch"),
}
_PLAN_TOOLS = frozenset(
    ("todowrite", "writetodos", "updateplan", "managetodolist", "settodos", "updatetodos")
)
_PATHS = (
    "file_path",
    "path",
    "filepath",
    "filename",
    "file",
    "file_name",
    "notebook_path",
    "target_file",
    "relative_path",
    "absolute_path",
    "source",
    "destination",
    "directory",
)
_COMMANDS = ("command", "cmd", "script", "code", "argv", "commands")
_SUBJECTS = ("query", "pattern", "url", "uri", "prompt", "description", "question", "text", "name")
_WORDS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z0-9]+|[A-Z]")
_STATUSES = {
    "pending": "pending",
    "todo": "pending",
    "notstarted": "pending",
    "open": "pending",
    "inprogress": "in_progress",
    "active": "in_progress",
    "doing": "in_progress",
    "completed": "completed",
    "complete": "completed",
    "done": "completed",
    "cancelled": "cancelled",
    "canceled": "cancelled",
    "skipped": "cancelled",
}
_MAX_FILE = 500_000  # bytes of a file that is read to show a change as a diff
_MAX_TITLE = 100


class Described(Struct, frozen=True):
    """How a call is shown."""

    title: str
    kind: str
    locations: tuple[str, ...] = ()
    diffs: tuple[Diff, ...] = ()


def describe(
    name: str, arguments: Any, cwd: str, *, title: str | None = None, kind: str | None = None
) -> Described:
    """Return how to show a call; files are those of this machine, relative to `cwd`."""
    kind = kind or kind_of(name)
    args: Mapping[str, Any] = {}
    if isinstance(arguments, Mapping):
        args = cast("Mapping[str, Any]", arguments)
    paths = [os.path.normpath(os.path.join(cwd, path)) for path in _paths(args)]  # noqa: PTH118  # text
    if title is None:
        title = _title(name, args, arguments, [_relative(path, cwd) for path in paths])
    diffs = _diffs(name, args, paths[0]) if kind == "edit" and paths else ()
    return Described(title, kind, tuple(dict.fromkeys(paths)), diffs)


def kind_of(name: str) -> str:
    """Return the kind of a tool by its name, `other` for an unknown one."""
    plain = _plain(name)
    if plain in _KINDS:
        return _KINDS[plain]
    _, _, last = name.replace("__", ".").rpartition(".")  # of a server of MCP
    if _plain(last) in _KINDS:
        return _KINDS[_plain(last)]
    words = [word.lower() for word in _WORDS.findall(last)]
    if len(words) > 1 and words[-1] in _OBJECTS:
        return _VERBS.get(words[0], "other")
    return "other"


def command_of(name: str, arguments: Any) -> str | None:
    """Return the command line that a call runs; None for other calls."""
    if kind_of(name) != "execute" or not isinstance(arguments, Mapping):
        return None
    return _command(cast("Mapping[str, Any]", arguments)) or json.dumps(
        arguments, sort_keys=True, default=str
    )


def plan_of(name: str, arguments: Any) -> list[PlanEntry] | None:
    """Return the plan that a call of a planning tool sets; None for other calls."""
    if _plain(name.replace("__", ".").rpartition(".")[2]) not in _PLAN_TOOLS:
        return None
    items: Any = arguments
    if isinstance(arguments, Mapping):
        args = cast("Mapping[str, Any]", arguments)
        items = next(
            (
                args[k]
                for k in ("todos", "plan", "items", "steps", "entries", "todoList")
                if k in args
            ),
            None,
        )
    if not isinstance(items, Sequence) or isinstance(items, str):
        return None
    entries: list[PlanEntry] = []
    for item in cast("Sequence[Any]", items):
        if isinstance(item, str):
            entries.append(PlanEntry(item))
        elif isinstance(item, Mapping):
            fields = cast("Mapping[str, Any]", item)
            text = next(
                (
                    fields[k]
                    for k in ("content", "step", "title", "task", "description", "text")
                    if fields.get(k)
                ),
                None,
            )
            if text is None:
                continue
            status = _STATUSES.get(_plain(str(fields.get("status", "pending"))), "pending")
            priority = str(fields.get("priority", "medium"))
            entries.append(
                PlanEntry(str(text), status, priority if priority in ("high", "low") else "medium")
            )
    return entries


def shown(value: object) -> list[ContentBlock]:
    """Return any output of a tool or an agent as content; what has no form is described."""
    if value is None or value == "":
        return []
    if isinstance(value, str | ImageContent | AudioContent | EmbeddedResource):
        return [value]
    if isinstance(value, bytes | bytearray):
        return [_bytes(bytes(value), None)]
    data: Any = value
    dump: Any = getattr(value, "model_dump", None)
    if dump is not None and not isinstance(value, type):
        try:
            data = dump(mode="json", exclude_none=True)
        except Exception:  # noqa: BLE001  # of any model: its text is shown
            return [str(value)]
    if isinstance(data, Mapping):
        block = _block(cast("Mapping[str, Any]", data))
        if block is not None:
            return block
    elif isinstance(data, Sequence):
        items = cast("Sequence[Any]", data)
        blocks = [_item(item) for item in items]
        if blocks and all(block is not None for block in blocks):
            return [part for block in blocks for part in block or ()]
    image = getattr(value, "data", None)
    media_type = getattr(value, "media_type", None) or getattr(value, "mime_type", None)
    if isinstance(image, bytes) and isinstance(media_type, str):
        return [_bytes(image, media_type)]
    try:
        text = json.dumps(msgspec.to_builtins(data, enc_hook=str), ensure_ascii=False, indent=2)
        return [text]
    except (TypeError, ValueError, msgspec.MsgspecError):
        return [str(value)]


def _item(item: object) -> list[ContentBlock] | None:
    if isinstance(item, str):
        return [item]
    return _block(cast("Mapping[str, Any]", item)) if isinstance(item, Mapping) else None


def _block(item: Mapping[str, Any]) -> list[ContentBlock] | None:
    """Return content in a form that providers of models use; None for other JSON."""
    match item:
        case {"type": "text" | "output_text" | "input_text", "text": str() as text}:
            return [text]
        case {"type": "image" | "audio" as kind, "data": str() as data}:
            mime = str(item.get("mimeType") or item.get("mime_type") or f"{kind}/png")
            return _decoded(data, mime)
        case {"type": "image", "source": {"data": str() as data, **source}}:
            return _decoded(data, str(source.get("media_type", "image/png")))
        case {"type": "image_url", "image_url": {"url": str() as url}} | {
            "type": "input_image",
            "image_url": str() as url,
        }:
            head, comma, data = url.partition(";base64,")
            if comma and head.startswith("data:"):
                return _decoded(data, head[5:])
            return [f"![image]({url})"]
        case {"type": "resource", "resource": {"uri": str() as uri, "text": str() as text, **more}}:
            return [EmbeddedResource(uri, text, more.get("mimeType"))]
        case {"type": "resource_link", "uri": str() as uri}:
            return [f"[{item.get('name') or uri}]({uri})"]
        case _:
            return None


def _decoded(data: str, mime_type: str) -> list[ContentBlock]:
    try:
        return [_bytes(base64.b64decode(data, validate=True), mime_type)]
    except binascii.Error:
        return [f"({mime_type} that cannot be decoded, {len(data):,} characters)"]


def _bytes(data: bytes, mime_type: str | None) -> ContentBlock:
    mime_type = mime_type or "application/octet-stream"
    if mime_type.startswith("image/"):
        return ImageContent(data, mime_type)
    if mime_type.startswith("audio/"):
        return AudioContent(data, mime_type)
    return f"({mime_type}, {len(data):,} bytes)"


def _plain(name: str) -> str:
    return re.sub(r"[\W_]", "", name).lower()


def _paths(args: Mapping[str, Any]) -> Iterable[str]:
    for key in _PATHS:
        value = args.get(key)
        if isinstance(value, str) and value and "\n" not in value and "://" not in value:
            yield value


def _relative(path: str, cwd: str) -> str:
    inside = cwd.rstrip(os.sep) + os.sep
    return path.removeprefix(inside)


def _command(args: Mapping[str, Any]) -> str | None:
    for key in _COMMANDS:
        value = args.get(key)
        if isinstance(value, str) and value:
            return value
        if isinstance(value, list) and value:
            return " ".join(map(str, cast("list[Any]", value)))
    return None


def _title(name: str, args: Mapping[str, Any], arguments: Any, paths: Sequence[str]) -> str:
    words = [word if word.isupper() else word.lower() for word in _WORDS.findall(name)] or [name]
    label = " ".join(words)
    label = label[:1].upper() + label[1:]
    kind = kind_of(name)
    subject: str | None = None
    if kind == "execute":
        subject = _command(args)
    elif paths:
        label = label.removesuffix(" file")
        subject = paths[0]
    if subject is None:
        subject = next((v for k in _SUBJECTS if isinstance(v := args.get(k), str) and v), None)
    if subject is None and isinstance(arguments, str):
        subject = arguments
    if not subject:
        return label
    line = " ".join(subject.split())
    if kind == "execute":
        return _cut(line) if len(line) > 3 else f"{label} {line}"
    return _cut(f"{label} {line}")


def _cut(text: str) -> str:
    return text if len(text) <= _MAX_TITLE else f"{text[: _MAX_TITLE - 1]}…"


def _diffs(name: str, args: Mapping[str, Any], path: str) -> tuple[Diff, ...]:
    """Return the changes that an edit makes, as whole files where the file can be read."""
    edits = _edits(args)
    content = next((v for k in ("content", "file_text", "contents", "text", "new_content")
                    if isinstance(v := args.get(k), str)), None)  # fmt: skip
    if not edits and content is None:
        return ()
    old = _text(path)
    if not edits:
        if "append" in _plain(name):
            return (Diff(path, old, (old or "") + (content or "")),)
        return (Diff(path, old, content),)
    new = old
    for before, after, every in edits:
        if new is None or not before or before not in new:
            return tuple(Diff(path, b, a) for b, a, _ in edits)  # the parts, as they were given
        new = new.replace(before, after, -1 if every else 1)
    return (Diff(path, old, new),)


def _edits(args: Mapping[str, Any]) -> list[tuple[str, str, bool]]:
    listed = args.get("edits")
    sources: list[Any] = cast("list[Any]", listed) if isinstance(listed, list) else [args]
    found: list[tuple[str, str, bool]] = []
    for source in sources:
        if not isinstance(source, Mapping):
            continue
        fields = cast("Mapping[str, Any]", source)
        old = next((fields[k] for k in ("old_string", "old_str", "oldText", "old_text", "search")
                    if isinstance(fields.get(k), str)), None)  # fmt: skip
        new = next((fields[k] for k in ("new_string", "new_str", "newText", "new_text", "replace")
                    if isinstance(fields.get(k), str)), None)  # fmt: skip
        if old is not None and new is not None:
            found.append((old, new, bool(fields.get("replace_all"))))
    return found


def _text(path: str) -> str | None:
    """Return the text of a file; None for one that does not exist, is large, or is no text."""
    try:
        if os.path.getsize(path) > _MAX_FILE:  # noqa: PTH202  # a text is at hand
            return None
        with open(path, encoding="utf-8", newline="") as file:  # noqa: PTH123  # as above
            return file.read()
    except (OSError, UnicodeDecodeError, ValueError):
        return None
