"""A file of limits: what may be used, and what may be touched.

`read_limits` reads the file, `Limits` holds it, and `Rules` decides by it what a tool call may
touch; `Rules.decide` is a permission policy. The file, all of which is optional:

    unmetered = ["gptme"]           # agents that may run although they do not report their tokens

    [turn]                          # also [session] and [day]
    cost = "2 USD"
    tokens = "200k"
    time = "10m"
    tool_calls = 100
    changed_files = 20

    [deny]                          # rejected, and the end of a turn that did it without asking
    paths = [".git/*", "*.env", "~/.ssh/*"]
    commands = ["git push*", "sudo *"]
    hosts = ["*"]
    rules = ["delete"]              # as `accord.client.permissions.deny`

    [allow]                         # allowed without asking, unless it is denied
    hosts = ["pypi.org", "*.python.org"]
    rules = ["read", "search", "execute:pytest*"]

The rules rely on what the agent says about its calls. They are not a sandbox.
"""

from __future__ import annotations

import fnmatch
import json
import os
import re
import shlex
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from msgspec import Struct

from accord.client.budget import PERIODS, Budget, parse_limit
from accord.client.events import PermissionRequest, ToolCall
from accord.client.permissions import allow, command_of, deny
from accord.text import lenient_json
from accord.text.excerpt import excerpt, nearest
from accord.types.tool_calls import Diff

if TYPE_CHECKING:
    from accord.client.events import Decision

__all__ = ("Allow", "Deny", "Limits", "LimitsFileError", "Rules", "read_limits")

# The file.


class LimitsFileError(ValueError):
    """A file of limits that cannot be used, and the place in it."""


class Deny(Struct, frozen=True):
    """What may not be touched: patterns of paths, commands and hosts, and other rules."""

    paths: tuple[str, ...] = ()
    commands: tuple[str, ...] = ()
    hosts: tuple[str, ...] = ()
    rules: tuple[str, ...] = ()


class Allow(Struct, frozen=True):
    """What is allowed without asking: hosts that `Deny` does not mean, and rules."""

    hosts: tuple[str, ...] = ()
    rules: tuple[str, ...] = ()


class Limits(Struct, frozen=True, kw_only=True):
    """The limits of a file: budgets, and what may be touched."""

    budgets: tuple[Budget, ...] = ()
    deny: Deny = Deny()
    allow: Allow = Allow()
    unmetered: tuple[str, ...] = ()


def read_limits(path: Path) -> Limits:
    """Read a file of limits; raise `LimitsFileError`, which names the place and what is expected.

    The docstring of this module has an example.
    """
    try:
        table = tomllib.loads(path.read_text("utf-8"))
    except OSError as error:
        raise LimitsFileError(f"{path}: {error.strerror or error}") from None
    except ValueError as error:
        raise LimitsFileError(f"{path}: {error}") from None
    try:
        return _limits(table)
    except ValueError as error:
        raise LimitsFileError(f"{path}: {error}") from None


def _limits(table: Mapping[str, Any]) -> Limits:
    _known("", table, (*PERIODS, "deny", "allow", "unmetered"))
    budgets: list[Budget] = []
    for period in PERIODS:
        if (limits := _table(period, table)) is None:
            continue
        fields: dict[str, Any] = {}
        for name, value in limits.items():
            try:
                found = parse_limit(name, value)
            except ValueError as error:
                raise ValueError(f"[{period}] {error}") from None
            if not fields.keys().isdisjoint(found):
                raise ValueError(f"[{period}] expected {next(iter(found))} once")
            fields |= found
        if not fields:
            raise ValueError(f"[{period}] expected a limit, such as cost = 2")
        budgets.append(Budget(**fields, per=period))
    lists = {
        name: {key: _texts(f"[{name}] {key}", value) for key, value in rules.items()}
        for name, keys in (("deny", Deny.__struct_fields__), ("allow", Allow.__struct_fields__))
        if (rules := _table(name, table)) is not None and _known(f"[{name}] ", rules, keys)
    }
    refused, allowed = Deny(**lists.get("deny", {})), Allow(**lists.get("allow", {}))
    deny(*refused.rules)
    allow(*allowed.rules)
    unmetered = _texts("unmetered", table.get("unmetered", []))
    return Limits(budgets=tuple(budgets), deny=refused, allow=allowed, unmetered=unmetered)


def _known(where: str, table: Mapping[str, Any], keys: Iterable[str]) -> bool:
    for key in table:
        if key not in (known := tuple(keys)):
            near = nearest(key, known)
            meant = "" if near is None else f"; did you mean {near}?"
            raise ValueError(f"{where}unknown {key}: expected {', '.join(known)}{meant}")
    return True


def _table(name: str, table: Mapping[str, Any]) -> Mapping[str, Any] | None:
    value = table.get(name)
    if value is not None and not isinstance(value, dict):
        raise ValueError(f"{name}: expected a table, [{name}], got {excerpt(repr(value), 40)}")
    return cast("Mapping[str, Any] | None", value)


def _texts(where: str, value: object) -> tuple[str, ...]:
    items = cast("list[object]", value) if isinstance(value, list) else None
    if items is None or not all(isinstance(item, str) for item in items):
        got = excerpt(repr(cast("object", value)), 40)
        raise ValueError(f'{where}: expected a list of texts, such as ["a", "b"], got {got}')
    return tuple(cast("list[str]", items))


# What may be touched.

_SEPARATORS = re.compile(r"&&|\|\||[;|&\n()`]|\$\(")
_HOST = re.compile(r"\b[a-z][a-z0-9+.-]*://(?:[^\s/@\"'<>]*@)?(\[[^\]\s]+\]|[^\s/:\"'<>?#]+)", re.I)
_SSH_HOST = re.compile(r"(?:^|[\s\"'])[\w.-]+@([\w.-]+\.[\w-]+)(?::|[\s\"']|$)")


class Rules:
    """Decides by the lists of a file; `refusal` says what is denied."""

    def __init__(self, limits: Limits) -> None:
        self._deny = limits.deny
        self._allow = limits.allow
        self._denies = deny(*limits.deny.rules)
        self._allows = allow(*limits.allow.rules)

    def __bool__(self) -> bool:
        return self._deny != Deny() or bool(self._allow.rules)

    @property
    def have_kinds(self) -> bool:
        """Whether calls are denied that touch no path, command or host, by their kind or title."""
        return bool(self._deny.rules)

    def decide(self, request: PermissionRequest) -> Decision | None:
        """Return a decision without the user, or None."""
        if self.refusal_of(request) is not None:
            return "reject"
        return cast("Decision | None", self._allows(request))

    def refusal_of(self, request: PermissionRequest) -> str | None:
        """Return what of a request is denied, None if nothing is."""
        if self._denies(request) is not None:
            return "by a rule"
        line = command_of(request)
        call = request.tool_call
        texts = [] if call is None else list(_strings(call.raw_input))
        paths = [] if call is None else list(_paths_of(call))
        return self.refusal(request.cwd, paths=paths, line=line, texts=texts)

    def refusal(
        self,
        cwd: str,
        *,
        paths: Iterable[str] = (),
        line: str | None = None,
        texts: Iterable[str] = (),
    ) -> str | None:
        """Return which path, command or host is denied, None if none is."""
        words = [] if line is None else _words(line)
        for path in (*paths, *words):
            if any(_path_matches(path, pattern, cwd) for pattern in self._deny.paths):
                return f"the path {excerpt(path, 100)}"
        for command in () if line is None else _commands(line):
            if any(fnmatch.fnmatchcase(command, pattern) for pattern in self._deny.commands):
                return f"the command {excerpt(command, 100)}"
        if self._deny.hosts:
            for text in (*texts, *(() if line is None else (line,))):
                for host in _hosts(text):
                    if _host_matches(host, self._deny.hosts) and not _host_matches(
                        host, self._allow.hosts
                    ):
                        return f"the host {excerpt(host, 100)}"
        return None


def _paths_of(call: ToolCall) -> Iterator[str]:
    for place in call.locations:
        yield place.path
    for part in call.content:
        if isinstance(part, Diff):
            yield part.path
            yield from part.others


def _strings(value: Any) -> Iterator[str]:
    """Yield all strings of a JSON value."""
    if isinstance(value, str):
        yield value
    elif lenient_json.is_object(value) or lenient_json.is_array(value):
        with suppress(TypeError, ValueError):
            yield json.dumps(value, default=str)


def _path_matches(path: str, pattern: str, cwd: str) -> bool:
    """Return whether a pattern means a path, or the file that it leads to.

    A pattern without a slash means a name in any folder; others start in the working directory.
    """
    whole = os.path.normpath(os.path.join(cwd, os.path.expanduser(path)))  # noqa: PTH111, PTH118
    places = {whole, os.path.realpath(whole)}
    if "/" not in pattern:
        return any(
            fnmatch.fnmatchcase(name, pattern) for place in places for name in Path(place).parts
        )
    wanted = os.path.normpath(os.path.join(cwd, os.path.expanduser(pattern)))  # noqa: PTH111, PTH118
    return any(
        fnmatch.fnmatchcase(text, form)
        for place in places
        for text, form in ((place, wanted), (f"{place}/", wanted), (place, f"{wanted}/*"))
    )


def _words(line: str) -> list[str]:
    """Return the words of a command line, without quotes and redirections."""
    try:
        lexer = shlex.shlex(line, posix=True, punctuation_chars="();<>|&")
        lexer.whitespace_split = True
        lexer.commenters = ""  # `shlex` finds comments inside of words, too
        words = list(lexer)
    except ValueError:  # a quote that is not closed
        words = line.split()
    return [part for word in words for part in (word, word.partition("=")[2]) if part]


def _commands(line: str) -> Iterator[str]:
    yield line.strip()
    parts: list[str] = _SEPARATORS.split(line)
    for part in parts:
        if command := part.strip():
            yield command


def _hosts(text: str) -> Iterator[str]:
    for found in _HOST.finditer(text):
        yield found[1].lower()
    for found in _SSH_HOST.finditer(text):
        yield found[1].lower()


def _host_matches(host: str, patterns: Iterable[str]) -> bool:
    return any(fnmatch.fnmatchcase(host, pattern.lower()) for pattern in patterns)
