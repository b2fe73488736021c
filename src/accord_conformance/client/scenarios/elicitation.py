"""Forms and web pages: every kind of field, odd ones, wrong ones, and a page not to be opened."""

from __future__ import annotations

from typing import Any

from accord.text.lenient_json import is_array, is_object
from accord_conformance.client.context import ClientContext, Json, describe_outcome
from accord_conformance.client.web_server import WebServer
from accord_conformance.harness.raw_connection import NoResponse
from accord_conformance.harness.scenario import NotExercised, scenario
from accord_conformance.traffic.message import Request

__all__ = ("SCENES",)

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


@scenario("forms/fields", "R-ELIC-17", "R-ELIC-20", "R-ELIC-33")
async def _fields(scene: ClientContext) -> None:
    """Asks for everything that a form may have, and for what only later versions have."""
    _offered(scene)
    scene.say("Please fill in the forms as you like, or decline them.")
    call = _form(scene, "All kinds of fields", _ALL, required=["name", "days"])
    await scene.wait_for_person(call)
    given = _given(call)
    if given is not None:
        wrong = _misfit(_ALL, ("name", "days"), given)
        expected = "values that fit the form"
        scene.judge("R-ELIC-17", not wrong, call, expected=expected, got=wrong)
    if scene.version == 2:  # the schema of version 1 closes both
        await _unknown(scene)


async def _unknown(scene: ClientContext) -> None:
    odd = {"name": {"type": "string", "format": "accord-later", "default": "some"}}
    call = _form(scene, "A format that nobody knows", odd)
    await scene.expect_success("R-ELIC-20", call, "a text of an unknown format")
    odd = {"name": {"type": "string"}, "dial": {"type": "_accord_dial", "default": "5"}}
    call = _form(scene, "A field that nobody knows", odd)
    await scene.wait_for_person(call)
    given = _given(call)
    if given is not None:
        scene.judge(
            "R-ELIC-33",
            "dial" not in given,
            call,
            expected="no value for a field of an unknown type",
            got=f"a value for it, {given.get('dial')!r}",
        )


@scenario("forms/wrong", "R-ELIC-08")
async def _wrong(scene: ClientContext) -> None:
    """Asks with a schema that says little, and in a mode that nobody knows."""
    _offered(scene)
    params = scene.session_params(mode="form", message="A form without a type", requestedSchema={})
    if scene.version == 1:
        call = scene.connection.send_request(_ASK, params)
        await scene.expect_success("R-ELIC-08", call, "a form without `type` and `properties`")
    else:
        call = scene.connection.send_request(_ASK, params)
        await scene.expect_error(
            "R-ELIC-08", call, -32602, "a form without `type` and `properties`"
        )
    later = scene.session_params(mode="_accord_later", message="In a way that nobody knows")
    call = scene.connection.send_request(_ASK, later)
    try:
        await scene.connection.wait_for_response(call)  # observed
    except NoResponse:
        scene.cancel_request(call)


@scenario("forms/pattern", "R-ELIC-19")
async def _pattern(scene: ClientContext) -> None:
    """Asks for a text by a pattern that takes some programs for ever."""
    _offered(scene)
    hard = {"type": "string", "pattern": "^(a+)+$", "default": "a" * 40 + "!"}
    scene.say("Please send the next form as it is, or decline it.")
    call = _form(scene, "A hard pattern", {"text": hard})
    alive = await scene.agent.is_alive()
    if alive:
        try:
            await scene.wait_for_person(call)
        except NotExercised:
            if await scene.agent.is_alive():
                raise
        alive = await scene.agent.is_alive()
    got = "it answers nothing any more"
    expected = "a client that goes on while it has a hard pattern to match"
    scene.judge("R-ELIC-19", alive, call, expected=expected, got=got)


@scenario("forms/page", "R-ELIC-13", "R-ELIC-30")
async def _page(scene: ClientContext) -> None:
    """Asks to open a page, which the user declines, and tells of pages that nobody opened."""
    sent = scene.send_notification("elicitation/complete", {"elicitationId": "never asked"})
    await scene.expect_alive("R-ELIC-30", "the end of an elicitation that never was", sent)
    scene.require(scene.supports("elicitation", "url"), "the client opens no pages")
    async with WebServer() as server:
        scene.say("Please decline to open the next page.")
        ident = f"{scene.session.id}-page"
        params = scene.session_params(mode="url", message="Decline this page", elicitationId=ident)
        call = scene.connection.send_request(_ASK, {**params, "url": f"{server.address}/page"})
        await scene.wait_for_person(call)
        scene.require(_action(call) in ("decline", "cancel"), "the page was not declined")
        asked = await server.wait_for_visits(within_s=0.3)
        scene.judge(
            "R-ELIC-13",
            not asked,
            call,
            expected="a page that was declined is not opened",
            got=f"a request for {', '.join(asked)}",
        )
        sent = scene.send_notification("elicitation/complete", {"elicitationId": ident})
        await scene.expect_alive("R-ELIC-30", "the end of an elicitation that was declined", sent)


def _offered(scene: ClientContext) -> None:
    scene.require(scene.supports("elicitation", "form"), "the client shows no forms")


def _form(
    scene: ClientContext, message: str, properties: Json, required: list[str] | None = None
) -> Request:
    schema: Json = {"type": "object", "properties": properties}
    if required is not None:
        schema["required"] = required
    return scene.connection.send_request(
        _ASK, scene.session_params(mode="form", message=message, requestedSchema=schema)
    )


def _action(call: Request) -> Any:
    return call.result.get("action") if is_object(call.result) else describe_outcome(call)


def _given(call: Request) -> Json | None:
    """Return what was filled in, None when nothing was."""
    if _action(call) != "accept":
        return None
    content = call.result.get("content")
    return content if is_object(content) else {}


def _misfit(properties: Json, required: tuple[str, ...], given: Json) -> str:
    """Say what does not fit, nothing when all does."""
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


SCENES = (_fields, _wrong, _pattern, _page)
