"""Permissions that the user wants to be remembered, by agent, tool and path."""

from __future__ import annotations

import glob
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Literal

import msgspec
from filelock import FileLock, Timeout
from msgspec import Struct
from platformdirs import user_state_path

from accord.client.events import PermissionRequest
from accord.client.permissions import allows, command_of, denies
from accord.text.excerpt import visible
from accord.types.tool_calls import Diff
from accord_chat.model.state_files import put_aside, replace_file, why_unreadable

LOCK_S = 5.0
# A rule for all calls of these kinds changes nothing outside of the agent.
_HARMLESS_KINDS = ("think", "switch_mode")


class RememberedRule(Struct, frozen=True):
    """A decision for an agent; the rule is one of `--allow` and `--deny`."""

    agent: str
    rule: str
    decision: Literal["allow", "reject"] = "allow"

    @property
    def summary(self) -> str:
        """The rule for the user."""
        kind, _, pattern = self.rule.partition(":")
        return visible(f"{kind} {_unescaped(pattern)}".strip())


class PermissionMemory:
    """The rules in a file for this user only; several programs share it."""

    def __init__(self, state: Path | None = None) -> None:
        folder = state or user_state_path("accord", appauthor=False) / "chat"
        self.path = folder / "permissions.json"
        self.problem: str | None = None  # why the rules could not be read the last time
        self._lock = FileLock(folder / "permissions.lock", mode=0o600)

    def rules(self) -> list[RememberedRule]:
        """Return all rules, the latest last; none if the file cannot be read."""
        self.problem = None
        try:
            return msgspec.json.decode(self.path.read_bytes(), type=list[RememberedRule])
        except FileNotFoundError:
            return []
        except (OSError, msgspec.MsgspecError, UnicodeDecodeError) as error:
            self.problem = f"{self.path} cannot be read: {why_unreadable(error)}"
            return []

    def decide(self, agent: str, request: PermissionRequest) -> RememberedRule | None:
        """Return the rule that decides a request of an agent: a rejection before an approval."""
        mine = [rule for rule in self.rules() if rule.agent == agent]
        for rule in mine:
            if rule.decision == "reject" and denies(rule.rule, request):
                return rule
        for rule in mine:
            if rule.decision == "allow" and allows(rule.rule, request):
                return rule
        return None

    def remember(self, rule: RememberedRule) -> Path | None:
        """Add a rule. Rules that cannot be read are put aside; return where they are.

        Raises `OSError` if it cannot be stored.
        """
        return self._change(lambda rules: [*(one for one in rules if one != rule), rule])

    def forget(self, rule: RememberedRule) -> None:
        """Remove a rule. Raises `OSError` if that cannot be stored."""
        self._change(lambda rules: [one for one in rules if one != rule])

    def _change(
        self, change: Callable[[list[RememberedRule]], list[RememberedRule]]
    ) -> Path | None:
        self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        try:
            with self._lock.acquire(timeout=LOCK_S):
                rules = self.rules()
                aside = None if self.problem is None else put_aside(self.path)
                replace_file(self.path, msgspec.json.encode(change(rules)))
                return aside
        except Timeout:
            raise TimeoutError(f"{self.path} is locked by another program") from None


def suggested_rules(agent: str, request: PermissionRequest) -> Iterator[RememberedRule]:
    """Yield the rules that would allow a request from now on, the narrowest first."""
    for rule in _rules(request):
        if allows(rule, request):
            yield RememberedRule(agent, rule)


def _rules(request: PermissionRequest) -> Iterator[str]:
    call, command = request.tool_call, command_of(request)
    kind = "execute" if call is None else str(call.kind)
    if command is not None:
        yield f"execute:{glob.escape(command)}"
        return
    if call is None:
        return
    paths = {place.path for place in call.locations}
    for part in call.content:
        if isinstance(part, Diff):
            paths |= {part.path, *part.others}
    absolute = {os.path.normpath(os.path.join(request.cwd, path)) for path in paths}  # noqa: PTH118
    if len(absolute) == 1:
        yield f"{kind}:{glob.escape(next(iter(absolute)))}"
    if absolute:
        yield f"{kind}:{glob.escape(os.path.normpath(request.cwd))}/*"
    elif kind in _HARMLESS_KINDS:
        yield kind


def _unescaped(pattern: str) -> str:
    """Return a pattern without the brackets that `glob.escape` writes."""
    for special in "*?[":
        pattern = pattern.replace(f"[{special}]", special)
    return pattern
