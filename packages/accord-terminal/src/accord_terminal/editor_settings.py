"""The settings file of an editor: JSON with comments, of which one member is set or removed.

The rest of the text stays as it is. A file is replaced after a backup.
"""

from __future__ import annotations

import json
import os
import re
import stat
import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeAlias, TypeGuard

from msgspec import Struct

from accord.errors import AccordError

# Why the settings of an editor were not changed.


class EditorError(AccordError):
    """The settings of an editor cannot be changed; nothing was written."""


class JsoncError(EditorError):
    """A text is not JSON with comments, or has another shape than expected.

    `line` and `column` count from 1.
    """

    def __init__(self, message: str, text: str, at: int) -> None:
        before = text[:at].replace("\r\n", "\n").replace("\r", "\n")
        self.line = before.count("\n") + 1
        self.column = len(before) - before.rfind("\n")
        super().__init__(f"line {self.line}, column {self.column}: {message}")


# Reads JSON with comments and trailing commas, with the place of everything in the text.

Json: TypeAlias = Any
_MAX_DEPTH = 100  # levels of objects and arrays; settings have a handful
_SPACES = " \t\r\n"
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")
_STRING = re.compile(r'"(?:[^"\\\x00-\x1f]|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*"')
_LINE_COMMENT = re.compile(r"//[^\r\n]*")
_WORDS: dict[str, Json] = {"true": True, "false": False, "null": None}


class Lead(Struct, frozen=True):
    """The end of the token or comment that precedes something."""

    end: int
    is_line_comment: bool


class Member(Struct, frozen=True):
    """A key with its value. `comma` is the position of the comma after it, if there is one."""

    key: str
    start: int
    value: Node
    comma: int | None
    lead: Lead


class Node(Struct, frozen=True):
    """A value from `start` to `end`; `members` is None if it is not an object."""

    start: int
    end: int
    value: Json
    members: tuple[Member, ...] | None = None
    tail: Lead | None = None  # of an object: before its brace

    def member(self, key: str, text: str) -> Member | None:
        """Return a member of an object; raise `JsoncError` if the key occurs twice."""
        found = [member for member in self.members or () if member.key == key]
        if len(found) > 1:
            raise JsoncError(f"the key {json.dumps(key)} occurs twice", text, found[1].start)
        return found[0] if found else None


def parse(text: str) -> Node | None:
    """Return the value of a text, or None if it has only comments. Raises `JsoncError`."""
    reader = _Reader(text)
    reader.skip()
    if reader.at == len(text):
        return None
    root = reader.value(0)
    reader.skip()
    if reader.at != len(text):
        raise reader.error("the end of the file")
    return root


class _Reader:
    """Moves `at` through the text."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self.lead = Lead(0, False)

    def error(self, expected: str) -> JsoncError:
        got = self.text[self.at : self.at + 1]
        shown = json.dumps(got, ensure_ascii=False) if got else "the end of the file"
        return JsoncError(f"expected {expected}, got {shown}", self.text, self.at)

    def skip(self) -> str:
        """Skip spaces and comments; return the next character, or an empty string."""
        text = self.text
        while self.at < len(text):
            if text[self.at] in _SPACES:
                self.at += 1
            elif comment := _LINE_COMMENT.match(text, self.at):
                self._passed(comment.end(), is_line_comment=True)
            elif text.startswith("/*", self.at):
                end = text.find("*/", self.at + 2)
                if end < 0:
                    raise JsoncError("the comment has no end", text, self.at)
                self._passed(end + 2)
            else:
                return text[self.at]
        return ""

    def _passed(self, end: int, *, is_line_comment: bool = False) -> None:
        self.at = end
        self.lead = Lead(end, is_line_comment)

    def value(self, depth: int) -> Node:
        if depth > _MAX_DEPTH:
            raise JsoncError(f"more than {_MAX_DEPTH} levels", self.text, self.at)
        start = self.at
        match self.skip():
            case "{":
                return self._object(depth)
            case "[":
                return self._array(depth)
            case '"':
                value = self._string()
            case _:
                value = self._scalar()
        return Node(start, self.at, value)

    def _scalar(self) -> Json:
        for word, value in _WORDS.items():
            if self.text.startswith(word, self.at):
                self._passed(self.at + len(word))
                return value
        number = _NUMBER.match(self.text, self.at)
        if number is None:
            raise self.error("a value")
        self._passed(number.end())
        return json.loads(number[0])

    def _string(self) -> str:
        found = _STRING.match(self.text, self.at)
        if found is None:
            raise JsoncError("the string has no end, or an invalid escape", self.text, self.at)
        self._passed(found.end())
        return json.loads(found[0])

    def _array(self, depth: int) -> Node:
        start = self.at
        items: list[Json] = []
        self._passed(self.at + 1)
        while self.skip() != "]":
            items.append(self.value(depth + 1).value)
            if self.skip() == ",":
                self._passed(self.at + 1)
            elif self.skip() != "]":
                raise self.error('"," or "]"')
        self._passed(self.at + 1)
        return Node(start, self.at, items)

    def _object(self, depth: int) -> Node:
        start = self.at
        members: list[Member] = []
        self._passed(self.at + 1)
        while (sign := self.skip()) != "}":
            if sign != '"':
                raise self.error('a key in double quotes or "}"')
            lead, at = self.lead, self.at
            key = self._string()
            if self.skip() != ":":
                raise self.error('":"')
            self._passed(self.at + 1)
            self.skip()
            value = self.value(depth + 1)
            comma = None
            if self.skip() == ",":
                comma = self.at
                self._passed(self.at + 1)
            elif self.skip() != "}":
                raise self.error('"," or "}"')
            members.append(Member(key, at, value, comma, lead))
        tail = self.lead
        self._passed(self.at + 1)
        contents = {member.key: member.value.value for member in members}
        return Node(start, self.at, contents, tuple(members), tail)


# Sets and removes one member in a text of JSON with comments; the rest stays as it is.

_LINE_START = re.compile(r"[ \t]*")


def formatted(value: Json, unit: str = "  ", base: str = "", newline: str = "\n") -> str:
    """Return a value as text with one member per line; lists without objects are one line."""
    if not _is_mapping(value) or not value:
        return json.dumps(value, ensure_ascii=False)
    inner = base + unit
    members = f",{newline}".join(
        f"{inner}{json.dumps(key, ensure_ascii=False)}: {formatted(item, unit, inner, newline)}"
        for key, item in value.items()
    )
    return f"{{{newline}{members}{newline}{base}}}"


def value_at(text: str, path: Sequence[str]) -> Json:
    """Return the value of the member at a path, or None. Raises `JsoncError`."""
    found = _find(text, path)
    return None if found is None else found[1].value.value


def with_member(text: str, path: Sequence[str], value: Json) -> str:
    """Return the text with a value at a path; missing objects on the way are added.

    An object is merged into an existing one: members that are not in `value` stay.

    Raises `JsoncError` if the text cannot be read, or something else than an object is on the way.
    """
    node = parse(text)
    if node is None:
        newline = _newline(text)
        gap = newline if text and not text.endswith(("\n", "\r")) else ""
        return f"{text}{gap}{formatted(_nested(path, value), newline=newline)}{newline}"
    for depth, key in enumerate(path):
        if node.members is None:
            place = f" for {json.dumps(path[depth - 1])}" if depth else ""
            raise JsoncError(f"expected an object{place}", text, node.start)
        member = node.member(key, text)
        if member is None:
            return _inserted(text, node, key, _nested(path[depth + 1 :], value))
        node = member.value
    if _is_mapping(value) and node.members is not None:
        for key, item in value.items():
            text = with_member(text, (*path, key), item)
        return text
    if json.dumps(node.value, sort_keys=True) == json.dumps(value, sort_keys=True):
        return text
    base = _line_indent(text, node.start)
    new = formatted(value, _unit(text), base, _newline(text))
    return text[: node.start] + new + text[node.end :]


def without_member(text: str, path: Sequence[str]) -> str:
    """Return the text without the member at a path; the same text if there is none.

    Raises `JsoncError` if the text cannot be read.
    """
    found = _find(text, path)
    if found is None:
        return text
    parent, member = found
    assert parent.members is not None
    start, lead = member.lead.end, member.lead
    end = member.value.end if member.comma is None else member.comma + 1
    if lead.is_line_comment and not text[end:].startswith(("\n", "\r")):
        start = member.start  # what follows must not become a part of the comment
    before = text[:start]
    at = parent.members.index(member)
    if member.comma is None and at > 0:
        comma = parent.members[at - 1].comma
        assert comma is not None
        before = before[:comma] + before[comma + 1 :]
    if len(parent.members) == 1 and not text[parent.start + 1 : start].strip():
        rest = text[end : parent.end - 1]
        if not rest.strip():
            return text[: parent.start] + "{}" + text[parent.end :]
    return before + text[end:]


def _find(text: str, path: Sequence[str]) -> tuple[Node, Member] | None:
    node = parse(text)
    found: tuple[Node, Member] | None = None
    for key in path:
        member = None if node is None else node.member(key, text)
        if node is None or member is None:
            return None
        found, node = (node, member), member.value
    return found


def _inserted(text: str, parent: Node, key: str, value: Json) -> str:
    """Return the text with a new last member."""
    assert parent.members is not None
    assert parent.tail is not None
    newline, unit = _newline(text), _unit(text)
    outer = _line_indent(text, parent.start)
    last = parent.members[-1] if parent.members else None
    is_one_line = not re.search(r"[\r\n]", text[parent.start : parent.end])
    name = json.dumps(key, ensure_ascii=False)
    if last is not None and is_one_line:
        new = f" {name}: {json.dumps(value, ensure_ascii=False)}"
    else:
        indent = _member_indent(text, parent) or outer + unit
        new = f"{newline}{indent}{name}: {formatted(value, unit, indent, newline)}"
    tail = parent.tail.end
    rest = text[tail:]
    if last is None:
        between = text[tail : parent.end - 1]
        if not re.search(r"[\r\n]", between):
            rest = f"{newline}{outer}{text[parent.end - 1 :]}"
        return text[:tail] + new + rest
    if last.comma is not None:
        return f"{text[:tail]}{new},{rest}"
    end = last.value.end
    return f"{text[:end]},{text[end:tail]}{new}{rest}"


def _member_indent(text: str, parent: Node) -> str | None:
    """Return the indentation of the first member that begins a line."""
    for member in parent.members or ():
        start = _line_start(text, member.start)
        if not text[start : member.start].strip():
            return text[start : member.start]
    return None


def _line_start(text: str, at: int) -> int:
    return max(text.rfind("\n", 0, at), text.rfind("\r", 0, at)) + 1


def _line_indent(text: str, at: int) -> str:
    found = _LINE_START.match(text, _line_start(text, at))
    return found[0][: at - _line_start(text, at)] if found else ""


def _unit(text: str) -> str:
    root = parse(text)
    return (None if root is None else _member_indent(text, root)) or "  "


def _newline(text: str) -> str:
    end = text.find("\n")
    return "\r\n" if end > 0 and text[end - 1] == "\r" else "\n"


def _nested(path: Sequence[str], value: Json) -> Json:
    for key in reversed(path):
        value = {key: value}
    return value


def _is_mapping(value: Any) -> TypeGuard[Mapping[str, Any]]:
    return isinstance(value, Mapping)


_BOM = b"\xef\xbb\xbf"


class SettingsFile(Struct, frozen=True):
    """The contents of a file; `data` is None if there is no file."""

    path: Path
    data: bytes | None

    @property
    def text(self) -> str:
        """The text without the byte order mark. Raises `EditorError`."""
        data = (self.data or b"").removeprefix(_BOM)
        try:
            return data.decode("utf-8")
        except UnicodeDecodeError as error:
            before = data[: error.start].decode("utf-8")
            problem = JsoncError("the file is not UTF-8", before, len(before))
            raise EditorError(f"Cannot read {self.path}: {problem}") from None

    def with_text(self, text: str) -> bytes:
        """Return the contents with another text."""
        mark = _BOM if (self.data or b"").startswith(_BOM) else b""
        return mark + text.encode()

    def edited(self, edit: Callable[[str], str]) -> bytes:
        """Return the contents after an edit of the text. Raises `EditorError`."""
        text = self.text
        try:
            new = edit(text)
        except JsoncError as error:
            raise EditorError(f"Cannot read {self.path}: {error}") from None
        return self.with_text(new) if new != text or self.data is None else self.data


def backup_of(path: Path) -> Path:
    """Return where the contents before the last change are."""
    return path.with_name(f"{path.name}.accord-backup")


def original_of(path: Path) -> Path:
    """Return where the contents before the first change are."""
    return path.with_name(f"{path.name}.accord-original")


def read_settings(path: Path) -> SettingsFile:
    """Read a file; it may be missing. Raises `EditorError`."""
    try:
        return SettingsFile(path, path.read_bytes())
    except FileNotFoundError:
        return SettingsFile(path, None)
    except OSError as error:
        raise EditorError(f"Cannot read {path}: {error.strerror or error}") from None


def replace_settings(old: SettingsFile, data: bytes) -> None:
    """Write new contents, with the old ones as backup; a link stays and its target changes.

    Raises `EditorError` if the file cannot be written, or has changed since it was read.
    """
    target = Path(os.path.realpath(old.path))
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        if old.data is not None:
            mode = stat.S_IMODE(target.stat().st_mode)
            _write(backup_of(old.path), old.data, mode)
            _keep_original(old, data, mode)
        else:
            mode = 0o600
        if read_settings(old.path).data != old.data:
            raise EditorError(f"{old.path} has changed in the meantime: run the command again")
        _write(target, data, mode)
    except OSError as error:
        where = error.filename or target
        raise EditorError(f"Cannot write {where}: {error.strerror or error}") from None


def set_back(file: SettingsFile, edit: Callable[[str], str]) -> bytes | None:
    """Return the backup if the edit turns it into what the file contains, else None."""
    backup = read_settings(backup_of(file.path))
    if backup.data is None:
        return None
    try:
        same = backup.edited(edit) == file.data
    except EditorError:
        return None
    return backup.data if same else None


def _keep_original(old: SettingsFile, data: bytes, mode: int) -> None:
    """Keep the contents before the first change, until the file has these again."""
    path = original_of(old.path)
    original = read_settings(path).data
    if original is None:
        _write(path, old.data or b"", mode)
    elif original == data:
        path.unlink()


def _write(path: Path, data: bytes, mode: int) -> None:
    """Write a file so that it has the old or the new contents, never a part."""
    handle, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        Path(name).chmod(mode)
        Path(name).replace(path)
    except BaseException:
        with suppress(OSError):
            Path(name).unlink()
        raise
