"""What both forms of the OpenAI API share: content, tools, permissions, models, JSON, errors."""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from itertools import islice
from typing import Any, TypeAlias, TypeVar

import msgspec
from msgspec import Struct

from accord import ContentBlock, EmbeddedResource, ImageContent, ResourceLink
from accord.client.events import PermissionRequest, Text, ToolCall
from accord.errors import AuthRequired, RequestError
from accord.text import lenient_json
from accord.types.content import AudioContent
from accord.types.diffs import git_patch
from accord.types.tool_calls import Diff
from accord_bridges.gateways.app import Request
from accord_bridges.gateways.caller_tools import CallerTool
from accord_bridges.gateways.turns import (
    AgentSessions,
    CallerCall,
    CallerQuestion,
    Conversation,
    Exchange,
    GatewayError,
)

PERMISSION_TOOL = "acp_permission"
_SESSION_HEADER = "acp-session-id"
_CWD_HEADER = "acp-cwd"

_TYPES = {
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    429: "rate_limit_error",
}

T = TypeVar("T")


def error_body(error: GatewayError) -> dict[str, Any]:
    """Return an error in OpenAI's form."""
    kind = _TYPES.get(
        error.status, "server_error" if error.status >= 500 else "invalid_request_error"
    )
    return {
        "error": {
            "message": str(error),
            "type": kind,
            "param": error.param,
            "code": error.code or ("invalid_api_key" if error.status == 401 else None),
        }
    }


def read(body: bytes, kind: type[T]) -> T:
    """Decode a body; unknown fields are ignored. Raises `GatewayError` that names the place."""
    try:
        return msgspec.json.decode(body, type=kind)
    except msgspec.ValidationError as error:
        text, _, place = str(error).partition(" - at ")
        name = place.strip("`").removeprefix("$.") or None
        raise GatewayError(text if name is None else f"{name}: {text}", param=name) from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise GatewayError(f"Expected a JSON object: {error}") from None


def failure(exchange: Exchange) -> GatewayError | None:
    """Return why a turn failed, as the caller reads it."""
    error = exchange.error
    if error is None or isinstance(error, GatewayError):
        return error
    name = exchange.conversation.record.agent
    if isinstance(error, AuthRequired) or (
        isinstance(error, RequestError) and error.code == AuthRequired.default_code
    ):
        return GatewayError(
            f"The agent {name} needs a login on the machine of the gateway:"
            f" `accord agents login {name}`",
            status=503,
            code="agent_needs_login",
        )
    return GatewayError(f"The agent {name} failed: {error}", status=502, code="agent_failed")


# Content.


class Part(Struct):
    """A part of a message, of both forms."""

    type: str
    text: str = ""
    image_url: Any = None
    input_audio: Mapping[str, Any] | None = None
    file: Mapping[str, Any] | None = None
    file_data: str | None = None
    file_url: str | None = None
    filename: str | None = None


Content: TypeAlias = str | list[Part] | None


def text_of(content: Content) -> str:
    """Return the text of a message, with a hash for each part that is none."""
    if content is None or isinstance(content, str):
        return content or ""
    return "\n".join(
        part.text
        if part.type in ("text", "input_text", "output_text")
        else f"[{part.type} {hashlib.sha256(msgspec.json.encode(part)).hexdigest()[:16]}]"
        for part in content
    )


def blocks_of(content: Content, where: str) -> list[ContentBlock]:
    """Return the content blocks of a message. Raises `GatewayError` for a part that is broken."""
    if content is None:
        return []
    if isinstance(content, str):
        return [content] if content else []
    found: list[ContentBlock] = []
    for number, part in enumerate(content):
        place = f"{where}[{number}]"
        match part.type:
            case "text" | "input_text" | "output_text":
                if part.text:
                    found.append(part.text)
            case "image_url" | "input_image":
                url: Any = part.image_url
                if lenient_json.is_object(url):
                    url = url.get("url")
                found.append(_image(url, f"{place}.image_url"))
            case "input_audio":
                given = part.input_audio or {}
                data = _decoded(given.get("data"), f"{place}.input_audio.data")
                found.append(AudioContent(data, f"audio/{given.get('format', 'wav')}"))
            case "file" | "input_file":
                found.append(_file(part, place))
            case other:
                raise GatewayError(
                    f"{place}: expected a part of type text, image_url, input_audio or file, got"
                    f" {other!r}",
                    param=place,
                )
    return found


_SIGNATURES = {
    b"\x89PNG\r\n\x1a\n": "image/png",
    b"\xff\xd8\xff": "image/jpeg",
    b"GIF8": "image/gif",
    b"RIFF": "image/webp",
}


def image_type(data: bytes) -> str | None:
    """Return the media type of an image that agents can see; None for other bytes."""
    return next((kind for head, kind in _SIGNATURES.items() if data.startswith(head)), None)


def _image(url: Any, where: str) -> ContentBlock:
    if not isinstance(url, str) or not url:
        raise GatewayError(f"{where}: expected a URL of an image", param=where)
    if not url.startswith("data:"):
        return ResourceLink(url, url.rpartition("/")[2] or "image")  # the agent may fetch it
    _, data = _data_url(url, where)
    kind = image_type(data)
    if kind is None:
        raise GatewayError(
            f"{where}: expected a PNG, JPEG, GIF or WebP image, got {len(data)} other bytes",
            param=where,
            code="invalid_image",
        )
    return ImageContent(data, kind)


def _file(part: Part, where: str) -> ContentBlock:
    given: Mapping[str, Any] = part.file or {}
    name = given.get("filename") or part.filename or "file"
    data: Any = given.get("file_data") or part.file_data
    if data is None:
        if part.file_url is not None:
            return ResourceLink(part.file_url, str(name))
        raise GatewayError(
            f"{where}: expected file_data; files that were uploaded elsewhere are not known here",
            param=where,
        )
    if not isinstance(data, str):
        raise GatewayError(
            f"{where}: expected file_data as a text, got {type(data).__name__}", param=where
        )
    if data.startswith("data:"):
        kind, content = _data_url(data, where)
    else:
        kind, content = "application/octet-stream", _decoded(data, where)
    if kind.startswith("text/") or kind in ("application/json", "application/xml"):
        try:
            return EmbeddedResource(f"file:///{name}", content.decode(), mime_type=kind)
        except UnicodeDecodeError:
            pass
    return EmbeddedResource(f"file:///{name}", content, mime_type=kind)


def _data_url(url: str, where: str) -> tuple[str, bytes]:
    head, comma, data = url.partition(",")
    kind, _, coding = head.removeprefix("data:").partition(";")
    if not comma or coding != "base64":
        raise GatewayError(f"{where}: expected data:TYPE;base64,DATA", param=where)
    return kind or "application/octet-stream", _decoded(data, where)


def _decoded(data: Any, where: str) -> bytes:
    try:
        return base64.b64decode(data, validate=True)
    except (binascii.Error, TypeError, ValueError):
        raise GatewayError(f"{where}: expected base64", param=where) from None


# Tools and permissions.


class Function(Struct):
    """A function that the caller runs."""

    name: str
    description: str | None = None
    parameters: Mapping[str, Any] | None = None


def caller_tools(functions: Sequence[Function], choice: Any) -> tuple[list[CallerTool], bool]:
    """Return the tools of the caller, and whether it decides permissions."""
    if choice == "none":
        return [], False
    asks = any(one.name == PERMISSION_TOOL for one in functions)
    tools = [
        CallerTool(one.name, one.description or "", one.parameters or {})
        for one in functions
        if one.name != PERMISSION_TOOL
    ]
    return tools, asks


def call_of(item: CallerCall | CallerQuestion) -> tuple[str, str, str]:
    """Return the id, the name and the arguments of a function call, as JSON."""
    if isinstance(item, CallerCall):
        return item.id, item.name, json.dumps(item.arguments, ensure_ascii=False)
    arguments = json.dumps(permission_arguments(item.request), ensure_ascii=False)
    return item.id, PERMISSION_TOOL, arguments


def permission_arguments(request: PermissionRequest) -> dict[str, Any]:
    """Return what a caller has to know to decide a permission request."""
    call = request.tool_call
    found: dict[str, Any] = {
        "title": request.title,
        "description": request.description,
        "command": request.command,
        "kind": None if call is None else call.kind,
        "paths": [] if call is None else [place.path for place in call.locations],
        "diffs": []
        if call is None
        else [
            {
                "path": part.path,
                "patch": part.patch or git_patch(part.path, part.old, part.new),
            }
            for part in call.content
            if isinstance(part, Diff)
        ],
        "options": [{"id": one.id, "name": one.name, "kind": one.kind} for one in request.options],
    }
    return {name: value for name, value in found.items() if value not in (None, [])}


def answer_of(output: Content | Mapping[str, Any]) -> str:
    """Return the result of a function as text; that of a permission may be an object."""
    if isinstance(output, Mapping):
        return json.dumps(output)
    text = text_of(output)
    with_option = text.strip().startswith("{") and '"option' in text
    if with_option:
        try:
            given = json.loads(text)
            return str(given.get("option_id") or given.get("option") or text)
        except (ValueError, AttributeError):
            return text
    return text


# Models and sessions.


def agent_and_model(sessions: AgentSessions, name: str) -> tuple[str, str | None]:
    """Return the agent and its model for AGENT or AGENT/MODEL."""
    if name in sessions.agents:
        return name, None
    for agent in sessions.agents:
        if name.startswith(f"{agent}/"):
            return agent, name.removeprefix(f"{agent}/") or None
    known = ", ".join(sessions.agents)
    raise GatewayError(
        f"The model {name[:100]!r} does not exist here: expected AGENT or AGENT/MODEL, of {known}",
        status=404,
        code="model_not_found",
        param="model",
    )


class Place(Struct):
    """Where a request wants to continue or work, by its headers or its metadata."""

    session: str | None
    cwd: str | None

    @classmethod
    def of(
        cls, request: Request, metadata: Mapping[str, Any] | None, where: str = "metadata"
    ) -> Place:
        """Read a request, whose metadata is at `where`. Raises `GatewayError`."""

        def wanted(header: str, name: str) -> str | None:
            found: Any = request.header(header) or (metadata or {}).get(name)
            if found is None or (isinstance(found, str) and "\0" not in found):
                return found
            place = f"{where}.{name}"
            got = "one with a NUL" if isinstance(found, str) else type(found).__name__
            raise GatewayError(f"{place}: expected a text, got {got}", param=place)

        return cls(wanted(_SESSION_HEADER, "session_id"), wanted(_CWD_HEADER, "cwd"))


def session_headers(conversation: Conversation) -> tuple[tuple[str, str], ...]:
    """Return the headers of a response that name its session."""
    return ((_SESSION_HEADER, conversation.id),)


def with_transcript(
    turns: Sequence[tuple[str, str]], content: Sequence[ContentBlock]
) -> list[ContentBlock]:
    """Return the first prompt of a session whose caller has a conversation already."""
    system = "\n\n".join(text for role, text in turns if role == "system")
    said = [(role, text) for role, text in turns if role != "system"]
    parts: list[str] = []
    if system:
        parts.append(f"Instructions of the caller:\n\n{system}")
    if said:
        names = {"user": "User", "assistant": "You"}
        lines = "\n\n".join(f"{names.get(role, role)}: {text}" for role, text in said)
        parts.append(f"The conversation so far, of which you do not know the details:\n\n{lines}")
    if not parts:
        return [*content]
    return ["\n\n---\n\n".join(parts) + "\n\n---\n\n", *content]


def head_of(turns: Sequence[tuple[str, str]]) -> bytes:
    """Return the hash of a transcript."""
    return hashlib.sha256(msgspec.json.encode(turns)).digest()


# JSON output.

_FENCE = re.compile(r"```(?:json)?\s*\n(.*?)\n\s*```", re.DOTALL)


_REFERENCES = 10_000  # that are followed for one answer: they can double at each level
# What jsonschema raises for some wrong $schema, $id, old keywords, and references without an end.
_UNUSABLE = (AttributeError, RecursionError, TypeError, ValueError)


class JsonOutput(Struct):
    """The form that the caller wants of the answer; without a schema, any JSON object.

    The schema is the caller's, and answers are checked in the event loop: no reference is fetched,
    and no regular expression runs.
    """

    schema: dict[str, Any] | None
    where: str = "response_format"

    @classmethod
    def of(cls, given: Mapping[str, Any] | None, where: str) -> JsonOutput | None:
        """Read `response_format`. Raises `GatewayError` for a schema that is none."""
        kind = (given or {}).get("type", "text")
        if kind == "text":
            return None
        if kind == "json_object":
            return cls(None, where)
        if kind != "json_schema":
            raise GatewayError(
                f"{where}.type: expected text, json_object or json_schema, got {kind!r}",
                param=where,
            )
        assert given is not None
        inner: Any = given.get("json_schema", given)
        schema: Any = inner.get("schema") if lenient_json.is_object(inner) else None
        if not lenient_json.is_object(schema):
            raise _no_schema(where, f"got {type(schema).__name__}")
        from jsonschema import SchemaError
        from jsonschema.validators import validator_for
        from referencing.exceptions import Unresolvable

        try:
            validator_for(schema).check_schema(schema)
            _check_references(schema)
        except SchemaError as error:
            raise _no_schema(where, error.message) from None
        except Unresolvable as error:
            raise _unresolvable(where, error) from None
        except _UNUSABLE as error:
            raise _no_schema(where, f"one that ends in {type(error).__name__}") from None
        return cls(schema, where)

    def request(self) -> str:
        """Return the words that ask the agent for it."""
        if self.schema is None:
            return "Answer with one JSON object and nothing else."
        return "Answer with JSON that matches this JSON schema, and nothing else:\n" + json.dumps(
            self.schema, ensure_ascii=False
        )

    def read(self, text: str) -> str:
        """Return the JSON of an answer.

        Raises `ValueError` with what is wrong, or `GatewayError` for a schema that has no answer.
        """
        found = _FENCE.search(text)
        inner = found.group(1) if found else text
        try:
            value = json.loads(inner)
        except RecursionError:
            raise ValueError("expected JSON with fewer levels") from None
        if self.schema is None:
            if not isinstance(value, dict):
                raise ValueError(f"expected a JSON object, got {type(value).__name__}")
            return inner.strip()
        from referencing.exceptions import Unresolvable

        try:
            errors = [
                f"{one.json_path}: {one.message}"
                for one in islice(_validator(self.schema, self.where).iter_errors(value), 5)
            ]
        except Unresolvable as error:
            raise _unresolvable(self.where, error) from None
        except _UNUSABLE as error:
            raise _no_schema(self.where, f"one that ends in {type(error).__name__}") from None
        if errors:
            raise ValueError("; ".join(errors))
        return inner.strip()


def _no_schema(where: str, got: str) -> GatewayError:
    return GatewayError(f"{where}: expected a JSON schema: {got[:500]}", param=where)


def _unresolvable(where: str, error: Any) -> GatewayError:
    return GatewayError(
        f"{where}: expected references into the schema itself, got $ref {str(error.ref)[:200]!r}:"
        " nothing is fetched",
        param=where,
    )


def _check_references(schema: dict[str, Any]) -> None:
    """Raise `Unresolvable` for a reference that leads out of the schema."""
    from referencing import Registry
    from referencing.jsonschema import DRAFT202012

    root = DRAFT202012.create_resource(schema)
    places = [(Registry[Any]().resolver_with_root(root), root)]
    while places:
        resolver, resource = places.pop()
        contents: Any = resource.contents
        if lenient_json.is_object(contents):
            for name in ("$ref", "$dynamicRef"):
                if isinstance(contents.get(name), str):
                    resolver.lookup(contents[name])
        places += ((resolver.in_subresource(one), one) for one in resource.subresources())


def _validator(schema: dict[str, Any], where: str) -> Any:
    """Return what checks an answer, in bounded time and without a look at anything else."""
    from jsonschema import validators
    from referencing import Registry

    make: Any = validators
    kind = make.validator_for(schema)
    known: Mapping[str, Any] = kind.VALIDATORS
    followed = 0

    def reference(name: str) -> Any:
        def check(validator: Any, ref: Any, instance: Any, inside: Any) -> Any:
            nonlocal followed
            followed += 1
            if followed > _REFERENCES:
                raise _no_schema(where, f"it needs more than {_REFERENCES} references")
            return known[name](validator, ref, instance, inside)

        return check

    def others(validator: Any, wanted: Any, instance: Any, inside: Any) -> Any:
        if "patternProperties" not in inside:  # they say which properties are others
            yield from known["additionalProperties"](validator, wanted, instance, inside)

    def unchecked(*_: Any) -> tuple[()]:
        return ()

    # The last two run the patterns as well, and follow references on their own.
    left_out = (
        "pattern",
        "patternProperties",
        "format",
        "unevaluatedProperties",
        "unevaluatedItems",
    )
    names = [name for name in ("$ref", "$dynamicRef", "$recursiveRef") if name in known]
    changed = {
        **dict.fromkeys(left_out, unchecked),
        "additionalProperties": others,
        **{name: reference(name) for name in names},
    }
    return make.extend(kind, changed)(schema, registry=Registry[Any]())


async def json_answer(
    text: str, output: JsonOutput, exchange: Exchange, request: Request
) -> tuple[str, Exchange]:
    """Return the JSON of an answer, and the turn that gave it.

    An answer that is wrong is asked for once more, with what is wrong. Raises `GatewayError`.
    """
    try:
        return output.read(text), exchange
    except ValueError as error:
        wrong = str(error)
    again = f"That was not what was asked for: {wrong}\n\n{output.request()}"
    exchange = exchange.conversation.start([again])
    parts: list[str] = []
    async with request.until_gone(exchange.cancel):
        async for found in exchange.happenings():
            parts += (item.text for item in found if type(item) is Text)
    if (failed := failure(exchange)) is not None:
        raise failed
    text = "".join(parts)
    try:
        return output.read(text), exchange
    except ValueError as error:
        raise GatewayError(
            f"The agent did not answer in the form that was asked for: {error}. It said:"
            f" {text[:2000]}",
            status=422,
            code="invalid_output",
            param=output.where,
        ) from None


def tool_line(call: ToolCall) -> str:
    """Return a line about a tool call that has just ended; else an empty text."""
    if not call.is_final or "status" not in call.changed:
        return ""
    return f"\n\n`{call.title or call.name}`: {call.status}\n\n"


def usage_of(exchange: Exchange) -> dict[str, Any] | None:
    """Return the tokens of a turn, as chat completions report them; None if none are known."""
    used = exchange.usage
    if used is None:
        return None
    found: dict[str, Any] = {
        "prompt_tokens": used.input,
        "completion_tokens": used.output,
        "total_tokens": used.total,
    }
    if used.cached_read is not None:
        found["prompt_tokens_details"] = {"cached_tokens": used.cached_read}
    if used.thought is not None:
        found["completion_tokens_details"] = {"reasoning_tokens": used.thought}
    return found
