"""What the tools of the MCP server take and return, and how a person is asked."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, TypeAlias, TypeVar

import msgspec
from mcp import types
from mcp.server import ServerRequestContext
from msgspec import Meta, Struct

from accord.client.elicitation import ElicitationForm, schema_of_form
from accord.client.events import PermissionRequest
from accord.text.excerpt import one_line, visible
from accord_bridges.gateways.openai_forms import permission_arguments
from accord_bridges.gateways.turns import CallerForm, CallerPage, CallerQuestion, GatewayError

Context: TypeAlias = ServerRequestContext[Any, Any]
Result: TypeAlias = types.CallToolResult | types.InputRequiredResult
Question: TypeAlias = CallerQuestion | CallerForm | CallerPage
T = TypeVar("T")

LISTED = 200  # sessions
_MESSAGE = 4_000  # characters of a question


# The arguments of the tools, and their results.


_Seconds: TypeAlias = Annotated[
    float,
    Meta(ge=0, description="Return after this time, while the turn goes on: see the tool `wait`."),
]
_Limit: TypeAlias = Annotated[int, Meta(ge=1, le=LISTED)]


def _told(description: str) -> Any:
    return Meta(description=description)


class Ask(Struct, forbid_unknown_fields=True):
    """Give a task to an agent, and wait for its answer."""

    prompt: Annotated[str, Meta(min_length=1, description="What the agent shall do, in words.")]
    agent: Annotated[str, _told("The agent of a new session.")] | None = None
    session: Annotated[str, _told("Continue this session; else a new one begins.")] | None = None
    directory: Annotated[str, _told("Where a new session works, an absolute path.")] | None = None
    model: Annotated[str, _told("The model of a new session, one of the agent.")] | None = None
    seconds: _Seconds | None = None


class Answer(Struct, forbid_unknown_fields=True):
    """Answer a question of an agent, and wait for what it does. People decide permissions."""

    session: str
    values: Annotated[Mapping[str, Any], _told("Of the form; left out to decline.")] | None = None
    question: Annotated[str, _told("Its id, if there are several.")] | None = None
    seconds: _Seconds | None = None


class Wait(Struct, forbid_unknown_fields=True):
    """Wait for the turn of a session, and return what it has come to."""

    session: str
    seconds: _Seconds | None = None


class Cancel(Struct, forbid_unknown_fields=True):
    """Cancel what an agent does in a session."""

    session: str


class Sessions(Struct, forbid_unknown_fields=True):
    """List the sessions with agents, those used last first."""

    limit: _Limit | None = None


_STRINGS = {"type": "array", "items": {"type": "string"}}
_TURN_SCHEMA = {
    "type": "object",
    "properties": {
        "session": {"type": "string"},
        "agent": {"type": "string"},
        "state": {"enum": ["completed", "failed", "working", "input_required"]},
        "stop_reason": {"type": ["string", "null"]},
        "text": {"type": "string"},
        "truncated": {"type": "boolean"},
        "changed_files": _STRINGS,
        "rejected": {**_STRINGS, "description": "Actions that were not allowed."},
        "usage": {"type": ["object", "null"]},
        "questions": {"type": "array", "items": {"type": "object"}},
    },
    "required": ["session", "agent", "state", "text", "changed_files", "rejected"],
}
_SESSIONS_SCHEMA = {
    "type": "object",
    "properties": {"sessions": {"type": "array", "items": {"type": "object"}}},
    "required": ["sessions"],
}
# The arguments, the result, and whether the tool only reads.
TOOLS: Mapping[str, tuple[type[Struct], Mapping[str, Any], bool]] = {
    "ask": (Ask, _TURN_SCHEMA, False),
    "wait": (Wait, _TURN_SCHEMA, True),
    "answer": (Answer, _TURN_SCHEMA, False),
    "cancel": (Cancel, _TURN_SCHEMA, False),
    "sessions": (Sessions, _SESSIONS_SCHEMA, True),
}


def input_schema(arguments: type[Struct], agents: list[str]) -> dict[str, Any]:
    [found] = msgspec.json.schema(arguments)["$defs"].values()
    properties: dict[str, Any] = found["properties"]
    for one in properties.values():  # an argument is left out instead of null
        kinds: list[dict[str, Any]] = one.pop("anyOf", [])
        one.update(*(kind for kind in kinds if kind.get("type") != "null"))
        one.pop("default", None)
    if "agent" in properties:
        properties["agent"]["enum"] = agents
    return {
        "type": "object",
        "properties": properties,
        "required": found["required"],
        "additionalProperties": False,
    }


def read(given: Mapping[str, Any] | None, kind: type[T]) -> T:
    """Read the arguments of a tool. Raises `GatewayError`."""
    try:
        return msgspec.convert({k: v for k, v in (given or {}).items() if v is not None}, kind)
    except msgspec.ValidationError as error:
        raise GatewayError(str(error)) from None


def text_content(text: str) -> types.TextContent:
    return types.TextContent(type="text", text=text)


def failed(text: str) -> types.CallToolResult:
    return types.CallToolResult(content=[text_content(text)], is_error=True)


# Questions to the person at the client.


def form_schema(form: ElicitationForm) -> dict[str, Any]:
    """Return the schema of a form, in the words that MCP allows."""
    schema = schema_of_form(form)
    properties: dict[str, dict[str, Any]] = schema["properties"]
    for field in properties.values():
        field.pop("pattern", None)
        if field.get("format") not in ("email", "uri", "date", "date-time"):
            field.pop("format", None)
    required: list[str] = schema.get("required", [])
    return {"type": "object", "properties": properties, "required": required}


def _option_names(request: PermissionRequest) -> dict[str, str]:
    """Return the ids of the options by names that differ."""
    found: dict[str, str] = {}
    for option in request.options:
        name = one_line(option.name or option.kind, 80)
        found[name if name not in found else f"{name} ({option.id})"] = option.id
    return found


def _permission_message(agent: str, request: PermissionRequest) -> str:
    about = permission_arguments(request)
    parts = [f"The agent {agent} asks for permission: {request.title or request.command}"]
    parts += (str(about[name]) for name in ("description", "command") if name in about)
    if paths := about.get("paths"):
        parts.append("Files: " + ", ".join(paths))
    parts += (one["patch"] for one in about.get("diffs", ()))
    return "\n".join(parts)


def _shortened(message: str) -> str:
    """Return a message, cut if it is long. Its end says how many characters are missing."""
    left_out = len(message) - _MESSAGE
    if left_out <= 0:
        return message
    return f"{message[:_MESSAGE]}\n… {left_out:,} more characters, not shown"


def elicitation(agent: str, question: Question) -> types.ElicitRequest:
    """Return the form that asks a person, or the URL that the person shall open."""
    if isinstance(question, CallerPage):
        page = question.page
        message = f"The agent {agent} asks you to open a URL: {page.message}"
        return types.ElicitRequest(
            params=types.ElicitRequestURLParams(
                message=_shortened(visible(message)), url=page.url, elicitation_id=question.id
            )
        )
    if isinstance(question, CallerForm):
        message = f"The agent {agent} asks: {question.form.message}"
        schema = form_schema(question.form)
    else:
        message = _permission_message(agent, question.request)
        names = [*_option_names(question.request)]
        decision = {"type": "string", "title": "Decision", "enum": names}
        schema = {"type": "object", "properties": {"decision": decision}, "required": ["decision"]}
    return types.ElicitRequest(
        params=types.ElicitRequestFormParams(
            message=_shortened(visible(message)), requested_schema=schema
        )
    )


def answer_in(question: Question, given: object) -> Any:
    """Return the values or the id of the option that a person has chosen; what is none declines.

    For a URL, return whether the person opens it.
    """
    if isinstance(question, CallerPage):
        return isinstance(given, types.ElicitResult) and given.action == "accept"
    if not isinstance(given, types.ElicitResult) or given.action != "accept":
        return None
    content = given.content or {}
    if isinstance(question, CallerForm):
        return {name: value for name, value in content.items() if value is not None}
    return _option_names(question.request).get(str(content.get("decision")))


def can_elicit(context: Context) -> bool:
    """Whether the client asks its person to fill in forms."""
    found = context.session.client_capabilities
    form = None if found is None else found.elicitation
    return form is not None and (form.form is not None or form.url is None)


def can_visit(context: Context) -> bool:
    """Whether the client asks its person to open URLs."""
    found = context.session.client_capabilities
    return found is not None and found.elicitation is not None and found.elicitation.url is not None
