"""Permission policies: functions that decide, or leave the decision to the next one.

A policy takes a `PermissionRequest` and returns a decision, or None to pass; it may be a
coroutine function. What no policy decides is rejected. An option is never chosen by its place in
the list, always by its kind, and what was decided is never exceeded.
"""

from __future__ import annotations

import asyncio
import fnmatch
import os
import shlex
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from typing import Any, TypeAlias, cast

from accord.client.events import Decision, PermissionRequest, ToolCall
from accord.text import lenient_json
from accord.types.content import Other
from accord.types.permission import PermissionOption
from accord.types.tool_calls import Diff

__all__ = (
    "AsyncPolicy",
    "Policy",
    "allow",
    "ask_one_at_a_time",
    "chain",
    "choose",
    "command_of",
    "deny",
    "is_distinct",
    "policies_of",
    "remember",
)

AsyncPolicy: TypeAlias = Callable[[PermissionRequest], Awaitable[Decision | None]]
Policy: TypeAlias = Callable[[PermissionRequest], Decision | None | Awaitable[Decision | None]]

# By decision, the kinds that do it, best first. An agent may remember what has `always` in its
# kind, so a decision for once never becomes one for always.
_KINDS: dict[str, tuple[str, ...]] = {
    "allow": ("allow_once",),
    "allow_always": ("allow_always", "allow_once"),
    "reject": ("reject_once",),
    "reject_always": ("reject_always", "reject_once"),
    "cancel": (),
}
# What joins commands, sends output somewhere, or puts other text in: no pattern vouches for it.
_SHELL = frozenset(";|&$`<>\n\r(){}")


def choose(options: Iterable[PermissionOption], decision: Decision) -> PermissionOption | None:
    """Return the option that does what was decided; None stands for the outcome `cancelled`.

    Where no option allows once, the request is rejected; where none rejects once, it is cancelled.
    """
    offered = list(options)
    if isinstance(decision, PermissionOption):
        return decision if decision in offered and is_distinct(decision, offered) else None
    kinds_of: dict[str, set[str]] = {}
    for option in offered:
        kinds_of.setdefault(option.id, set()).add(option.kind)
    # An id of several kinds does not say which of them was meant.
    offered = [option for option in offered if len(kinds_of[option.id]) == 1]
    kinds = _KINDS[decision]
    if decision.startswith("allow"):
        kinds += _KINDS["reject"]
    for kind in kinds:
        for option in offered:
            if option.kind == kind:
                return option
    return None


def is_distinct(option: PermissionOption, offered: Iterable[PermissionOption]) -> bool:
    """Return whether the id of an option stands for no other one; the answer is only the id."""
    return all(other.id != option.id or other == option for other in offered)


def chain(*policies: Policy) -> AsyncPolicy:
    """Return a policy that asks these in order until one decides."""

    async def decide(request: PermissionRequest) -> Decision | None:
        for policy in policies:
            decided: Any = policy(request)
            if hasattr(decided, "__await__"):
                decided = await decided
            if decided is not None:
                _require_decision(policy, decided)
                return decided
        return None

    for policy in policies:
        _require_policy(policy)
    return decide


def policies_of(permissions: Any) -> tuple[Policy, ...]:
    """Return the given policies; raise `TypeError` for a value that is not a policy."""
    if permissions is None:
        return ()
    if callable(permissions):
        return (cast("Policy", permissions),)
    if isinstance(permissions, str) or not isinstance(permissions, Iterable):
        _require_policy(permissions)
    found = tuple(cast("Iterable[Policy]", permissions))
    for policy in found:
        _require_policy(policy)
    return found


def _require_policy(policy: Any) -> None:
    if callable(policy):
        return
    example = 'allow("*")'
    if isinstance(policy, str):
        if policy in ("allow", "reject"):
            example = f"lambda request: {policy!r}"
        else:
            example = f"{'deny' if policy.startswith('rej') else 'allow'}({policy!r})"
    raise TypeError(
        f"permissions=…: expected a policy, which is a function, or several, got {policy!r}; write"
        f" permissions={example}, say (`allow` and `deny` are in accord.client.permissions)"
    )


def _require_decision(policy: Any, decided: Any) -> None:
    """Raise `TypeError` for a value that is not a decision; `True` does not say for how long."""
    if isinstance(decided, PermissionOption) or (isinstance(decided, str) and decided in _KINDS):
        return
    meant = {True: ': write return "allow"', False: ': write return "reject"'}
    raise TypeError(
        f"The policy {getattr(policy, '__name__', policy)} returned {decided!r}; expected"
        f" {', '.join(map(repr, _KINDS))}, an option of the request, or None to pass"
        f"{meant.get(decided, '') if isinstance(decided, bool) else ''}"
    )


def allow(*rules: str, always: bool = False) -> Policy:
    """Allow what a rule matches: `*`, a kind, or a kind with a pattern, as `edit:src/**`.

    The pattern of `execute` is for the command line (`execute:pytest *`); commands that a
    shell would split or redirect match no pattern. Other patterns are for the paths of the tool
    call, all of them: its locations and the files in its diffs. Relative ones begin at the
    session's `cwd`.
    """
    return _by_rule(rules, "allow_always" if always else "allow")


def deny(*rules: str, always: bool = False) -> Policy:
    """Reject what a rule matches; see `allow` for rules. Here one path that matches is enough."""
    return _by_rule(rules, "reject_always" if always else "reject", any)


def remember(policy: Policy) -> AsyncPolicy:
    """Return the policy with a memory: what it decided with `always` it is not asked again.

    Decisions hold for the same kind of tool call in the same session, and for the same command.
    """
    known: dict[tuple[str, str, str | None], Decision] = {}

    async def decide(request: PermissionRequest) -> Decision | None:
        kind = "" if request.tool_call is None else request.tool_call.kind
        what = command_of(request) or (None if kind else request.title)
        key = request.session_id, kind, what
        if key in known:
            return known[key]
        decision = await chain(policy)(request)
        if decision in ("allow_always", "reject_always"):
            known[key] = decision
        elif isinstance(decision, PermissionOption) and decision.is_remembered:
            known[key] = "allow_always" if decision.allows else "reject_always"
        return decision

    return decide


def ask_one_at_a_time(
    callback: Callable[[PermissionRequest], Awaitable[Decision | None]],
) -> AsyncPolicy:
    """Return a policy that asks the user, who is never asked two things at once."""
    lock = asyncio.Lock()

    async def decide(request: PermissionRequest) -> Decision | None:
        async with lock:
            return await callback(request)

    return decide


def command_of(request: PermissionRequest) -> str | None:
    """Return the command line that a request is about, None if it is about something else."""
    if request.command is not None:
        return request.command
    raw: Any = None if request.tool_call is None else request.tool_call.raw_input
    line: Any = raw.get("command") if lenient_json.is_object(raw) else None
    if lenient_json.is_array(line):
        return shlex.join(map(str, line))
    return line if isinstance(line, str) else None


def _by_rule(
    rules: Sequence[str],
    decision: Decision,
    enough: Callable[[Iterable[bool]], bool] = all,
) -> Policy:
    parsed = [rule.partition(":") for rule in rules]

    def decide(request: PermissionRequest) -> Decision | None:
        for kind, _, pattern in parsed:
            if _matches(request, kind, pattern, enough):
                return decision
        return None

    return decide


def _matches(
    request: PermissionRequest,
    kind: str,
    pattern: str,
    enough: Callable[[Iterable[bool]], bool],
) -> bool:
    call = request.tool_call
    actual = "execute" if request.command is not None or call is None else call.kind
    if call is None and request.command is None:
        return kind == "*" and not pattern
    if kind not in ("*", actual):
        return False
    if not pattern:
        return True
    if actual == "execute":
        line = command_of(request)
        if line is None:
            return False
        if enough is all and _SHELL.intersection(line):
            return False
        return fnmatch.fnmatchcase(line, pattern)
    paths = [] if call is None else list(_paths(call))
    if enough is all and call is not None and any(isinstance(c, Other) for c in call.content):
        return False  # what is shown cannot be read here: it may be a change of another file
    whole = _absolute(pattern, request.cwd)
    return bool(paths) and enough(
        fnmatch.fnmatchcase(_absolute(path, request.cwd), whole) for path in paths
    )


def _paths(call: ToolCall) -> Iterator[str]:
    """Yield the paths that a tool call works at: its locations and the files of its diffs."""
    for place in call.locations:
        yield place.path
    for content in call.content:
        if isinstance(content, Diff):
            yield content.path
            yield from content.others


def _absolute(path: str, cwd: str) -> str:
    return os.path.normpath(os.path.join(cwd, path))  # noqa: PTH118  # a pattern is no path
