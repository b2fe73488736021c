"""Elicitation at the terminal: asks for the fields of a form, or offers to open a URL."""

from __future__ import annotations

import math
import webbrowser
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

from accord.client.elicitation import (
    ElicitationForm,
    FormField,
    FormValue,
    FormValues,
    UrlElicitationRequest,
    form_error,
)
from accord.text.excerpt import excerpt, visible
from accord_terminal.toolkit.safe_text import one_line, printable

if TYPE_CHECKING:
    from accord.types.session import OptionChoice


# Shows a line in a style; asks for a line, None at the end of the input.
Show = Callable[[str, str], None]
Ask = Callable[[str], Awaitable[str | None]]

MAX_TEXT = 4000  # characters of a message, so that the question stays on the screen
_YES_OR_NO = {"y": True, "yes": True, "true": True, "n": False, "no": False, "false": False}
_HINTS = {
    "boolean": " (y/n)",
    "choice": " (a number)",
    "choices": " (numbers, with commas)",
}
_INVALID = "Enter a valid value"
_PARSE_ERRORS = {"integer": "Enter a whole number", "number": "Enter a number"}
_SIZES = {"text": "characters", "choices": "choices"}


class FormDeclined(Exception):
    """The user declines the form, or cannot fill it in."""


async def fill_in_form(form: ElicitationForm, agent: str, show: Show, ask: Ask) -> FormValues:
    """Ask for each field; an empty line selects the default. Raises `FormDeclined`."""
    show(f"{one_line(agent)} asks (Ctrl-C declines):", "bold")
    for text in (form.title, form.message, form.description):
        _show_text(text, show)
    for field in form.fields:
        if field.required and not _is_supported(field):
            raise FormDeclined(f"it requires {one_line(field.title)}, which cannot be typed")
    values: dict[str, FormValue] = {}
    for field in form.fields:
        if _is_supported(field):
            given = await _ask_field(field, show, ask)
            if given is not None:
                values[field.name] = given
    return values


async def offer_url(page: UrlElicitationRequest, agent: str, show: Show, ask: Ask) -> bool:
    """Show a complete URL and open it if the user agrees; return whether the user agrees."""
    show(f"{one_line(agent)} asks to open a page (Ctrl-C declines):", "bold")
    _show_text(page.message, show)
    show(f"  {' '.join(visible(page.url).split())}", "cyan")
    answer = await ask("[o]pen, [d]ecline: ")
    if answer is None or answer.strip().lower()[:1] not in ("o", "y"):
        return False
    if not open_page(page.url):
        show("  Open it in a browser yourself.", "")
    return True


def open_page(url: str) -> bool:
    """Open a URL, but not in a browser that would run in this terminal."""
    if not url.lower().startswith(("https://", "http://")):
        return False
    try:
        browser = webbrowser.get()
        return type(browser) is not webbrowser.GenericBrowser and browser.open(url)
    except (webbrowser.Error, OSError):
        return False


def _show_text(text: str | None, show: Show) -> None:
    # Indented, so that it cannot imitate a line of this program.
    for line in printable(excerpt(text or "", MAX_TEXT)).splitlines():
        show(f"  {line}", "")


def _is_supported(field: FormField) -> bool:
    return field.kind in ("text", "integer", "number", "boolean", "choice", "choices")


async def _ask_field(field: FormField, show: Show, ask: Ask) -> FormValue | None:
    """Return the value of a field; None if the user leaves it empty."""
    name = one_line(field.title)
    default = field.default if _field_error(field, field.default) is None else None
    if field.description:
        show(f"  {one_line(field.description)}", "dim")
    for number, choice in enumerate(field.choices, 1):
        more = f": {one_line(choice.description)}" if choice.description else ""
        show(f"  {number}) {one_line(choice.name)}{more}", "")
    while True:
        shown = "" if default is None else _format_default(field, default)
        empty = " (may be empty)" if default is None and not field.required else ""
        line = await ask(f"{name}{_HINTS.get(field.kind, '')}{empty}{shown}: ")
        if line is None:
            raise FormDeclined("end of input")
        text = line.strip("\r\n")
        if not text.strip():
            if default is not None or not field.required:
                return default
            show("  This field is required.", "yellow")
            continue
        given = _parse(field, text)
        why = (
            _PARSE_ERRORS.get(field.kind, _INVALID) if given is None else _field_error(field, given)
        )
        if why is None:
            return given
        show(f"  {why}{_format_bounds(field)}.", "yellow")


def _field_error(field: FormField, given: Any) -> str | None:
    """Return what is wrong with a value of a field, or None."""
    if given is None:
        return _INVALID
    try:
        wrong = form_error(ElicitationForm(message="", fields=(field,)), {field.name: given})
    except TypeError:  # an invalid default of the agent
        wrong = "none"
    return None if wrong is None else _INVALID


def _parse(field: FormField, text: str) -> FormValue | None:
    """Return the value that a line has for a field; None if it is invalid."""
    text = text if field.kind == "text" else text.strip()
    try:
        match field.kind:
            case "integer":
                return int(text)
            case "number":
                number = float(text)
                return number if math.isfinite(number) else None
            case "boolean":
                return _YES_OR_NO.get(text.lower())
            case "choice":
                return _find_choice(field.choices, text)
            case "choices":
                chosen = [_find_choice(field.choices, part.strip()) for part in text.split(",")]
                known = [value for value in chosen if value is not None]
                return list(dict.fromkeys(known)) if len(known) == len(chosen) else None
            case _:
                return text
    except ValueError:
        return None


def _find_choice(choices: tuple[OptionChoice, ...], text: str) -> str | None:
    """Return the value of the choice with this number, value or name."""
    for number, choice in enumerate(choices, 1):
        if text in (str(number), choice.value) or text.lower() == one_line(choice.name).lower():
            return choice.value
    return None


def _format_default(field: FormField, default: FormValue) -> str:
    names = {choice.value: one_line(choice.name) for choice in field.choices}
    match default:
        case bool():
            return f" [{'y' if default else 'n'}]"
        case list():
            shown = ", ".join(names.get(value, value) for value in default)
        case _:
            shown = names.get(str(default), one_line(str(default)))
    return f" [{shown}]" if shown else ""


def _format_bounds(field: FormField) -> str:
    what = _SIZES.get(field.kind, "")
    parts = [
        f"{word} {size:g}"
        for word, size in (("at least", field.minimum), ("at most", field.maximum))
        if size is not None
    ]
    return f": {' and '.join(parts)} {what}".rstrip() if parts else ""
