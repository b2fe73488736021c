"""Permission rules: patterns of paths, commands, hosts and MCP tools.

`edit = ["src/**"]` — paths: relative to the project or absolute. `*` and `?` stop at slashes,
`**` does not. Compared with the real path, links resolved. A rule that rejects is also compared
with the path as it was given, and ignores case.

`execute = ["git status *", "make"]` — commands: exactly this text or these words; with ` *` at the
end these words and any others, except for options that make the command do something else (see
`command_rules`). A rule that allows covers a command with shell syntax only by its exact text.
A rule that rejects covers a text that contains such a command anywhere.

`fetch = ["docs.python.org", "*.rs"]` — hosts; `*.` matches all subdomains; with a port if it is
not the default.

`mcp = ["github/search_*"]` — server and tool.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, TypeAlias
from urllib.parse import urlsplit

import msgspec
from msgspec import Struct

from accord_coder.permissions.command_line import argv_of, commands_in
from accord_coder.permissions.command_rules import covers_rest, suggest_pattern
from accord_coder.wildcards import MAX_CHARACTERS, check_length, path_pattern, text_pattern

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
