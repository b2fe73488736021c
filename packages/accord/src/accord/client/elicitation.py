"""Elicitation: forms and URLs for the user."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Literal, TypeAlias

from msgspec import Struct

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
