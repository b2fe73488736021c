"""Decides whether a tool call is permitted: by rules, by the mode, or by the user.

In this order: rules that reject; the mode `plan`; secrets, files that run programs, and paths
outside the session's directories, which no general rule allows; rules that allow; the mode; the
user. Only the mode `bypassPermissions` allows commands. In `acceptEdits`, as in `default`, the user
is asked about each command that no rule of the project allows.
"""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING, Literal, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from accord import OptionChoice, PermissionOption, SelectOption, Session
from accord.local.files import has_further_names
from accord_coder.files import TrackedFiles
from accord_coder.permissions.command_words import files_named
from accord_coder.permissions.rules import ProjectRules, Rule, suggest_rule
from accord_coder.permissions.sensitive_files import is_guarded, is_secret, sensitive_below
from accord_coder.settings import Settings
from accord_coder.tool_results import Access, ToolFailed, display_path

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from accord.agent import ToolCallHandle
    from accord_coder.permissions.rules import EffectiveRules

Verdict: TypeAlias = Literal["allow", "ask", "refuse"]

MODES = (
    OptionChoice("default", "Default", "Asks before each change, command and download"),
    OptionChoice("acceptEdits", "Accept edits", "Edits files without asking; asks for the rest"),
    OptionChoice("plan", "Plan", "Only reads, and proposes a plan that you approve"),
    OptionChoice("dontAsk", "Don't ask", "Does what the rules allow, refuses the rest"),
    OptionChoice("bypassPermissions", "Bypass permissions", "Does everything without asking"),
)


def mode_option(value: str, *, bypass: bool) -> SelectOption:
    """Return the option for the mode; `bypass` includes the mode that never asks."""
    return SelectOption(
        id="mode",
        name="Mode",
        description="What the agent can do without asking",
        category="mode",
        value=value,
        choices=tuple(mode for mode in MODES if bypass or mode.value != "bypassPermissions"),
    )


async def switch_mode(session: Session, mode: str) -> None:
    """Change the mode of a session and notify the client; ValueError for an unknown mode."""
    await session.set_option("mode", mode)


def mode_verdict(mode: str, access: Access, *, sensitive: bool) -> Verdict:
    """Return the verdict of a mode if no rule of the user decides.

    `sensitive` is access to secrets, or outside the session's directories.
    """
    if access.kind == "none" or mode == "bypassPermissions":
        return "allow"
    if mode == "plan" and access.kind != "read":
        return "refuse"
    if access.kind == "read" and not sensitive:
        return "allow"
    if mode == "dontAsk":
        return "refuse"
    if mode == "acceptEdits" and access.kind in ("edit", "delete") and not sensitive:
        return "allow"
    return "ask"


_PATHS = ("read", "edit", "delete")


class PermissionDenied(ToolFailed):
    """The user, a rule or the mode denied permission."""


class ToolContext:
    """What tools and permissions know of a session: its settings, its rules and its files.

    `allowed_paths` are the real paths outside of the session's directories that the user allowed.
    """

    def __init__(self, session: Session, settings: Settings, rules: ProjectRules) -> None:
        self.session = session
        self.settings = settings
        self.rules = rules
        self.allowed_paths: set[str] = set()
        self.files = TrackedFiles(session, self.allowed_paths)

    @property
    def mode(self) -> str:
        """The permission mode."""
        return self.session.mode or "default"


class _Subject(Struct, frozen=True):
    """One path, command, host or tool that is accessed, with all its names."""

    names: tuple[str, ...]  # the first is the real path
    is_outside: bool = False
    ask_reason: str | None = None  # why the user is always asked


class PermissionCheck(Struct, frozen=True):
    """The result of the checks that do not involve the user."""

    access: Access
    subjects: tuple[_Subject, ...] = ()
    asks: bool = False


async def require_permission(access: Access, call: ToolCallHandle, context: ToolContext) -> None:
    """Return when the access is permitted; raise `PermissionDenied`."""
    await enforce(await evaluate(access, context), call, context)


async def evaluate(access: Access, context: ToolContext) -> PermissionCheck:
    """Check rules and mode; raise `PermissionDenied` if they deny the access."""
    if access.kind == "none":
        return PermissionCheck(access)
    # In a thread: there can be many rules and paths.
    return await asyncio.to_thread(_evaluate, access, context, context.mode)


async def enforce(judged: PermissionCheck, call: ToolCallHandle, context: ToolContext) -> None:
    """Ask the user if necessary; return when permitted, raise `PermissionDenied` if not."""
    if judged.asks:
        await _ask(judged.access, judged.subjects, call, context)
    context.allowed_paths.update(
        subject.names[0] for subject in judged.subjects if subject.is_outside
    )
    await call.start()


async def ask_always(access: Access, why: str, call: ToolCallHandle, context: ToolContext) -> None:
    """Ask the user even if a rule or the mode allows it; raise `PermissionDenied`."""
    judged = await evaluate(access, context)
    subjects = tuple(replace(one, ask_reason=one.ask_reason or why) for one in judged.subjects)
    if context.mode == "dontAsk":
        raise PermissionDenied(_denial_reason(context.mode))
    asks = context.mode != "bypassPermissions"
    await enforce(PermissionCheck(access, subjects, asks=asks), call, context)


def _evaluate(access: Access, context: ToolContext, mode: str) -> PermissionCheck:
    subjects, known = _subjects(access, context), context.rules.read()
    project = context.rules.project
    for rule in known.rules:
        if rule.effect == "reject" and _rejects(rule, access, subjects, project):
            raise PermissionDenied(f"A rule of this project forbids it: {rule}")
    decided = _decide(access, subjects, known, mode, project)
    if decided == "refuse":
        raise PermissionDenied(_denial_reason(mode))
    return PermissionCheck(access, tuple(subjects), asks=decided == "ask")


def _subjects(access: Access, context: ToolContext) -> list[_Subject]:
    if access.kind not in _PATHS:
        if access.kind != "execute":
            return [_Subject((access.subject,))]
        return [_subject_of_command(access, context)]
    subjects: list[_Subject] = []
    target = None  # of a move: what is moved gets other names
    if access.itself and len(access.paths) > 1:
        target = _entry(_absolute(access.paths[-1], context))
    for path in access.paths:
        named = _absolute(path, context)
        real = _entry(named) if access.itself else os.path.realpath(named)
        name = os.path.basename(named)  # noqa: PTH119  # a text
        why = None
        if is_secret(real) or is_secret(named):
            why = f"{name} may hold secrets."
        elif access.kind != "read" and (is_guarded(real) or is_guarded(named)):
            why = f"{name} can change what runs or is allowed here."
        elif access.itself and (below := sensitive_below(real, target=target)) is not None:
            why = f"{name} contains {below}."
        linked = not access.itself and has_further_names(real)
        subjects.append(_Subject((real, named), linked or not _is_inside(real, context), why))
    return subjects


def _absolute(path: str, context: ToolContext) -> str:
    here = os.path.normpath(context.session.cwd)
    named = os.path.normpath(os.path.join(here, path))  # noqa: PTH118  # a text
    if named.startswith(here + os.sep):  # rules apply to the real path of `here`
        named = context.rules.project + named[len(here) :]
    return named


def _subject_of_command(access: Access, context: ToolContext) -> _Subject:
    base = os.path.realpath(access.paths[0] if access.paths else context.session.cwd)
    named = files_named(access.subject, base, lambda real: _is_inside(real, context))
    why = None
    if named.secret is not None:
        why = f"{display_path(named.secret)} may hold secrets."
    elif named.guarded is not None:
        why = f"{display_path(named.guarded)} can change what runs or is allowed here."
    return _Subject((access.subject,), named.outside or not _is_inside(base, context), why)


def _entry(named: str) -> str:
    """Return the path of a directory entry: of a link itself, not of its target."""
    folder, name = os.path.split(named)
    return os.path.join(os.path.realpath(folder), name)  # noqa: PTH118  # a text


def _is_inside(real: str, context: ToolContext) -> bool:
    roots = (os.path.realpath(root) for root in context.session.directories)
    return any(real == root or real.startswith(root.rstrip(os.sep) + os.sep) for root in roots)


def _rejects(rule: Rule, access: Access, subjects: Iterable[_Subject], project: str) -> bool:
    return any(
        rule.covers(access.kind, name, project=project)
        for subject in subjects
        for name in subject.names
    )


def _decide(
    access: Access, subjects: list[_Subject], known: EffectiveRules, mode: str, project: str
) -> str:
    """Return the decision of the rules that allow and of the mode."""
    always_asked = any(subject.ask_reason or subject.is_outside for subject in subjects)
    decided = mode_verdict(mode, access, sensitive=always_asked)
    if known.error is not None and decided == "allow" and access.kind != "read":
        # The rules that reject cannot be read, so ask.
        decided = "allow" if mode == "bypassPermissions" else "ask"
    if decided == "allow" or (mode == "plan" and access.kind != "read"):
        return decided
    allowed = all(
        any(
            rule.effect == "allow"
            and rule.covers(access.kind, subject.names[0], project=project)
            and (not subject.is_outside or _is_exact(rule, subject.names[0]))
            for rule in known.rules
        )
        and not subject.ask_reason
        for subject in subjects
    )
    return "allow" if allowed and subjects else decided


def _is_exact(rule: Rule, subject: str) -> bool:
    """Return whether a rule names exactly this subject, which access outside requires."""
    if rule.kind == "execute":
        return rule.pattern.strip() == subject.strip()
    return rule.pattern.startswith("/") or rule.pattern[1:3] == ":/"


async def _ask(
    access: Access, subjects: Sequence[_Subject], call: ToolCallHandle, context: ToolContext
) -> None:
    """Return if the user allows it, and save an "always" answer."""
    rules = await asyncio.to_thread(_rules_offered, access, subjects, context)
    options = [PermissionOption("allow_once", "Allow", "allow_once")]
    if rules and not any(subject.ask_reason for subject in subjects):
        label = f"Always allow: {_format_rules(rules)}"
        options.append(PermissionOption("allow_always", label, "allow_always"))
    options.append(PermissionOption("reject_once", "Reject", "reject_once"))
    if rules:
        label = f"Always reject: {_format_rules(rules)}"
        options.append(PermissionOption("reject_always", label, "reject_always"))
    whys = [subject.ask_reason for subject in subjects if subject.ask_reason]
    whys += [
        f"{subject.names[-1]} {_outside_reason(subject)} the session's directories."
        if access.kind in _PATHS
        else "It accesses paths outside the session's directories."
        for subject in subjects
        if subject.is_outside
    ]
    chosen = await call.request_choice(options, description=" ".join(dict.fromkeys(whys)) or None)
    allowed = chosen is not None and chosen.allows
    if chosen is not None and chosen.is_remembered:
        await asyncio.to_thread(_save_rules, rules, context, allowed=allowed)
    if chosen is None:
        raise PermissionDenied("Permission was not given: the request was cancelled.")
    if not allowed:
        raise PermissionDenied("Permission was not given: the client rejected the request.")


def _outside_reason(subject: _Subject) -> str:
    if has_further_names(subject.names[0]):
        return "has hard links, which can be outside"
    return "is outside"


def _rules_offered(
    access: Access, subjects: Sequence[_Subject], context: ToolContext
) -> list[Rule]:
    """Return the rules that "always" would add; none if no rule can express it."""
    rules: list[Rule] = []
    for subject in subjects:
        rule = suggest_rule("allow", access.kind, subject.names[0], project=context.rules.project)
        if rule is None:
            return []
        if subject.is_outside and rule.kind == "execute":
            if subject.names[0].rstrip().endswith("*"):
                return []
            rule = Rule("allow", "execute", subject.names[0])
        rules.append(rule)
    return rules


def _format_rules(rules: list[Rule]) -> str:
    text = f"{rules[0].kind} {', '.join(rule.pattern for rule in rules)}"
    text = " ".join(text.split())
    return text if len(text) <= 80 else f"{text[:79]}…"


def _save_rules(rules: list[Rule], context: ToolContext, *, allowed: bool) -> None:
    for rule in rules:
        context.rules.add(Rule("allow" if allowed else "reject", rule.kind, rule.pattern))


def _denial_reason(mode: str) -> str:
    match mode:
        case "plan":
            return (
                "Plan mode does not allow changes or commands. Read what you need, then present"
                " your plan with exit_plan."
            )
        case "dontAsk":
            return "The mode dontAsk allows only what a rule allows, and no rule allows this."
        case _:
            return f"The mode {mode} does not allow this."
