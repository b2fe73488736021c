"""The file that keeps a project's rules, changed so that what a person wrote in it stays."""

from __future__ import annotations

import contextlib
import json
import os
import re
import tomllib
from collections.abc import Generator, Sequence
from pathlib import Path

from accord_coder.locked import locked
from accord_coder.permissions.rules import Rule, rules_from, rules_to

__all__ = (
    "InvalidRules",
    "lock_rules",
    "read_rules",
    "with_rule",
    "without_rule",
    "write_rules_file",
)

_MAX_BYTES = 256 * 1024
_HEAD = (
    "# What Accord's agent may do here, and what it may not. /permissions shows and changes it.\n"
)


class InvalidRules(ValueError):
    """The file of rules cannot be used; says why."""


def read_rules(project: Path) -> tuple[str, list[Rule]]:
    """Return the text and the rules of a project, empty where there is no file.

    Raises `InvalidRules`, for a file that a link leads to, too.
    """
    path = project / ".accord" / "permissions.toml"
    for part in (path.parent, path):
        if part.is_symlink():
            raise InvalidRules(f"{part.name} is a link, which is not followed")
    try:
        with path.open("rb") as file:
            data = file.read(_MAX_BYTES + 1)
    except FileNotFoundError:
        return "", []
    except OSError as exc:
        raise InvalidRules(f"it cannot be read: {exc.strerror}") from exc
    if len(data) > _MAX_BYTES:
        raise InvalidRules(f"it is longer than {_MAX_BYTES} bytes")
    try:
        text = data.decode("utf-8")
        return text, rules_from(tomllib.loads(text))
    except (UnicodeDecodeError, ValueError) as exc:
        raise InvalidRules(str(exc)) from exc


@contextlib.contextmanager
def lock_rules(project: Path) -> Generator[None, None, None]:
    """Let no other process change the file between reading and writing it."""
    with locked(_folder(project)):
        yield


def _folder(project: Path) -> Path:
    folder = project / ".accord"
    with contextlib.suppress(FileExistsError):
        folder.mkdir()
    if folder.is_symlink():
        raise OSError(f"{folder.name} is a link, not a directory, and not followed")
    if not folder.is_dir():
        raise OSError(f"{folder} is not a directory")
    return folder


def write_rules_file(project: Path, text: str) -> None:
    """Replace the file as a whole; raise OSError rather than follow a link."""
    folder = _folder(project)
    new = f"permissions.toml.{os.getpid()}.new"
    if os.open not in os.supports_dir_fd or os.rename not in os.supports_dir_fd:
        (folder / new).write_text(text, "utf-8")
        (folder / new).replace(folder / "permissions.toml")
        return
    here = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
        with contextlib.suppress(FileNotFoundError):
            os.unlink(new, dir_fd=here)
        with os.fdopen(os.open(new, flags, 0o644, dir_fd=here), "w", encoding="utf-8") as file:
            file.write(text)
        os.rename(new, "permissions.toml", src_dir_fd=here, dst_dir_fd=here)
    finally:
        os.close(here)


def with_rule(text: str, rules: Sequence[Rule], rule: Rule) -> str:
    """Return the text with one rule more."""
    if rule in rules:
        return text
    return _checked(_added(text, rule), text, [*rules, rule])


def without_rule(text: str, rules: Sequence[Rule], rule: Rule) -> str:
    """Return the text with one rule less."""
    return _checked(_removed(text, rule), text, [other for other in rules if other != rule])


def _checked(changed: str | None, text: str, rules: Sequence[Rule]) -> str:
    """Return the changed text if it says what it should, else one written anew."""
    if changed is not None:
        with contextlib.suppress(ValueError):
            if set(rules_from(tomllib.loads(changed))) == set(rules):
                return changed
    return _written(text, rules)


def _written(text: str, rules: Sequence[Rule]) -> str:
    """Return the rules as text, under the comment that the old text began with."""
    head = re.match(r"(?:[ \t]*#[^\n]*\n|[ \t]*\n)*", text)
    parts = [(head[0].rstrip("\n") + "\n") if head is not None and head[0].strip() else _HEAD]
    for effect, kinds in rules_to(rules).items():
        parts.append(f"\n[{effect}]\n")
        for kind, patterns in kinds.items():
            lines = "".join(f"  {_quoted(pattern)},\n" for pattern in dict.fromkeys(patterns))
            parts.append(f"{kind} = [\n{lines}]\n")
    return "".join(parts)


def _quoted(text: str) -> str:
    # JSON's strings are TOML's, but for DEL.
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def _added(text: str, rule: Rule) -> str | None:
    table = _table(text, rule.effect)
    if table is None:
        start = text if not text or text.endswith("\n") else f"{text}\n"
        start = start or _HEAD
        return f"{start}\n[{rule.effect}]\n{rule.kind} = [\n  {_quoted(rule.pattern)},\n]\n"
    begin, end = table
    array = _array(text, rule.kind, begin, end)
    if array is None:
        line = f"{rule.kind} = [\n  {_quoted(rule.pattern)},\n]\n"
        return f"{text[:begin]}{line}{text[begin:]}"
    opened, items, shut = array
    if "\n" not in text[opened:shut]:
        comma = ", " if items and not text[items[-1][1] : shut].strip().startswith(",") else ""
        comma = comma or (" " if items else "")
        return f"{text[:shut].rstrip()}{comma}{_quoted(rule.pattern)}{text[shut:]}"
    before = text[:shut]
    if items and "," not in re.sub(r"#[^\n]*", "", text[items[-1][1] : shut]):
        before = f"{text[: items[-1][1]]},{text[items[-1][1] : shut]}"
    before = before.rstrip(" \t")
    newline = "" if before.endswith("\n") else "\n"
    return f"{before}{newline}  {_quoted(rule.pattern)},\n{text[shut:]}"


def _removed(text: str, rule: Rule) -> str | None:
    table = _table(text, rule.effect)
    array = None if table is None else _array(text, rule.kind, *table)
    if array is None:
        return None
    for begin, end, value in array[1]:
        if value == rule.pattern:
            comma = re.match(r"[ \t]*,", text[end:])
            end += comma.end() if comma is not None else 0
            line_begin = text.rfind("\n", 0, begin) + 1
            line_end = text.find("\n", end)
            if line_end >= 0 and not (text[line_begin:begin] + text[end:line_end]).strip():
                begin, end = line_begin, line_end + 1
            return text[:begin] + text[end:]
    return None


def _table(text: str, name: str) -> tuple[int, int] | None:
    """Return where what is in a table begins and ends."""
    head = re.search(rf"^[ \t]*\[{name}\][ \t]*(?:#[^\n]*)?(?:\n|\Z)", text, re.M)
    if head is None:
        return None
    following = re.compile(r"^[ \t]*\[\w+\]", re.M).search(text, head.end())
    return head.end(), len(text) if following is None else following.start()


def _array(
    text: str, key: str, begin: int, end: int
) -> tuple[int, list[tuple[int, int, str]], int] | None:
    """Return where an array opens, its items with their places, and where it shuts."""
    head = re.compile(rf"^[ \t]*{key}[ \t]*=[ \t]*\[", re.M).search(text, begin, end)
    if head is None:
        return None
    items: list[tuple[int, int, str]] = []
    at = head.end()
    piece = re.compile(r"""[\s,]+|\#[^\n]*|"(?:[^"\\\n]|\\.)*"|'[^'\n]*'""")
    while at < end and text[at] != "]":
        found = piece.match(text, at, end)
        if found is None:
            return None
        if found[0][0] in "\"'":
            items.append((at, found.end(), tomllib.loads(f"x = {found[0]}")["x"]))
        at = found.end()
    return (head.end(), items, at) if at < end else None
