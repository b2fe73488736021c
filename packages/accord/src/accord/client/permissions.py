"""Permission policies: functions that decide permission requests.

A policy receives a `PermissionRequest` and returns a decision, or None to leave it to the next
policy. It can be a coroutine function. A request that no policy decides is rejected. Options are
chosen by their kind, never by their position, and never allow more than was decided.
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
from accord.text.excerpt import excerpt
from accord.types.content import Other
from accord.types.permission import PermissionOption
from accord.types.tool_calls import Diff, rule_error

__all__ = (
    "AsyncPolicy",
    "Policy",
    "allow",
    "allows",
    "ask_one_at_a_time",
    "chain",
    "choose",
    "command_of",
    "denies",
    "deny",
    "is_distinct",
    "policies_of",
    "remember",
)

AsyncPolicy: TypeAlias = Callable[[PermissionRequest], Awaitable[Decision | None]]
Policy: TypeAlias = Callable[[PermissionRequest], Decision | None | Awaitable[Decision | None]]

# The option kinds for each decision, best first. An agent can remember an option whose kind ends
# in `always`, so a decision for one request never selects such an option.
_KINDS: dict[str, tuple[str, ...]] = {
    "allow": ("allow_once",),
    "allow_always": ("allow_always", "allow_once"),
    "reject": ("reject_once",),
    "reject_always": ("reject_always", "reject_once"),
    "cancel": (),
}
# Shell syntax that joins commands, redirects output or expands text: no pattern matches it.
_SHELL = frozenset(";|&$`<>\n\r(){}")


def choose(options: Iterable[PermissionOption], decision: Decision) -> PermissionOption | None:
    """Return the option for a decision; None means the outcome `cancelled`.

    If no option allows the action once, the request is rejected. If no option rejects it once,
    the request is cancelled.
    """
    offered = list(options)
    if isinstance(decision, PermissionOption):
        return decision if decision in offered and is_distinct(decision, offered) else None
    kinds_of: dict[str, set[str]] = {}
    for option in offered:
        kinds_of.setdefault(option.id, set()).add(option.kind)
    # An id with several kinds is ambiguous.
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
    """Return whether the id of an option is unique: the response contains only the id."""
    return all(other.id != option.id or other == option for other in offered)


def chain(*policies: Policy) -> AsyncPolicy:
    """Return a policy that calls these policies in order until one decides."""

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


def policies_of(permissions: object) -> tuple[Policy, ...]:
    """Return policies as a tuple; raise `TypeError` for a value that is not a policy."""
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
    if policy in (allow, deny):
        name = policy.__name__
        raise TypeError(
            f'permissions=…: `{name}` makes a policy: write {name}("*"), {name}("read")'
        )
    if callable(policy):
        return
    example = 'allow("*")'
    if isinstance(policy, str):
        if policy in ("allow", "reject"):
            example = f"lambda request: {policy!r}"
        else:
            example = f"{'deny' if policy.startswith('rej') else 'allow'}({policy!r})"
    raise TypeError(
        f"permissions=…: expected a function or a sequence of functions, got {policy!r};"
        f" for example permissions={example} (`allow` and `deny` are in accord.client.permissions)"
    )


def _require_decision(policy: Any, decided: Any) -> None:
    """Raise `TypeError` for a value that is not a decision; `True` is ambiguous."""
    if isinstance(decided, PermissionOption) or (isinstance(decided, str) and decided in _KINDS):
        return
    meant = {True: ': write return "allow"', False: ': write return "reject"'}
    raise TypeError(
        f"The policy {getattr(policy, '__name__', policy)} returned {decided!r}; expected"
        f" {', '.join(map(repr, _KINDS))}, an option of the request, or None to leave it"
        " to the next policy"
        f"{meant.get(decided, '') if isinstance(decided, bool) else ''}"
    )


def allow(*rules: str, always: bool = False) -> Policy:
    """Allow matching requests. A rule is `*`, a kind, or a kind with a pattern: `edit:src/**`.

    A pattern of `execute` matches the command line (`execute:pytest *`). Commands with shell
    syntax, such as pipes and redirections, match no pattern. Other patterns must match all paths
    of the tool call: its locations and the files in its diffs. Relative patterns start at the
    session's `cwd`. Raises `ValueError` for an unknown kind.
    """
    return _by_rule("allow", rules, "allow_always" if always else "allow")


def deny(*rules: str, always: bool = False) -> Policy:
    """Reject matching requests; `allow` describes the rules. One matching path is enough here."""
    return _by_rule("deny", rules, "reject_always" if always else "reject", any)


def remember(policy: Policy) -> AsyncPolicy:
    """Return a policy that remembers decisions with `always`.

    They apply to the same kind of tool call in the same session, and to the same command.
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
    """Return a policy that calls `callback` for one request at a time."""
    lock = asyncio.Lock()

    async def decide(request: PermissionRequest) -> Decision | None:
        async with lock:
            return await callback(request)

    return decide


def command_of(request: PermissionRequest) -> str | None:
    """Return the command line of a request, None if it is not about a command."""
    if request.command is not None:
        return request.command
    raw: Any = None if request.tool_call is None else request.tool_call.raw_input
    line: Any = raw.get("command") if lenient_json.is_object(raw) else None
    if lenient_json.is_array(line):
        return shlex.join(map(str, line))
    return line if isinstance(line, str) else None


def allows(rule: str, request: PermissionRequest) -> bool:
    """Return whether `allow(rule)` would allow a request; the kind may be one of the agent's."""
    kind, _, pattern = rule.partition(":")
    return _matches(request, kind, pattern, all)


def denies(rule: str, request: PermissionRequest) -> bool:
    """Return whether `deny(rule)` would reject a request; the kind may be one of the agent's."""
    kind, _, pattern = rule.partition(":")
    return _matches(request, kind, pattern, any)


def _by_rule(
    name: str,
    rules: Sequence[str],
    decision: Decision,
    enough: Callable[[Iterable[bool]], bool] = all,
) -> Policy:
    for rule in rules:
        if not isinstance(rule, str):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise TypeError(
                f"{name}(…): expected rules as separate strings, such as "
                f'{name}("read", "edit:src/**"), got {excerpt(repr(rule))}'
            )
    if (wrong := rule_error(rules)) is not None:
        raise ValueError(f"{name}(…): {wrong[0].lower()}{wrong[1:]}")
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
        return False  # unreadable content: it can be a change of another file
    whole = _absolute(pattern, request.cwd)
    return bool(paths) and enough(
        fnmatch.fnmatchcase(_absolute(path, request.cwd), whole) for path in paths
    )


def _paths(call: ToolCall) -> Iterator[str]:
    """Yield the paths of a tool call: its locations and the files of its diffs."""
    for place in call.locations:
        yield place.path
    for content in call.content:
        if isinstance(content, Diff):
            yield content.path
            yield from content.others


def _absolute(path: str, cwd: str) -> str:
    return os.path.normpath(os.path.join(cwd, path))  # noqa: PTH118  # a pattern is not a path
