"""Which rule a wrong field breaks; what stands in no row breaks R-INIT-08.

R-INIT-08 says as much: methods, keys and values are those of the agreed version. Of what version 1
closes, the kinds and statuses of tool calls and the types of config options have no rule of their
own.

A row is tried where its owner (a wire type), key and path fit, as regular expressions; the first
row that fits a problem has it. A row counts as kept where a message had such a key, and for rows
about keys that must not be there where it had such an owner.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache
from typing import NamedTuple

from accord_conformance.traffic.strict_types import ProblemKind, TypeProblem, VisitedKey

__all__ = ("FIELD_RULES", "FieldRule", "rule_for_problem", "rules_for_keys")

_CAMEL = re.compile(r"_(\w)")
_HUMP = re.compile(r"(?<=[a-z0-9])([A-Z])")
_CAPABILITIES = r"\w*Capabilities"
_TOOL = r"ToolCall(Update|Details|ContentChunk)?"
_SUGGESTED = r"(Nes\w+Suggestion|(Accept|Reject)NesNotification)"


class FieldRule(NamedTuple):
    """The rule that a problem of a field breaks."""

    rule: str
    where: str  # Owner.key
    versions: tuple[int, ...] = (1, 2)
    what: tuple[ProblemKind, ...] = ()  # any, unless said
    path: str = ""
    null: bool | None = None  # only null, or anything but null

    def fits(self, owner: str, key: str, path: str) -> bool:
        return bool(re.fullmatch(self.where, f"{owner}.{key}") and re.search(self.path, path))


_WRONG: tuple[ProblemKind, ...] = ("missing", "type", "value", "bounds")
_NEW: tuple[ProblemKind, ...] = ("variant", "custom")
_V1, _V2 = (1,), (2,)

_ROWS = (
    FieldRule("R-EXT-01", r".*\._meta", what=("type",)),
    # Keys that must not be there.
    FieldRule("R-MSG-05", r"PromptRe(quest|sponse)\.(user)?[mM]essageId", what=("extra",)),
    FieldRule("R-CMD-05", r"UnstructuredCommandInput\.type", _V1, ("extra",)),
    FieldRule("R-MCP-04", r"McpServerStdio\.type", _V1, ("extra",)),
    FieldRule("R-CONF-09", r"SetSessionConfigOptionId\.type", _V1, ("extra",)),
    FieldRule("R-PROV-04", r"Provider(Info|CurrentConfig)\.headers", what=("extra",)),
    FieldRule("R-MODE-06", r"(New|Fork|Resume)SessionResponse\.modes", _V2, ("extra",)),
    FieldRule("R-NES-12", r"(Client|Agent)Capabilities\.(nes|positionEncodings?)", _V2, ("extra",)),
    FieldRule("R-NES-10", rf"{_SUGGESTED}\.suggestionId", _V1, ("extra",)),
    # Initialization.
    FieldRule("R-INIT-04", r"InitializeResponse\.protocolVersion", what=("missing",)),
    FieldRule("R-INIT-10", r"Initialize(Request|Response)\.protocolVersion", what=_WRONG),
    FieldRule("R-INIT-03", r"InitializeRequest\.(clientC|c)apabilities", what=("type",)),
    FieldRule("R-INIT-04", r"InitializeResponse\.(agentC|c)apabilities", what=("type",)),
    FieldRule("R-INIT-19", r".*", _V1, _WRONG, r"^\$\.agentInfo"),
    FieldRule("R-INIT-20", r".*", _V1, _WRONG, r"^\$\.clientInfo"),
    FieldRule("R-INIT-21", r".*", _V2, _WRONG, r"^\$\.info"),
    FieldRule("R-ELIC-01", r"ElicitationCapabilities\.(form|url)", what=("type",)),
    FieldRule("R-INIT-26", rf"{_CAPABILITIES}\.\w+", _V1, ("type",)),
    FieldRule("R-INIT-25", rf"{_CAPABILITIES}\.\w+", _V2, ("type",)),
    # Logging in.
    FieldRule("R-AUTH-22", r"AuthMethodTerminal\.env", _V1, _WRONG),
    FieldRule("R-AUTH-29", r"AuthMethodTerminal\.(args|env)", _V2, _WRONG),
    FieldRule("R-AUTH-29", r"EnvVariable\.\w+", _V2, _WRONG, r"authMethods"),
    FieldRule(
        "R-AUTH-03", r"\w+\.type", _V2, _WRONG, r"authMethods\.type|authMethods\[\d+\]\.type"
    ),
    FieldRule("R-AUTH-01", r"\w+\.(id|methodId|name)", what=_WRONG, path=r"authMethods"),
    # Sessions.
    FieldRule("R-LIST-02", r"ListSessionsResponse\.sessions", what=_WRONG),
    FieldRule(
        "R-SESS-30",
        r"(New|Fork|Resume)SessionResponse\.(configOptions|availableCommands)",
        _V2,
        ("type",),
    ),
    FieldRule("R-SESS-35", r"ResumeSessionRequest\.cwd", _V2, ("missing", "type")),
    FieldRule("R-TITLE-04", r"SetSessionTitleResponse\.title", what=_WRONG),
    FieldRule("R-MCP-11", r"(New|Load)SessionRequest\.mcpServers", _V1, ("missing",)),
    FieldRule("R-MCP-04", r"McpServer\w+\.(args|env|headers)", _V1, _WRONG),
    FieldRule("R-MCP-05", r"\w+\.type", _V2, ("missing", "type"), r"mcpServers\S*\.type"),
    FieldRule("R-SYSP-10", r".*", what=_WRONG, path=r"^\$\.systemPrompt"),
    # Turns.
    FieldRule("R-PROMPT-25", r"PromptRequest\.prompt", _V2, ("bounds",)),
    FieldRule("R-PERM-08", r"RequestPermissionRequest\.options", _V2, ("bounds",)),
    FieldRule("R-PROMPT-04", r"PromptResponse\.stopReason", _V1, ("missing",)),
    FieldRule("R-PROMPT-06", r"PromptResponse\.stopReason", _V1, ("value", "type")),
    FieldRule("R-PROMPT-09", r"PromptResponse\.messageId", _V2, _WRONG),
    FieldRule("R-PROMPT-21", r"Idle\w+\.stopReason|(?!AuthStatus)\w+\.state", _V2, _NEW),
    FieldRule("R-MSG-02", r"(User|Agent)(Message|Thought)(Chunk)?\.messageId", _V2, _WRONG),
    FieldRule("R-USAGE-02", r"UsageUpdate\.(used|size)", what=_WRONG),
    FieldRule("R-USAGE-03", r"Cost\.\w+|UsageUpdate\.cost", what=_WRONG),
    FieldRule("R-NOTICE-02", r"Notice\.(severity|title)", what=_WRONG),
    # Tools and permissions.
    FieldRule("R-TOOL-03", r"ToolCallUpdate\.toolCallId", _V1, _WRONG),
    FieldRule("R-TOOL-17", r"Diff\.\w+", _V1, _WRONG),
    FieldRule("R-TOOL-20", r"Diff\.(changes|operation)", _V2, _WRONG),
    FieldRule("R-TOOL-25", r"Diff(Add|Delete|Modify|Move|Copy)\.(path|oldPath)", _V2, _WRONG),
    FieldRule("R-TOOL-12", r"ToolCall\w*\.(kind|status)", _V2, _NEW),
    FieldRule("R-TOOL-12", rf"{_TOOL}\.type", _V2, _NEW),
    FieldRule("R-GEN-02", r"ToolCallLocation\.line", _V2, ("bounds",)),
    FieldRule("R-PERM-07", r"RequestPermissionRequest\.title", _V2, _WRONG),
    FieldRule("R-PERM-11", r"CommandPermissionSubject\.\w+", _V2, _WRONG),
    FieldRule("R-PERM-16", r"PermissionOption\.kind", _V1, ("value", "missing", "type")),
    FieldRule(
        "R-PERM-04", r"(RequestPermissionResponse|SelectedPermissionOutcome)\.\w*", what=_WRONG
    ),
    FieldRule("R-TERM-02", r"CreateTerminalResponse\.terminalId", _V1, _WRONG),
    FieldRule("R-TERM-07", r"WaitForTerminalExitResponse\.(exitCode|signal)", _V1, _WRONG),
    FieldRule("R-BGW-01", r"\w+State(Update)?\.background", _V2, _WRONG),
    FieldRule("R-BGW-01", r"\w+State(Update)?\.type", _V2, _WRONG, r"background\S*\.type$"),
    FieldRule("R-DTERM-14", r"TerminalExitStatus\.exitCode", _V2, _WRONG),
    # Plans, options, commands.
    FieldRule("R-PLAN-07", r"Plan\w+\.planId", _V2, ("missing", "type")),
    FieldRule("R-PLAN-07", r"PlanUpdate\.type", _V2, _NEW),
    FieldRule("R-PLAN-14", r"PlanItems\.entries", _V2, _WRONG),
    FieldRule(
        "R-CONF-02", r"SetSessionConfigOptionResponse\.configOptions", what=("missing", "type")
    ),
    FieldRule("R-CONF-03", r"ConfigOptionUpdate\.configOptions", what=("missing", "type")),
    FieldRule("R-CONF-01", r"SessionConfig(Select|Boolean)\.currentValue", what=_WRONG),
    FieldRule("R-CONF-17", r"SessionConfigSelect(Group)?\.options", _V2, ("bounds",)),
    FieldRule("R-CONF-09", r"SetSessionConfigOption(Boolean|Id)\.value", _V1, _WRONG),
    FieldRule(
        "R-CONF-10",
        r"SetSessionConfigOption\w*\.type|\.type",
        _V2,
        ("missing", "type"),
        r"^\$\.type$",
    ),
    FieldRule("R-CMD-06", r"\w+\.type", _V2, ("missing", "type"), r"availableCommands[^.]*\.type"),
    FieldRule(
        "R-CMD-04", r"\w+\.type", _V2, ("missing", "type"), r"availableCommands\S*\.input\.type"
    ),
    FieldRule("R-CMD-05", r"UnstructuredCommandInput\.hint", _V1, _WRONG),
    # Elicitation.
    FieldRule("R-ELIC-05", r"Elicitation(Form|Url)Mode\.", what=("keys",)),
    FieldRule("R-ELIC-05", r"(Elicitation(Form|Url)Mode)?\.mode", what=_WRONG, path=r"^\$\.mode$"),
    FieldRule("R-ELIC-05", r"Elicitation\w+\.(sessionId|requestId)", what=_WRONG),
    FieldRule(
        "R-ELIC-07",
        r"ElicitationSchema\.(type|properties)",
        what=_WRONG,
        path=r"requestedSchema\.\w+$",
    ),
    FieldRule("R-ELIC-09", r".*", what=_WRONG, path=r"requestedSchema\.properties"),
    FieldRule(
        "R-ELIC-24",
        r"(Elicitation\w+)?\.(action|content)",
        what=_WRONG,
        path=r"^\$\.(action|content)",
    ),
    FieldRule("R-ELIC-24", r"ElicitationAcceptAction\..*", what=_WRONG),
    # Content.
    FieldRule(
        "R-CONT-05",
        r"\w+\.type",
        _V2,
        _NEW,
        r"(content|prompt|summary)(\[\d+\])?(\.content)?\.type$",
    ),
    FieldRule(
        "R-CONT-01",
        r"(TextContent|ImageContent|AudioContent|ResourceLink|EmbeddedResource"
        r"|TextResourceContents|BlobResourceContents)\.\w+",
        what=_WRONG,
    ),
    FieldRule("R-CONT-01", r"Annotations\.audience", _V1, ("value",)),
    FieldRule(
        "R-CONT-01",
        rf"(?!{_TOOL}\.)\w+\.type",
        what=_WRONG,
        path=r"(content|prompt|summary)(\[\d+\])?(\.content)?\.type$",
    ),
    # Optional families.
    FieldRule("R-NES-10", rf"{_SUGGESTED}\.id", _V1, _WRONG),
    FieldRule(
        "R-NES-13",
        r"(Agent|Client)Capabilities\.positionEncodings?|NesDocumentDidChangeCapabilities\.syncKind"
        r"|SuggestNesRequest\.triggerKind|NesDiagnostic\.severity|RejectNesNotification\.reason",
        _V1,
        _WRONG,
    ),
    FieldRule(
        "R-NES-13",
        r"(Nes\w+|SuggestNesResponse|Position|Range|WorkspaceFolder"
        r"|TextDocumentContentChangeEvent)\.\w*",
        _V1,
        _WRONG,
        r"^\$\.(suggestions|contentChanges|workspaceFolders|context)\b",
    ),
    FieldRule("R-MOA-05", r"MessageMcp(Request|Notification)\.params", what=_WRONG),
    FieldRule("R-MOA-06", r"MessageMcp(Result|Error)\.(result|error)", what=(*_WRONG, "extra")),
    FieldRule("R-MOA-06", r"McpError\.\w+", what=_WRONG, path=r"^\$\.error\."),
    # The rest of what is new in version 2.
    FieldRule("R-MCP-06", r"\w+\.type", _V2, _NEW, r"mcpServers\S*\.type$"),
    FieldRule("R-EXT-09", r".*", _V2, _NEW),
    FieldRule("R-GEN-12", r".*", what=("extra",)),
)
_SPELLED = "R-GEN-07"

FIELD_RULES = frozenset({row.rule for row in _ROWS} | {_SPELLED})


def rule_for_problem(problem: TypeProblem, version: int) -> str | None:
    """Return the rule that a problem breaks; None for what breaks none of these."""
    if problem.what in _NEW and (version == 1 or str(problem.got).startswith("_")):
        return ""  # a value of somebody's own, or one that v1 leaves open
    if _is_misspelled(problem):
        return _SPELLED
    for row in _ROWS:
        if (
            version in row.versions
            and (not row.what or problem.what in row.what)
            and row.fits(problem.owner, problem.key, problem.path)
        ):
            return row.rule
    return None


def _is_misspelled(problem: TypeProblem) -> bool:
    """Tell whether a name is a known one in the spelling of another language."""
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
    """Return the rules that came into play with these keys."""
    return {rule for visit in visits for rule in _rules_at(visit, version)}


@cache
def _rules_at(visit: VisitedKey, version: int) -> frozenset[str]:
    found = {
        row.rule
        for row in _ROWS
        if version in row.versions
        and row.what != ("keys",)
        and row.rule not in ("R-EXT-09", "R-GEN-12")
        and "extra" not in row.what
        and row.fits(*visit)
    }
    if not visit.key:
        found |= {"R-GEN-12", "R-GEN-07"}
        found |= {row.rule for row in _ROWS if version in row.versions and _is_about(row, visit)}
    if version == 2 and visit.key in ("type", "status", "kind", "state", "operation", "severity"):
        found.add("R-EXT-09")
    return frozenset(found)


def _is_about(row: FieldRule, visit: VisitedKey) -> bool:
    """Tell whether an object is one of those that a row about forbidden keys is about."""
    if "extra" not in row.what and row.what != ("keys",):
        return False
    return bool(re.fullmatch(row.where.partition(r"\.")[0], visit.owner))
