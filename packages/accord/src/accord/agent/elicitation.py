"""Elicitation: the user fills in a form made from a msgspec Struct, or opens a web page."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from accord.agent.tool_call import BaseToolCall, current_tool_call
from accord.errors import RemoteProtocolError

if TYPE_CHECKING:
    from accord.agent.session_core import SessionCore


F = TypeVar("F", bound=msgspec.Struct)

MAX_URL_CHARS = 8192  # the limit of browsers and servers

_SCHEMA_KEYS = {
    "string": ("minLength", "maxLength", "pattern", "format", "enum"),
    "integer": ("minimum", "maximum"),
    "number": ("minimum", "maximum"),
    "boolean": (),
    "array": ("minItems", "maxItems"),
}


class UrlElicitation:
    """An elicitation by URL that the user has agreed to."""

    def __init__(self, core: SessionCore, elicitation_id: str) -> None:
        self._core = core
        self.id = elicitation_id

    async def done(self) -> None:
        """Report that the user has completed it on the web page."""
        await self._core.client_adapter.complete_elicitation(self.id)


async def elicit_form(core: SessionCore, form: type[F], message: str) -> F | None:
    """See `SessionActions.elicit_form`."""
    schema = form_schema(form)
    call = current_tool_call(core)
    async with core.waiting_for_user(detached=_is_detached(core, call)):
        answer = await core.client_adapter.elicit_form(
            core.id, message, schema, None if call is None else call.id
        )
    if answer is None:
        return None
    try:
        return msgspec.convert(answer, form)  # R-ELIC-18
    except msgspec.ValidationError as exc:
        raise RemoteProtocolError(f"The answer does not fit the form: {exc}", raw=answer) from exc


def _is_detached(core: SessionCore, call: BaseToolCall | None) -> bool:
    if call is not None:
        return call.is_in_background
    turn = core.turn_here()
    return turn is None or turn.is_over


async def elicit_url(core: SessionCore, url: str, message: str) -> UrlElicitation | None:
    """See `SessionActions.elicit_url`."""
    if len(url) > MAX_URL_CHARS:
        raise ValueError(f"elicit_url(url=…): {len(url)} characters, the limit is {MAX_URL_CHARS}")
    call = current_tool_call(core)
    elicitation_id = f"{core.id}-{core.next_id('elicitation')}"  # R-ELIC-28
    async with core.waiting_for_user(detached=_is_detached(core, call)):
        agreed = await core.client_adapter.elicit_url(
            core.id, message, url, elicitation_id, None if call is None else call.id
        )
    return UrlElicitation(core, elicitation_id) if agreed else None


def form_schema(form: type[msgspec.Struct]) -> dict[str, Any]:
    """Return the schema of a form; raise TypeError for a field that forms do not support."""
    (described,), _ = msgspec.json.schema_components([form], ref_template="{name}")
    components: dict[str, Any] = _[described["$ref"]]
    properties = {
        name: _property(name, schema) for name, schema in components["properties"].items()
    }
    schema: dict[str, Any] = {"type": "object", "properties": properties}
    if required := components.get("required"):
        schema["required"] = required
    return schema


def _property(name: str, schema: dict[str, Any]) -> dict[str, Any]:
    choices = [part for part in schema.get("anyOf", ()) if part.get("type") != "null"]
    if len(choices) == 1:  # None means "not filled in"
        schema = {**schema, **choices[0]}
    kind = schema.get("type", "string" if "enum" in schema else None)
    values: list[Any] = schema.get("enum", [])
    if kind not in _SCHEMA_KEYS or not all(isinstance(value, str) for value in values):
        raise TypeError(f"{name}: a form has no field for {schema}")
    found: dict[str, Any] = {
        "type": kind,
        "title": schema.get("title", name.replace("_", " ").capitalize()),
    }
    for key in ("description", *_SCHEMA_KEYS[kind]):
        if key in schema:
            found[key] = schema[key]
    if kind == "integer":  # forms have closed bounds only
        if "exclusiveMinimum" in schema:
            found["minimum"] = schema["exclusiveMinimum"] + 1
        if "exclusiveMaximum" in schema:
            found["maximum"] = schema["exclusiveMaximum"] - 1
    if kind == "array":
        items = schema.get("items", {}).get("enum")
        if not items or not all(isinstance(value, str) for value in items):
            raise TypeError(f"{name}: a list in a form is a list of Literals")
        found["items"] = {"type": "string", "enum": items}
    if schema.get("default") is not None:
        found["default"] = schema["default"]
    return found
