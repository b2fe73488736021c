"""Elicitation: forms for the user, and URLs, which are bounded in number, time and length."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Literal, TypeAlias

from msgspec import Struct

from accord.errors import InvalidParams
from accord.text import lenient_json
from accord.types.session import OptionChoice

log: logging.Logger = logging.getLogger("accord.client")

FormValue: TypeAlias = str | int | float | bool | list[str]
FormValues: TypeAlias = Mapping[str, FormValue]


class FormField(Struct, frozen=True, kw_only=True):
    """A field of a form; skip fields of an unknown `kind`, which the agent has defined."""

    name: str
    kind: Literal["text", "integer", "number", "boolean", "choice", "choices"] | str
    title: str
    description: str | None = None
    required: bool = False
    default: FormValue | None = None
    choices: tuple[OptionChoice, ...] = ()
    minimum: float | None = None  # of a number, or of the number of characters or choices
    maximum: float | None = None
    pattern: str | None = None  # an ECMA-262 expression from the agent: untrusted
    format: str | None = None


class ElicitationForm(Struct, frozen=True, kw_only=True):
    """A form; show the user which agent asks, and let the user decline."""

    message: str
    fields: tuple[FormField, ...]
    title: str | None = None
    description: str | None = None
    session_id: str | None = None
    tool_call_id: str | None = None


class UrlElicitationRequest(Struct, frozen=True, kw_only=True):
    """A URL that the user should open; show the whole `url`, and open it only with consent.

    `done` is set when the agent reports the completion, which is optional.
    """

    message: str
    url: str
    id: str
    done: asyncio.Event
    session_id: str | None = None
    tool_call_id: str | None = None


# Returns the values, or None if the user declines.
OnElicitForm: TypeAlias = Callable[[ElicitationForm], Awaitable[FormValues | None]]
# Returns whether the user opens the URL.
OnElicitUrl: TypeAlias = Callable[[UrlElicitationRequest], Awaitable[bool]]

_KINDS = {"string": "text", "integer": "integer", "number": "number", "boolean": "boolean"}


def form_from_schema(
    message: str, schema: Mapping[str, Any], session_id: str | None, tool_call_id: str | None
) -> ElicitationForm:
    """Return the form of a schema, which both versions write alike."""
    required = schema.get("required") or ()
    return ElicitationForm(
        message=message,
        fields=tuple(
            _field(name, field, name in required)
            for name, field in schema.get("properties", {}).items()
        ),
        title=schema.get("title"),
        description=schema.get("description"),
        session_id=session_id,
        tool_call_id=tool_call_id,
    )


def _field(name: str, schema: Mapping[str, Any], required: bool) -> FormField:
    written: str = schema.get("type", "")
    kind = _KINDS.get(written, written)
    choices: tuple[OptionChoice, ...] = ()
    bounds = {"text": "Length", "array": "Items"}.get(kind)
    least, most = ("minimum", "maximum") if bounds is None else (f"min{bounds}", f"max{bounds}")
    if kind == "text" and ("enum" in schema or "oneOf" in schema):
        kind, choices = "choice", _choices(schema, "oneOf")
    elif kind == "array":
        items = schema.get("items")
        choices = _choices(items, "anyOf") if lenient_json.is_object(items) else ()
        kind = "choices" if choices else "array"
    return FormField(
        name=name,
        kind=kind,
        title=schema.get("title") or name,
        description=schema.get("description"),
        required=required,
        default=schema.get("default"),
        choices=choices,
        minimum=schema.get(least),
        maximum=schema.get(most),
        pattern=schema.get("pattern"),
        format=schema.get("format"),
    )


def _choices(schema: Mapping[str, Any], titled: str) -> tuple[OptionChoice, ...]:
    """Return the choices of a schema, none if their form is unknown."""
    options, values = schema.get(titled), schema.get("enum")
    try:
        if lenient_json.is_array(options) and options:
            return tuple(
                OptionChoice(option["const"], option["title"], option.get("description"))
                for option in options
            )
        return (
            tuple(OptionChoice(value, value) for value in values)
            if lenient_json.is_array(values)
            else ()
        )
    except (AttributeError, KeyError, TypeError):  # items of an unknown form
        return ()


def schema_of_form(form: ElicitationForm) -> dict[str, Any]:
    """Return the JSON schema of a form, which `form_from_schema` reads."""
    required = [one.name for one in form.fields if one.required]
    schema: dict[str, Any] = {
        "type": "object",
        "properties": {one.name: _property(one) for one in form.fields},
    }
    texts = {"title": form.title, "description": form.description}
    schema |= {name: text for name, text in texts.items() if text is not None}
    if required:
        schema["required"] = required
    return schema


_TYPES = {"text": "string", "choice": "string", "choices": "array"}


def _property(field: FormField) -> dict[str, Any]:
    found: dict[str, Any] = {"type": _TYPES.get(field.kind, field.kind), "title": field.title}
    choices = [{"const": choice.value, "title": choice.name} for choice in field.choices]
    if field.kind == "choice":
        found["oneOf"] = choices
    elif field.kind == "choices":
        found["items"] = {"anyOf": choices}
    sizes = {"text": "Length", "choices": "Items"}.get(field.kind)
    least, most = ("minimum", "maximum") if sizes is None else (f"min{sizes}", f"max{sizes}")
    optional = {
        "description": field.description,
        "default": field.default,
        least: field.minimum,
        most: field.maximum,
        "pattern": field.pattern,
        "format": field.format,
    }
    return found | {name: value for name, value in optional.items() if value is not None}


def form_error(form: ElicitationForm, values: FormValues) -> str | None:
    """Return why values do not fit the form, None if they do (R-ELIC-17).

    Patterns are not evaluated.
    """
    fields = {field.name: field for field in form.fields}
    for name in values:
        if name not in fields:
            return f"{name} is not a field of the form"
    for name, field in fields.items():
        if name not in values:
            if field.required:
                return f"{name} is missing"
        elif not _fits(field, values[name]):
            return f"{name} does not fit"
    return None


def _fits(field: FormField, value: FormValue) -> bool:
    allowed = {choice.value for choice in field.choices}
    match field.kind:
        case "text":
            return isinstance(value, str) and _within(field, len(value))
        case "choice":
            return isinstance(value, str) and value in allowed
        case "choices":
            return (
                isinstance(value, list) and allowed.issuperset(value) and _within(field, len(value))
            )
        case "boolean":
            return isinstance(value, bool)
        case "integer":
            return isinstance(value, int) and not isinstance(value, bool) and _within(field, value)
        case "number":
            if isinstance(value, bool):
                return False
            return isinstance(value, int | float) and _within(field, value)
        case _:
            return True  # the agent validates its own kinds


def _within(field: FormField, size: float) -> bool:
    return (field.minimum is None or size >= field.minimum) and (
        field.maximum is None or size <= field.maximum
    )


# Open URL elicitations: bounded in number, in time and in the length of the URL.

MAX_PAGES = 32  # at a time, in all sessions of a connection
MAX_URL_CHARS = 8192  # the limit of many browsers and servers
PAGE_LIFETIME_S = 3600.0  # for the agent to report the completion


class OpenUrlElicitations:
    """The URLs that the user is asked to open, or has opened and not completed."""

    def __init__(self) -> None:
        self._asked: list[UrlElicitationRequest] = []
        self._open: dict[
            str, tuple[UrlElicitationRequest, float]
        ] = {}  # with their deadlines, oldest first

    def add(self, page: UrlElicitationRequest) -> bool:
        """Add a request before the user is asked; return False if there are too many.

        Raises `InvalidParams` if the URL is too long.
        """
        if len(page.url) > MAX_URL_CHARS:
            raise InvalidParams("The URL is too long", data={"max": MAX_URL_CHARS})
        if len(self._asked) >= MAX_PAGES:
            log.warning(
                "! a URL elicitation was cancelled: the user is being asked about %d others",
                MAX_PAGES,
            )
            return False
        self._asked.append(page)
        # The agent can report the completion while the user is still being asked.
        self._open.pop(page.id, None)
        self._open[page.id] = page, asyncio.get_running_loop().time() + PAGE_LIFETIME_S
        self._drop_old()
        return True

    def answered(self, page: UrlElicitationRequest, *, agreed: bool) -> None:
        """Record the decision of the user."""
        self._asked.remove(page)
        if not agreed and self._open.get(page.id, (None,))[0] is page:
            del self._open[page.id]

    def complete(self, page_id: str) -> None:
        """Set `done` of a request; an unknown id is ignored."""
        if (known := self._open.pop(page_id, None)) is not None:
            known[0].done.set()

    def _drop_old(self) -> None:
        now = asyncio.get_running_loop().time()
        for page_id, (_, until) in tuple(self._open.items()):
            if until > now and len(self._open) <= MAX_PAGES:
                return
            del self._open[page_id]
