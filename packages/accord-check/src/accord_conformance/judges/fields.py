"""The rule that a wrong field breaks; a field without a rule of its own breaks R-INIT-08.

R-INIT-08 requires the methods, keys and values of the agreed version. Of the values that version 1
closes, the kinds and statuses of tool calls and the types of config options have no other rule.

A `FieldRule` names its fields as members of wire types, so renaming a type or a member fails at
import. The first rule that fits a problem gets it. A rule counts as passed when a message had one
of its keys, and a rule about forbidden keys when a message had one of its types.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache
from typing import Any

from msgspec import Struct

from accord import v1, v2
from accord.wire import shared as mcp
from accord_conformance.traffic.message import ProblemKind, TypeProblem, VisitedKey, owner_of

# A rule about fields of messages: which members of wire types, and what may be wrong there.
#
# A rule names members as Python does, so renaming a type or a member fails at import.

MALFORMED: frozenset[ProblemKind] = frozenset(("missing", "type", "value", "bounds"))
_KEYS: frozenset[ProblemKind] = frozenset(("keys",))


class Place(Struct, frozen=True):
    """One key of a wire type (`owner`), as JSON spells it."""

    owner: Any
    key: str

    def fits(self, at: VisitedKey) -> bool:
        """Return whether a rule about this place is about a key of a message."""
        return (at.owner, at.key) == (self.owner, self.key)


class _Members(Place, frozen=True):
    """Every key of a wire type, and the object itself."""

    def fits(self, at: VisitedKey) -> bool:
        return at.owner == self.owner


class _Inside(Place, frozen=True):
    """A key and everything in its value."""

    def fits(self, at: VisitedKey) -> bool:
        here = (self.owner, self.key)
        return (at.owner, at.key) == here or here in at.within


class _Below(Place, frozen=True):
    """Every key in the value of a key."""

    def fits(self, at: VisitedKey) -> bool:
        return bool(at.key) and (self.owner, self.key) in at.within


class _KeyIn(Place, frozen=True):
    """A key of the object in a field, or of each object in its list, whatever its type."""

    inner: str = ""

    def fits(self, at: VisitedKey) -> bool:
        return at.key == self.inner and at.within[-1:] == ((self.owner, self.key),)


class _Absent(Place, frozen=True):
    """A key that a wire type must not have."""


def fields(owner: type[Struct], *names: str) -> tuple[Place, ...]:
    """Return members of a wire type, by their names in Python."""
    return tuple(Place(owner_of(owner), _key(owner, name)) for name in names)


def tag(*owners: type[Struct]) -> tuple[Place, ...]:
    """Return the key of wire types that tells the variants of a union apart."""
    return tuple(Place(owner, str(owner.__struct_config__.tag_field)) for owner in owners)


def members_of(*owners: type[Struct]) -> tuple[Place, ...]:
    """Return all members of wire types."""
    return tuple(_Members(owner, "") for owner in owners)


def inside(owner: type[Struct], *names: str) -> tuple[Place, ...]:
    """Return members of a wire type, and everything in their values."""
    return tuple(_Inside(owner_of(owner), _key(owner, name)) for name in names)


def below(owner: type[Struct], *names: str) -> tuple[Place, ...]:
    """Return everything in the values of members of a wire type."""
    return tuple(_Below(owner_of(owner), _key(owner, name)) for name in names)


def key_in(owner: type[Struct], name: str, *keys: str) -> tuple[Place, ...]:
    """Return keys of the objects that a member holds; not all variants need to have them."""
    return tuple(_KeyIn(owner, _key(owner, name), key) for key in keys)


def absent(owner: type[Struct], *keys: str) -> tuple[Place, ...]:
    """Return keys that a wire type must not have."""
    if clash := set(keys) & set(owner.__struct_encode_fields__):
        raise TypeError(f"{owner.__name__} has {', '.join(sorted(clash))}")
    return tuple(_Absent(owner, key) for key in keys)


def _key(owner: type[Struct], name: str) -> str:
    names = dict(zip(owner.__struct_fields__, owner.__struct_encode_fields__, strict=True))
    if name not in names:
        raise TypeError(f"{owner.__module__}.{owner.__name__} has no member {name}")
    return names[name]


class FieldRule(Struct, frozen=True):
    """A rule about fields: which problems break it, and where."""

    rule: str
    places: tuple[Place, ...]
    kinds: frozenset[ProblemKind] = MALFORMED

    def broken_by(self, problem: TypeProblem) -> bool:
        """Return whether a problem breaks the rule."""
        at = VisitedKey(problem.owner, problem.key, problem.within)
        return problem.what in self.kinds and any(
            place.fits(at)
            for place in self.places
            if (problem.what == "extra") is isinstance(place, _Absent)
        )

    def applies_to(self, visit: VisitedKey) -> bool:
        """Return whether a key of a message exercises the rule."""
        if self.kinds == _KEYS:
            return not visit.key and any(place.owner == visit.owner for place in self.places)
        return any(
            not visit.key and place.owner == visit.owner
            if isinstance(place, _Absent)
            else place.fits(visit)
            for place in self.places
        )


# The rules of all fields.

_CAMEL = re.compile(r"_(\w)")
_HUMP = re.compile(r"(?<=[a-z0-9])([A-Z])")
_SPELLED = "R-GEN-07"
_UNKNOWN_KEY = "R-GEN-12"
_UNKNOWN_VALUE = "R-EXT-09"

_WRONG_TYPE: frozenset[ProblemKind] = frozenset(("missing", "type"))
_UNKNOWN: frozenset[ProblemKind] = frozenset(("variant", "custom"))
# Keys whose values version 2 leaves open.
_OPEN_KEYS = ("type", "status", "kind", "state", "operation", "severity")


def _each(owners: Iterable[type[Struct]], *names: str) -> tuple[Place, ...]:
    return tuple(place for owner in owners for place in fields(owner, *names))


_EXTRA: frozenset[ProblemKind] = frozenset(("extra",))
_VALUE: frozenset[ProblemKind] = frozenset(("value",))
_BOUNDS: frozenset[ProblemKind] = frozenset(("bounds",))
_MISSING: frozenset[ProblemKind] = frozenset(("missing",))
_TYPE: frozenset[ProblemKind] = frozenset(("type",))
_SETUPS_2 = (v2.NewSessionRequest, v2.ResumeSessionRequest, v2.ForkSessionRequest)
_OPENED_2 = (v2.NewSessionResponse, v2.ResumeSessionResponse, v2.ForkSessionResponse)
_WITH_PROMPT = (
    *(v1.NewSessionRequest, v1.LoadSessionRequest, v1.ResumeSessionRequest, v1.ForkSessionRequest),
    *_SETUPS_2,
)
_STATES_2 = (
    *(v2.IdleState, v2.RunningState, v2.RequiresActionState, v2.UnknownState),
    *(v2.IdleStateUpdate, v2.RunningStateUpdate, v2.RequiresActionStateUpdate),
    v2.UnknownStateUpdate,
)
_MESSAGES_2 = (
    *(v2.UserMessage, v2.AgentMessage, v2.AgentThought),
    *(v2.UserMessageChunk, v2.AgentMessageChunk, v2.AgentThoughtChunk),
)
_CONTENT = tuple(
    getattr(version, name)
    for version in (v1, v2)
    for name in (
        "TextContent",
        "ImageContent",
        "AudioContent",
        "ResourceLink",
        "EmbeddedResource",
        "TextResourceContents",
        "BlobResourceContents",
    )
)
# The types of the content blocks, by the fields that hold some; those of tool calls are others.
_BLOCK_TYPES_1 = (
    *key_in(v1.PromptRequest, "prompt", "type"),
    *key_in(v1.SystemPrompt, "content", "type"),
    *key_in(v1.CompactionUpdate, "summary", "type"),
    *key_in(v1.Content, "content", "type"),
    *(
        place
        for owner in (
            v1.CompactionSummaryChunk,
            v1.SessionMessage,
            v1.SessionMessageChunk,
            v1.UserMessageChunk,
            v1.AgentMessageChunk,
            v1.AgentThoughtChunk,
        )
        for place in key_in(owner, "content", "type")
    ),
)
_BLOCK_TYPES_2 = (
    *key_in(v2.PromptRequest, "prompt", "type"),
    *key_in(v2.SystemPrompt, "content", "type"),
    *key_in(v2.CompactionUpdate, "summary", "type"),
    *key_in(v2.Content, "content", "type"),
    *(
        place
        for owner in (
            v2.CompactionSummaryChunk,
            v2.SessionMessage,
            v2.SessionMessageChunk,
            *_MESSAGES_2,
        )
        for place in key_in(owner, "content", "type")
    ),
)
_TOOL_TYPES_2 = tuple(
    place
    for owner in (v2.ToolCallUpdate, v2.ToolCallDetails, v2.ToolCallContentChunk)
    for place in key_in(owner, "content", "type")
)
_SERVER_TYPES_2 = tuple(
    place for owner in _SETUPS_2 for place in key_in(owner, "mcp_servers", "type")
)


def _both(make: Any, name: str, *names: str) -> tuple[Place, ...]:
    """Return the places of a type that both versions have."""
    return (*make(getattr(v1, name), *names), *make(getattr(v2, name), *names))


_RULES = (
    # Forbidden keys.
    FieldRule(
        "R-MSG-05",
        (
            *absent(v1.PromptRequest, "messageId", "userMessageId"),
            *absent(v1.PromptResponse, "messageId", "userMessageId"),
            *absent(v2.PromptRequest, "messageId", "userMessageId"),
            *absent(v2.PromptResponse, "userMessageId"),
        ),
        _EXTRA,
    ),
    FieldRule("R-CMD-05", absent(v1.UnstructuredCommandInput, "type"), _EXTRA),
    FieldRule("R-MCP-04", absent(v1.McpServerStdio, "type"), _EXTRA),
    FieldRule("R-CONF-09", absent(v1.SetSessionConfigOptionId, "type"), _EXTRA),
    FieldRule(
        "R-PROV-04",
        (
            *_both(absent, "ProviderInfo", "headers"),
            *_both(absent, "ProviderCurrentConfig", "headers"),
        ),
        _EXTRA,
    ),
    FieldRule("R-MODE-06", tuple(p for one in _OPENED_2 for p in absent(one, "modes")), _EXTRA),
    # Initialization.
    FieldRule("R-INIT-04", _both(fields, "InitializeResponse", "protocol_version"), _MISSING),
    FieldRule(
        "R-INIT-10",
        (
            *_both(fields, "InitializeRequest", "protocol_version"),
            *_both(fields, "InitializeResponse", "protocol_version"),
        ),
    ),
    FieldRule(
        "R-INIT-03",
        (
            *fields(v1.InitializeRequest, "client_capabilities"),
            *fields(v2.InitializeRequest, "capabilities"),
        ),
        _TYPE,
    ),
    FieldRule(
        "R-INIT-04",
        (
            *fields(v1.InitializeResponse, "agent_capabilities"),
            *fields(v2.InitializeResponse, "capabilities"),
        ),
        _TYPE,
    ),
    FieldRule("R-INIT-19", inside(v1.InitializeResponse, "agent_info")),
    FieldRule("R-INIT-20", inside(v1.InitializeRequest, "client_info")),
    FieldRule(
        "R-INIT-21", (*inside(v2.InitializeRequest, "info"), *inside(v2.InitializeResponse, "info"))
    ),
    FieldRule("R-ELIC-01", _both(fields, "ElicitationCapabilities", "form", "url"), _TYPE),
    FieldRule(
        "R-INIT-26",
        (
            *below(v1.InitializeRequest, "client_capabilities"),
            *below(v1.InitializeResponse, "agent_capabilities"),
            *members_of(v1.SubagentSessionCapabilities, v1.SessionCancelCapabilities),
        ),
        _TYPE,
    ),
    FieldRule(
        "R-INIT-25",
        (
            *below(v2.InitializeRequest, "capabilities"),
            *below(v2.InitializeResponse, "capabilities"),
            *members_of(v2.SubagentSessionCapabilities, v2.SessionCancelCapabilities),
            *members_of(v2.TerminalCapabilities, v2.TerminalCancelCapabilities),
            *members_of(v2.ToolCallCapabilities, v2.ToolCallCancelCapabilities),
        ),
        _TYPE,
    ),
    # Logging in.
    FieldRule("R-AUTH-22", inside(v1.AuthMethodTerminal, "env")),
    FieldRule("R-AUTH-29", inside(v2.AuthMethodTerminal, "args", "env")),
    FieldRule("R-AUTH-03", key_in(v2.InitializeResponse, "auth_methods", "type")),
    FieldRule(
        "R-AUTH-01", _both(key_in, "InitializeResponse", "auth_methods", "id", "methodId", "name")
    ),
    # Sessions.
    FieldRule("R-LIST-02", _both(fields, "ListSessionsResponse", "sessions")),
    FieldRule("R-SESS-30", _each(_OPENED_2, "config_options", "available_commands"), _TYPE),
    FieldRule("R-SESS-35", fields(v2.ResumeSessionRequest, "cwd"), _WRONG_TYPE),
    FieldRule("R-TITLE-04", _both(fields, "SetSessionTitleResponse", "title")),
    FieldRule(
        "R-MCP-11", _each((v1.NewSessionRequest, v1.LoadSessionRequest), "mcp_servers"), _MISSING
    ),
    FieldRule(
        "R-MCP-04",
        (
            *fields(v1.McpServerStdio, "args", "env"),
            *_each((v1.McpServerHttp, v1.McpServerSse), "headers"),
        ),
    ),
    FieldRule("R-MCP-05", _SERVER_TYPES_2, _WRONG_TYPE),
    FieldRule("R-SYSP-10", tuple(p for one in _WITH_PROMPT for p in inside(one, "system_prompt"))),
    # Turns.
    FieldRule("R-PROMPT-25", fields(v2.PromptRequest, "prompt"), _BOUNDS),
    FieldRule("R-PERM-08", fields(v2.RequestPermissionRequest, "options"), _BOUNDS),
    FieldRule("R-PROMPT-04", fields(v1.PromptResponse, "stop_reason"), _MISSING),
    FieldRule("R-PROMPT-06", fields(v1.PromptResponse, "stop_reason"), _VALUE | _TYPE),
    FieldRule("R-PROMPT-09", fields(v2.PromptResponse, "message_id")),
    FieldRule(
        "R-PROMPT-21",
        (
            *_each((v2.IdleState, v2.IdleStateUpdate), "stop_reason"),
            *key_in(v2.SessionStatusResponse, "state", "state"),
            *key_in(v2.SubagentUpdate, "state", "state"),
            *key_in(v2.UpdateSessionNotification, "update", "state"),
        ),
        _UNKNOWN,
    ),
    FieldRule("R-MSG-02", _each(_MESSAGES_2, "message_id")),
    FieldRule("R-USAGE-02", _both(fields, "UsageUpdate", "used", "size")),
    FieldRule("R-USAGE-03", (*_both(inside, "UsageUpdate", "cost"), *_both(members_of, "Cost"))),
    FieldRule("R-NOTICE-02", _both(fields, "Notice", "severity", "title")),
    # Tools and permissions.
    FieldRule("R-TOOL-03", fields(v1.ToolCallUpdate, "tool_call_id")),
    FieldRule("R-TOOL-17", members_of(v1.Diff)),
    FieldRule("R-TOOL-20", (*fields(v2.Diff, "changes"), *key_in(v2.Diff, "changes", "operation"))),
    FieldRule(
        "R-TOOL-25",
        (
            *_each((v2.DiffAdd, v2.DiffDelete, v2.DiffModify), "path"),
            *_each((v2.DiffMove, v2.DiffCopy), "path", "old_path"),
        ),
    ),
    FieldRule(
        "R-TOOL-12",
        (*_each((v2.ToolCallUpdate, v2.ToolCallDetails), "kind", "status"), *_TOOL_TYPES_2),
        _UNKNOWN,
    ),
    FieldRule("R-GEN-02", fields(v2.ToolCallLocation, "line"), _BOUNDS),
    FieldRule("R-PERM-07", fields(v2.RequestPermissionRequest, "title")),
    FieldRule("R-PERM-11", members_of(v2.CommandPermissionSubject)),
    FieldRule("R-PERM-16", fields(v1.PermissionOption, "kind"), _WRONG_TYPE | _VALUE),
    FieldRule(
        "R-PERM-04",
        (
            *_both(members_of, "RequestPermissionResponse"),
            *_both(members_of, "SelectedPermissionOutcome"),
        ),
    ),
    FieldRule("R-TERM-02", fields(v1.CreateTerminalResponse, "terminal_id")),
    FieldRule("R-TERM-07", fields(v1.WaitForTerminalExitResponse, "exit_code", "signal")),
    FieldRule(
        "R-BGW-01",
        (
            *_each(_STATES_2, "background"),
            *(place for one in _STATES_2 for place in key_in(one, "background", "type")),
        ),
    ),
    FieldRule("R-DTERM-14", fields(v2.TerminalExitStatus, "exit_code")),
    # Plans, options, commands.
    FieldRule(
        "R-PLAN-07",
        (*key_in(v2.PlanUpdate, "plan", "planId"), *fields(v2.PlanRemoved, "plan_id")),
        _WRONG_TYPE,
    ),
    FieldRule("R-PLAN-07", key_in(v2.PlanUpdate, "plan", "type"), _UNKNOWN),
    FieldRule("R-PLAN-14", fields(v2.PlanItems, "entries")),
    FieldRule(
        "R-CONF-02", _both(fields, "SetSessionConfigOptionResponse", "config_options"), _WRONG_TYPE
    ),
    FieldRule("R-CONF-03", _both(fields, "ConfigOptionUpdate", "config_options"), _WRONG_TYPE),
    FieldRule(
        "R-CONF-01",
        (
            *_both(fields, "SessionConfigSelect", "current_value"),
            *_both(fields, "SessionConfigBoolean", "current_value"),
        ),
    ),
    FieldRule(
        "R-CONF-17",
        _each((v2.SessionConfigSelect, v2.SessionConfigSelectGroup), "options"),
        _BOUNDS,
    ),
    FieldRule(
        "R-CONF-09", _each((v1.SetSessionConfigOptionBoolean, v1.SetSessionConfigOptionId), "value")
    ),
    FieldRule(
        "R-CONF-10",
        (
            Place(v2.SetSessionConfigOptionRequest, "type"),
            *tag(v2.SetSessionConfigOptionBoolean, v2.SetSessionConfigOptionId),
        ),
        _WRONG_TYPE,
    ),
    FieldRule(
        "R-CMD-06",
        tuple(
            place
            for one in (v2.AvailableCommandsUpdate, *_OPENED_2)
            for place in key_in(one, "available_commands", "type")
        ),
        _WRONG_TYPE,
    ),
    FieldRule("R-CMD-04", key_in(v2.Command, "input", "type"), _WRONG_TYPE),
    FieldRule("R-CMD-05", fields(v1.UnstructuredCommandInput, "hint")),
    # Elicitation.
    FieldRule(
        "R-ELIC-05",
        (*_both(members_of, "ElicitationFormMode"), *_both(members_of, "ElicitationUrlMode")),
        frozenset(("keys",)),
    ),
    FieldRule(
        "R-ELIC-05",
        (
            Place(v1.CreateElicitationRequest, "mode"),
            Place(v2.CreateElicitationRequest, "mode"),
            *_both(tag, "ElicitationFormMode"),
            *_both(tag, "ElicitationUrlMode"),
            *_both(fields, "ElicitationFormMode", "session_id", "request_id"),
            *_both(fields, "ElicitationUrlMode", "session_id", "request_id"),
        ),
    ),
    FieldRule(
        "R-ELIC-07",
        _both(fields, "ElicitationSchema", "type", "properties"),
    ),
    FieldRule("R-ELIC-09", _both(inside, "ElicitationSchema", "properties")),
    FieldRule(
        "R-ELIC-24",
        (
            Place(v1.CreateElicitationResponse, "action"),
            Place(v2.CreateElicitationResponse, "action"),
            *_both(members_of, "ElicitationAcceptAction"),
            *_both(tag, "ElicitationCancelAction"),
            *_both(tag, "ElicitationDeclineAction"),
        ),
    ),
    # Content.
    FieldRule("R-CONT-05", _BLOCK_TYPES_2, _UNKNOWN),
    FieldRule("R-CONT-01", members_of(*_CONTENT)),
    FieldRule("R-CONT-01", fields(v1.Annotations, "audience"), _VALUE),
    FieldRule("R-CONT-01", (*_BLOCK_TYPES_1, *_BLOCK_TYPES_2)),
    # MCP over ACP.
    FieldRule(
        "R-MOA-05",
        _each((mcp.MessageMcpRequest, mcp.MessageMcpNotification), "params"),
    ),
    FieldRule(
        "R-MOA-06",
        (
            *fields(mcp.MessageMcpResult, "result"),
            *fields(mcp.MessageMcpError, "error"),
            *absent(mcp.MessageMcpResult, "error"),
            *absent(mcp.MessageMcpError, "result"),
        ),
        MALFORMED | _EXTRA,
    ),
    FieldRule("R-MOA-06", members_of(mcp.McpError)),
    # What else is new in version 2.
    FieldRule("R-MCP-06", _SERVER_TYPES_2, _UNKNOWN),
)
_added: list[FieldRule] = []


def add_field_rules(rules: Iterable[FieldRule]) -> None:
    """Add rules of an extension, after those of the protocol."""
    _added.extend(rules)
    _rules.cache_clear()
    _rules_at.cache_clear()
    _rules_of.cache_clear()


@cache
def _rules() -> tuple[FieldRule, ...]:
    return (*_RULES, *_added)


@cache
def _rules_of(owner: Any) -> tuple[FieldRule, ...]:
    """Return the rules about keys of a wire type, or about what is in their values."""
    return tuple(rule for rule in _rules() if any(place.owner == owner for place in rule.places))


def field_rule_ids() -> frozenset[str]:
    """Return the ids of all rules that a wrong field may break, except R-INIT-08."""
    general = {"R-EXT-01", _SPELLED, _UNKNOWN_KEY, _UNKNOWN_VALUE}
    return frozenset(general | {rule.rule for rule in _rules()})


def rule_for_problem(problem: TypeProblem, version: int) -> str | None:
    """Return the rule that a problem breaks; None if no rule of its own covers it.

    An empty id means that the value is allowed: it is a custom value, or version 1 leaves it open.
    """
    if problem.what in _UNKNOWN and (version == 1 or str(problem.got).startswith("_")):
        return ""
    if _is_misspelled(problem):
        return _SPELLED
    if problem.key == "_meta" and problem.what == "type":
        return "R-EXT-01"
    for rule in _rules():
        if rule.broken_by(problem):
            return rule.rule
    if problem.what in _UNKNOWN:
        return _UNKNOWN_VALUE
    return _UNKNOWN_KEY if problem.what == "extra" else None


def _is_misspelled(problem: TypeProblem) -> bool:
    """Return whether a name is a known one in the spelling of another language."""
    match problem.what:
        case "extra":
            camel = _CAMEL.sub(lambda found: found[1].upper(), problem.key)
            return camel != problem.key and camel in problem.known
        case "value" | "variant" | "custom" if isinstance(problem.got, str):
            snake = _HUMP.sub(lambda found: f"_{found[1]}", problem.got).lower().replace("-", "_")
            return snake != problem.got and snake in problem.known
        case _:
            return False


def rules_for_keys(visits: Iterable[VisitedKey], version: int) -> set[str]:
    """Return the rules that these keys of a message exercise."""
    return {rule for visit in visits for rule in _rules_at(visit, version)}


@cache
def _rules_at(visit: VisitedKey, version: int) -> frozenset[str]:
    owners = {visit.owner, *(owner for owner, _ in visit.within)}
    rules = {rule.rule for owner in owners for rule in _rules_of(owner) if rule.applies_to(visit)}
    if visit.key == "_meta":
        rules.add("R-EXT-01")
    if not visit.key:
        rules |= {_UNKNOWN_KEY, _SPELLED}
    if version == 2 and visit.key in _OPEN_KEYS:
        rules.add(_UNKNOWN_VALUE)
    return frozenset(rules)
