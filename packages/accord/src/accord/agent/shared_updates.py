"""Updates that both versions encode alike: all but messages and tool calls."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from msgspec import UNSET

from accord.agent.updates import (
    CompactionSummaryUpdate,
    CompactionUpdate,
    NoticeUpdate,
    PlanFileUpdate,
    PlanMarkdownUpdate,
    PlanRemoved,
    SessionMessageUpdate,
    SubagentUpdate,
    Update,
)
from accord.types.content import ContentBlock
from accord.types.session import Cost, SelectOption, SessionOption, TokenUsage

if TYPE_CHECKING:
    from accord.agent.version_types import VersionTypes
    from accord.types.session import AuthAccount


def to_update(
    types: VersionTypes, content_to_wire: Callable[[ContentBlock], Any], update: Update
) -> Any:
    """Return an update in a version's type; None for a kind that is encoded elsewhere."""
    match update:
        case NoticeUpdate(severity, title, description):
            return types.Notice(severity=severity, title=title, description=description)
        case CompactionUpdate(id, status, error, summary):
            return types.CompactionUpdate(
                compaction_id=id,
                status=status,
                error=error,
                summary=UNSET if summary is UNSET else [content_to_wire(part) for part in summary],
            )
        case CompactionSummaryUpdate(id, content):
            return types.CompactionSummaryChunk(compaction_id=id, content=content_to_wire(content))
        case PlanMarkdownUpdate(id, text):
            return types.PlanUpdate(plan=types.PlanMarkdown(plan_id=id, content=text))
        case PlanFileUpdate(id, uri):
            return types.PlanUpdate(plan=types.PlanFile(plan_id=id, uri=uri))
        case PlanRemoved(id):
            return types.PlanRemoved(plan_id=id)
        case SubagentUpdate():
            return _subagent(types, update)
        case SessionMessageUpdate():
            return types.SessionMessage(
                message_id=update.id,
                sender_session_id=update.sender,
                recipient_session_id=update.recipient,
                sender_message_id=update.sender_message_id,
                recipient_message_id=update.recipient_message_id,
                content=[content_to_wire(part) for part in update.content],
            )
        case _:
            return None


def _subagent(types: VersionTypes, update: SubagentUpdate) -> Any:
    changes: dict[str, Any] = {}
    if update.additional_directories is not UNSET:
        changes["additional_directories"] = list(update.additional_directories)
    if update.cancellable is not UNSET:
        cancel = types.SessionCancelCapabilities() if update.cancellable else None
        changes["capabilities"] = types.SubagentSessionCapabilities(cancel=cancel)
    if update.state is not UNSET:
        changes["state"] = _state(types, update)
    return types.SubagentUpdate(
        session_id=update.id,
        title=update.title,
        description=update.description,
        cwd=update.cwd,
        **changes,
    )


def _state(types: VersionTypes, update: SubagentUpdate) -> Any:
    known: dict[str, Any] = {}
    if hasattr(types, "BackgroundTerminal"):  # version 2
        known["background"] = background_to_wire(types, update.background)
    match update.state:
        case "idle":
            usage = None if update.tokens is None else usage_to_wire(types, update.tokens)
            return types.IdleState(stop_reason=update.stop_reason, usage=usage, **known)
        case "requires_action":
            return types.RequiresActionState(**known)
        case _:
            return types.RunningState(**known)


def usage_to_wire(types: VersionTypes, tokens: TokenUsage) -> Any:
    """Return token usage in a version's type."""
    return types.Usage(
        total_tokens=tokens.total,
        input_tokens=tokens.input,
        output_tokens=tokens.output,
        thought_tokens=tokens.thought,
        cached_read_tokens=tokens.cached_read,
        cached_write_tokens=tokens.cached_write,
    )


def cost_to_wire(types: VersionTypes, cost: Cost | None) -> Any:
    """Return a cost in a version's type."""
    return None if cost is None else types.Cost(amount=cost.amount, currency=cost.currency)


def option_to_wire(
    types: VersionTypes, option: SessionOption, *, id_field: str, group_field: str
) -> Any:
    """Return a config option in a version's type; the versions name two fields differently."""
    common: dict[str, Any] = {
        id_field: option.id,
        "name": option.name,
        "description": option.description,
        "category": option.category,
    }
    if not isinstance(option, SelectOption):
        return types.SessionConfigBoolean(current_value=option.value, **common)
    groups: dict[str | None, list[Any]] = {}
    for choice in option.choices:
        groups.setdefault(choice.group, []).append(
            types.SessionConfigSelectOption(
                value=choice.value, name=choice.name, description=choice.description
            )
        )
    options = groups.get(None, [])
    if not set(groups) <= {None}:
        options = [
            types.SessionConfigSelectGroup(
                **{group_field: name or "other"}, name=name or "Other", options=choices
            )
            for name, choices in groups.items()
        ]
    return types.SessionConfigSelect(current_value=option.value, options=options, **common)


def accounts_to_wire(types: VersionTypes, accounts: Iterable[AuthAccount]) -> list[Any]:
    """Return accounts in a version's type."""
    return [
        types.AuthAccount(
            label=account.label,
            active=account.active,
            name=account.name,
            email=account.email,
            organization=account.organization,
        )
        for account in accounts
    ]


def background_to_wire(types: Any, items: Iterable[tuple[str, str]]) -> list[Any]:
    """Return background work in the types of version 2, the only one that has it."""
    work: list[Any] = []
    for kind, entity in items:
        match kind:
            case "terminal":
                work.append(types.BackgroundTerminal(terminal_id=entity))
            case "subagent":
                work.append(types.BackgroundSubagent(session_id=entity))
            case _:
                work.append(types.BackgroundToolCall(tool_call_id=entity))
    return work


def plan_lines(update: PlanMarkdownUpdate | PlanFileUpdate) -> list[str]:
    """Return the lines of a plan, for clients that only support plans with entries."""
    if isinstance(update, PlanFileUpdate):
        return [update.uri]
    lines = (line.strip().lstrip("#-* ").strip() for line in update.text.splitlines())
    return [line for line in lines if line]
