"""Changes the file with the rules of a project, and keeps the comments and layout of the user."""

from __future__ import annotations

import contextlib
import os
import tomllib
from collections.abc import Callable, Generator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from accord_coder.directory_lock import lock_directory
from accord_coder.permissions.rules import Rule, rules_from, rules_to

if TYPE_CHECKING:
    from tomlkit import TOMLDocument

_HEAD = (
    "# What Accord's agent is allowed to do in this project. Change it here or with /permissions.\n"
)


@contextlib.contextmanager
def lock_rules(project: Path) -> Generator[None, None, None]:
    """Keep other processes from changing the file between reading and writing it."""
    with lock_directory(_folder(project)):
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
    """Replace the file as a whole; raise OSError instead of following a link."""
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
    """Return the text with one more rule."""
    if rule in rules:
        return text
    import tomlkit

    def add(document: TOMLDocument) -> None:
        kinds = document.setdefault(rule.effect, {})
        if rule.kind not in kinds:
            kinds[rule.kind] = tomlkit.array().multiline(multiline=True)
        kinds[rule.kind].append(rule.pattern)

    return _edited(text, add, [*rules, rule])


def without_rule(text: str, rules: Sequence[Rule], rule: Rule) -> str:
    """Return the text with one rule less."""

    def remove(document: TOMLDocument) -> None:
        patterns = cast("Any", document)[rule.effect][rule.kind]
        while rule.pattern in patterns:
            patterns.remove(rule.pattern)

    return _edited(text, remove, [other for other in rules if other != rule])


def _edited(text: str, edit: Callable[[TOMLDocument], None], rules: Sequence[Rule]) -> str:
    """Return the edited text. If it does not have exactly these rules, write a new text."""
    import tomlkit

    try:
        document = tomlkit.parse(text or _HEAD + "\n")
        edit(document)
        edited = tomlkit.dumps(document)
        if set(rules_from(tomllib.loads(edited))) == set(rules):
            return edited
    except (ValueError, LookupError, TypeError, AttributeError):
        pass
    new = tomlkit.parse(_head_of(text))
    for effect, kinds in rules_to(rules).items():
        new[effect] = {kind: list(dict.fromkeys(patterns)) for kind, patterns in kinds.items()}
    return tomlkit.dumps(new)


def _head_of(text: str) -> str:
    """Return the comment at the beginning of a text."""
    lines: list[str] = []
    for line in text.splitlines():
        if line.strip() and not line.lstrip().startswith("#"):
            break
        lines.append(line)
    head = "\n".join(lines).rstrip()
    return f"{head}\n\n" if head else f"{_HEAD}\n"
