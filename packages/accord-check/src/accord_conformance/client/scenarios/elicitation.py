"""Forms with every kind of field, unknown and malformed ones, and a declined URL."""

from __future__ import annotations

from typing import Any

from accord.text.lenient_json import is_array, is_object
from accord_conformance.client.context import ClientContext, Json, describe_outcome
from accord_conformance.client.web_server import WebServer
from accord_conformance.harness.raw_connection import NoResponse
from accord_conformance.harness.scenario import NotExercised, scenario
from accord_conformance.traffic.message import Request

_ASK = "elicitation/create"
_ALL: Json = {
    "name": {"type": "string", "title": "Name", "minLength": 1, "maxLength": 40},
    "mail": {"type": "string", "format": "email", "default": "a@example.com"},
    "count": {"type": "integer", "minimum": 1, "maximum": 9, "default": 3},
    "share": {"type": "number", "minimum": 0, "maximum": 1, "default": 0.5},
    "sure": {"type": "boolean", "default": True},
    "color": {"type": "string", "enum": ["red", "blue"], "default": "red"},
    "size": {
        "type": "string",
        "oneOf": [{"const": "s", "title": "Small"}, {"const": "l", "title": "Large"}],
    },
    "days": {
        "type": "array",
        "items": {"type": "string", "enum": ["mon", "tue"]},
        "minItems": 1,
        "maxItems": 2,
    },
}
_TYPES: dict[str, tuple[type, ...]] = {
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "array": (list,),
}


@scenario("elicitation/fields", "R-ELIC-17", "R-ELIC-20", "R-ELIC-33")
async def _fields(context: ClientContext) -> None:
    """Requests a form with all kinds of fields, also with unknown ones."""
    _offered(context)
    context.say("Please fill in the forms as you like, or decline them.")
    call = _form(context, "All kinds of fields", _ALL, required=["name", "days"])
    await context.wait_for_person(call)
    given = _given(call)
    if given is not None:
        wrong = _misfit(_ALL, ("name", "days"), given)
        expected = "valid values"
        context.judge("R-ELIC-17", not wrong, call, expected=expected, got=wrong)
    await _unknown(context)


async def _unknown(context: ClientContext) -> None:
    if context.version == 2:  # the schema of version 1 has a closed list of formats
        odd = {"name": {"type": "string", "format": "accord-later", "default": "some"}}
        call = _form(context, "An unknown format", odd)
        await context.expect_success("R-ELIC-20", call, "a text of an unknown format")
    odd = {"name": {"type": "string"}, "dial": {"type": "_accord_dial", "default": "5"}}
    call = _form(context, "An unknown field", odd)
    await context.wait_for_person(call)
    given = _given(call)
    if given is not None:
        context.judge(
            "R-ELIC-33",
            "dial" not in given,
            call,
            expected="no value for a field of an unknown type",
            got=f"the value {given.get('dial')!r}",
        )


@scenario("elicitation/minimal-schema", "R-ELIC-08")
async def _wrong(context: ClientContext) -> None:
    """Requests a form with a minimal schema, and an elicitation in an unknown mode."""
    _offered(context)
    params = context.session_params(
        mode="form", message="A form without a type", requestedSchema={}
    )
    if context.version == 1:
        call = context.connection.send_request(_ASK, params)
        await context.expect_success("R-ELIC-08", call, "a form without `type` and `properties`")
    else:
        call = context.connection.send_request(_ASK, params)
        why = "a form without `type` and `properties`"
        await context.expect_error("R-ELIC-08", call, -32602, why, code_authority="derived")
    later = context.session_params(mode="_accord_later", message="In an unknown mode")
    call = context.connection.send_request(_ASK, later)
    try:
        await context.connection.wait_for_response(call)  # observed
    except NoResponse:
        context.cancel_request(call)


@scenario("elicitation/pattern", "R-ELIC-19")
async def _pattern(context: ClientContext) -> None:
    """Requests a text with a pattern that takes some programs forever."""
    _offered(context)
    hard = {"type": "string", "pattern": "^(a+)+$", "default": "a" * 40 + "!"}
    context.say("Please send the next form as it is, or decline it.")
    call = _form(context, "A hard pattern", {"text": hard})
    alive = await context.agent.is_alive()
    if alive:
        try:
            await context.wait_for_person(call)
        except NotExercised:
            if await context.agent.is_alive():
                raise
        alive = await context.agent.is_alive()
    got = "it no longer responds"
    expected = "a client that still responds while it matches a hard pattern"
    context.judge("R-ELIC-19", alive, call, expected=expected, got=got)


@scenario("elicitation/url", "R-ELIC-13", "R-ELIC-30")
async def _page(context: ClientContext) -> None:
    """Requests to open a URL, which the user declines, and completes unknown elicitations."""
    sent = context.send_notification("elicitation/complete", {"elicitationId": "never asked"})
    await context.expect_alive("R-ELIC-30", "the completion of an unknown elicitation", sent)
    context.require(
        context.supports("elicitation", "url"), "the client does not support URL elicitation"
    )
    async with WebServer() as server:
        context.say("Please decline to open the next URL.")
        ident = f"{context.session.id}-page"
        params = context.session_params(mode="url", message="Decline this URL", elicitationId=ident)
        call = context.connection.send_request(_ASK, {**params, "url": f"{server.address}/page"})
        await context.wait_for_person(call)
        context.require(_action(call) in ("decline", "cancel"), "the URL was not declined")
        asked = await server.wait_for_visits(within_s=0.3)
        context.judge(
            "R-ELIC-13",
            not asked,
            call,
            expected="no request to a URL that the user declined",
            got=f"a request for {', '.join(asked)}",
        )
        sent = context.send_notification("elicitation/complete", {"elicitationId": ident})
        await context.expect_alive("R-ELIC-30", "the completion of a declined elicitation", sent)


def _offered(context: ClientContext) -> None:
    context.require(
        context.supports("elicitation", "form"), "the client does not support form elicitation"
    )


def _form(
    context: ClientContext, message: str, properties: Json, required: list[str] | None = None
) -> Request:
    schema: Json = {"type": "object", "properties": properties}
    if required is not None:
        schema["required"] = required
    return context.connection.send_request(
        _ASK, context.session_params(mode="form", message=message, requestedSchema=schema)
    )


def _action(call: Request) -> Any:
    return call.result.get("action") if is_object(call.result) else describe_outcome(call)


def _given(call: Request) -> Json | None:
    """Return the values of a form, None if it was not accepted."""
    if _action(call) != "accept":
        return None
    content = call.result.get("content")
    return content if is_object(content) else {}


def _misfit(properties: Json, required: tuple[str, ...], given: Json) -> str:
    """Return why the values do not fit, or an empty text."""
    for name in required:
        if name not in given:
            return f"{name} is missing"
    for name, value in given.items():
        schema = properties.get(name)
        if schema is None:
            return f"{name} is not in the form"
        if not _fits(schema, value):
            return f"{name} is {value!r}"
    return ""


def _fits(schema: Json, value: Any) -> bool:
    kind = schema["type"]
    if not isinstance(value, _TYPES[kind]) or (isinstance(value, bool) and kind != "boolean"):
        return False
    if is_array(value):
        allowed = schema["items"]["enum"]
        few, most = schema["minItems"], schema["maxItems"]
        return few <= len(value) <= most and all(one in allowed for one in value)
    if isinstance(value, str):
        one_of = [option["const"] for option in schema.get("oneOf", ())]
        if (allowed := schema.get("enum", one_of)) and value not in allowed:
            return False
        return schema.get("minLength", 0) <= len(value) <= schema.get("maxLength", 10**9)
    if isinstance(value, bool):
        return True
    return schema.get("minimum", value) <= value <= schema.get("maximum", value)


SCENARIOS = (_fields, _wrong, _pattern, _page)
