"""Permission rules: patterns of paths, commands, hosts and MCP tools.

`edit = ["src/**"]` — paths: relative to the project or absolute. `*` and `?` stop at slashes,
`**` does not. Compared with the real path, links resolved. A rule that rejects is also compared
with the path as it was given, and ignores case.

`execute = ["git status *", "make"]` — commands: exactly this text or these words; with ` *` at the
end these words and any others, except for options that make the command do something else (see
`command_words`). A rule that allows covers a command with shell syntax only by its exact text.
A rule that rejects covers a text that contains such a command anywhere.

`fetch = ["docs.python.org", "*.rs"]` — hosts; `*.` matches all subdomains; with a port if it is
not the default.

`mcp = ["github/search_*"]` — server and tool.
"""

from __future__ import annotations

import contextlib
import hashlib
import logging
import os
import re
import threading
import tomllib
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, cast
from urllib.parse import urlsplit

import msgspec
from msgspec import Struct

from accord_coder.permissions.command_words import (
    argv_of,
    commands_in,
    covers_rest,
    suggest_pattern,
)
from accord_coder.settings import lock_directory, private_dir
from accord_coder.wildcards import MAX_CHARACTERS, check_length, path_pattern, text_pattern

if TYPE_CHECKING:
    from tomlkit import TOMLDocument

Effect: TypeAlias = Literal["allow", "reject"]
EFFECTS: tuple[Effect, ...] = ("allow", "reject")
KINDS = ("read", "edit", "delete", "execute", "fetch", "mcp")
_PATHS = frozenset({"read", "edit", "delete"})
_DEFAULT_PORTS = {"http": 80, "https": 443}


class Rule(Struct, frozen=True):
    """One pattern, and whether matches are allowed or rejected."""

    effect: Effect
    kind: str
    pattern: str

    def __str__(self) -> str:
        return f"{self.effect} {self.kind} {self.pattern}"

    def covers(self, kind: str, subject: str, *, project: str) -> bool:
        """Return whether the rule covers a subject; a path must be absolute."""
        if kind != self.kind:
            return False
        if kind in _PATHS:
            return self._covers_path(subject, project)
        if kind == "execute":
            return self._covers_command(subject)
        if kind == "fetch":
            return self._covers_host(subject)
        return text_pattern(self.pattern, ignore_case=self.effect == "reject").matches(subject)

    def _covers_path(self, path: str, project: str) -> bool:
        pattern = self.pattern.replace("\\", "/") if os.sep == "\\" else self.pattern
        path = path.replace(os.sep, "/")
        if not (pattern.startswith("/") or pattern[1:3] == ":/"):
            below = os.path.relpath(path, project).replace(os.sep, "/")
            if below.startswith("../"):
                return False
            path = below
        return path_pattern(pattern, ignore_case=self.effect == "reject").matches(path)

    def _covers_command(self, command: str) -> bool:
        if command.strip() == self.pattern.strip():
            return True
        start, space, star = self.pattern.rpartition(" ")
        goes_on = self.pattern == "*" or (bool(space) and star == "*")
        wanted = argv_of(start if goes_on else self.pattern) or ()
        if not wanted and self.pattern != "*":
            return False  # shell text matches only exactly
        if self.effect == "allow":
            words = argv_of(command)
            if words is None or not _begins(words, wanted, goes_on=goes_on):
                return False
            return not goes_on or covers_rest(wanted, words)
        return self.pattern == "*" or any(
            _begins((words[0].rpartition("/")[2], *words[1:]), wanted, goes_on=goes_on)
            or _begins((words[0].lower(), *words[1:]), wanted, goes_on=goes_on)
            or _begins(words, wanted, goes_on=goes_on)
            for words in (*commands_in(command), *filter(None, [argv_of(command)]))
        )

    def _covers_host(self, url: str) -> bool:
        host = host_of(url)
        if host is None:
            return self.effect == "reject" and self.pattern == "*"
        pattern = self.pattern.lower()
        if pattern.startswith("*."):
            return host.endswith(pattern[1:])
        return pattern in ("*", host)


def host_of(url: str) -> str | None:
    """Return the host of a URL, with its port if it is not the default; None if unclear."""
    if re.search(r"[\s\\@\x00-\x1f]", url):
        return None
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        return None
    usual = _DEFAULT_PORTS.get(parts.scheme.lower())
    if usual is None or not parts.hostname:
        return None
    host = parts.hostname.lower().rstrip(".")
    return host if port in (None, usual) else f"{host}:{port}"


def suggest_rule(effect: Effect, kind: str, subject: str, *, project: str) -> Rule | None:
    """Return the rule that "always" adds; None if there is no suitable one."""
    rule = _suggest(effect, kind, subject, project)
    return None if rule is None or len(rule.pattern) > MAX_CHARACTERS else rule


def _suggest(effect: Effect, kind: str, subject: str, project: str) -> Rule | None:
    if kind in _PATHS:
        below = os.path.relpath(subject, project)
        inside = not below.startswith("..") and not os.path.isabs(below)  # noqa: PTH117  # a text
        path = (below if inside else subject).replace(os.sep, "/")
        return Rule(effect, kind, re.sub(r"([*?\[])", r"[\1]", path))
    if kind == "execute":
        # A command that ends in a star would become a pattern for more commands.
        words = subject.split()
        return None if words[-1:] == ["*"] else Rule(effect, kind, suggest_pattern(subject))
    if kind == "fetch":
        host = host_of(subject)
        return None if host is None else Rule(effect, kind, host)
    if kind == "mcp":
        return Rule(effect, kind, re.sub(r"([*?\[])", r"[\1]", subject))
    return None


def rules_from(document: Mapping[str, Any]) -> list[Rule]:
    """Return the rules of a TOML document; raise ValueError if it is not valid."""
    try:
        tables = msgspec.convert(document, dict[Effect, dict[str, list[str]]])
    except msgspec.ValidationError as exc:
        raise ValueError(f"expected lists of patterns in [allow] and [reject]: {exc}") from exc
    for effect, kinds in tables.items():
        if unknown := sorted(set(kinds) - set(KINDS)):
            raise ValueError(
                f"unknown kind {effect}.{unknown[0]}: expected one of {', '.join(KINDS)}"
            )
        for kind, patterns in kinds.items():
            if kind != "execute":
                for pattern in patterns:
                    check_length(pattern)
    return [
        Rule(effect, kind, pattern)
        for effect, kinds in tables.items()
        for kind, patterns in kinds.items()
        for pattern in patterns
    ]


def rules_to(rules: Iterable[Rule]) -> dict[str, dict[str, list[str]]]:
    """Return the TOML document with these rules."""
    document: dict[str, dict[str, list[str]]] = {}
    for rule in rules:
        document.setdefault(rule.effect, {}).setdefault(rule.kind, []).append(rule.pattern)
    return document


def _begins(words: Sequence[str], wanted: Sequence[str], *, goes_on: bool) -> bool:
    if goes_on:
        return tuple(words[: len(wanted)]) == tuple(wanted)
    return tuple(words) == tuple(wanted)


# The file with the rules of a project. A change keeps the comments and the layout of the user.

_MAX_BYTES = 256 * 1024


class InvalidRules(ValueError):
    """The file with the rules cannot be used; the text is the reason."""


def read_rules(project: Path) -> tuple[str, list[Rule]]:
    """Return the text and the rules of a project, empty if there is no file.

    Raises `InvalidRules`, also for a file or a directory that is a link.
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
    import tomlkit  # slow to import

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
    import tomlkit  # slow to import

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


# The rules of a project that apply to this user. A project of others can contain a file with rules.
# Its rules that reject always apply. Its rules that allow apply only if this user accepted them: by
# "always", by `/permissions allow`, or by `/permissions trust`. Accepted rules are stored one by
# one in the user's data directory, so that others cannot allow anything by changing the file.

log = logging.getLogger("accord_coder")


class EffectiveRules(Struct, frozen=True, kw_only=True):
    """The rules that apply, the allowing ones that are not trusted, and the error of the file."""

    rules: tuple[Rule, ...] = ()
    untrusted: tuple[Rule, ...] = ()
    error: str | None = None


class TrustStore:
    """The rules that this user accepted, by project; in a directory or, without one, in memory."""

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder
        self._memory: dict[str, set[Rule]] = {}
        self._lock = threading.Lock()

    def rules_of(self, project: str) -> set[Rule]:
        """Return the rules that the user accepted for a project."""
        with self._lock:
            return self._rules_of(project)

    def change(self, project: str, *, add: Iterable[Rule] = (), drop: Iterable[Rule] = ()) -> None:
        """Add or remove accepted rules. If they cannot be stored, they stay in memory."""
        with self._lock:
            added, dropped = set(add), set(drop)
            if self._folder is not None:
                try:
                    with lock_directory(private_dir(self._folder)):
                        rules = (self._rules_of(project) | added) - dropped
                        self._store(self._folder / self._name(project), project, rules)
                except OSError as exc:
                    log.warning("! rules cannot be stored: %s", exc)
                else:
                    self._memory.pop(project, None)
                    return
            self._memory[project] = (self._rules_of(project) | added) - dropped

    @staticmethod
    def _store(path: Path, project: str, rules: set[Rule]) -> None:
        new = path.with_suffix(f".{os.getpid()}.new")
        ordered = sorted(rules, key=str)
        new.unlink(missing_ok=True)
        with os.fdopen(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            file.write(msgspec.json.encode({"project": project, "rules": ordered}))
        new.replace(path)

    def _rules_of(self, project: str) -> set[Rule]:
        found = set(self._memory.get(project, ()))
        if self._folder is not None:
            with contextlib.suppress(OSError, msgspec.DecodeError):
                data = (self._folder / self._name(project)).read_bytes()
                found |= set(msgspec.json.decode(data, type=_TrustedRules).rules)
        return found

    def _name(self, project: str) -> str:
        return f"{hashlib.sha256(os.fsencode(project)).hexdigest()[:32]}.json"


class _TrustedRules(Struct):
    project: str
    rules: list[Rule]


class ProjectRules:
    """Reads and changes the rules of one project. The methods block."""

    def __init__(self, project: str, trust: TrustStore) -> None:
        self.project = os.path.realpath(project)
        self._trust = trust
        self._unwritten: list[Rule] = []  # they could not be written to the file

    def read(self) -> EffectiveRules:
        """Return the current rules."""
        try:
            _, rules = read_rules(Path(self.project))
        except InvalidRules as exc:
            return EffectiveRules(rules=tuple(self._unwritten), error=str(exc))
        trusted = self._trust.rules_of(self.project)
        holds = [rule for rule in rules if rule.effect == "reject" or rule in trusted]
        return EffectiveRules(
            rules=(*holds, *self._unwritten),
            untrusted=tuple(rule for rule in rules if rule not in holds),
        )

    def add(self, rule: Rule) -> str | None:
        """Add a rule of the user. If it cannot be stored, return the reason; it stays in memory."""
        try:
            with lock_rules(Path(self.project)):
                text, rules = read_rules(Path(self.project))
                new = with_rule(text, rules, rule)
                write_rules_file(Path(self.project), new)
        except (InvalidRules, OSError) as exc:
            self._unwritten.append(rule)
            return str(exc)
        if rule.effect == "allow":
            self._trust.change(self.project, add=[rule])
        return None

    def remove(self, rule: Rule) -> None:
        """Remove a rule; raise `InvalidRules` or OSError if the file cannot be changed."""
        if rule in self._unwritten:
            self._unwritten.remove(rule)
            return
        with lock_rules(Path(self.project)):
            text, rules = read_rules(Path(self.project))
            new = without_rule(text, rules, rule)
            write_rules_file(Path(self.project), new)
        self._trust.change(self.project, drop=[rule])

    def trust_all(self) -> int:
        """Accept all allowing rules of the file; return their number."""
        untrusted = self.read().untrusted
        self._trust.change(self.project, add=untrusted)
        return len(untrusted)
