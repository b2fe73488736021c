"""Asks the user at the terminal what an agent wants to know: a form, field by field, or a page."""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

from accord.cli.safe_text import one_line, printable
from accord.client.elicitation import (
    ElicitationForm,
    FormField,
    FormValue,
    FormValues,
    UrlElicitationRequest,
    form_error,
)
from accord.text.excerpt import excerpt, visible

if TYPE_CHECKING:
    from accord.types.session import OptionChoice

__all__ = ("FormDeclined", "fill_in_form", "offer_url")

# Shows a line in a style; asks for one, which is None once nothing more can be typed.
Show = Callable[[str, str], None]
Ask = Callable[[str], Awaitable[str | None]]

MAX_TEXT = 4000  # characters of a message, which may not push the question off the screen
_YES_OR_NO = {"y": True, "yes": True, "true": True, "n": False, "no": False, "false": False}
_HINTS = {
    "boolean": " (y/n)",
    "choice": " (a number)",
    "choices": " (numbers, with commas)",
}
_INVALID = "It does not fit"
_PARSE_ERRORS = {"integer": "That is no whole number", "number": "That is no number"}
_SIZES = {"text": "characters", "choices": "choices"}


class FormDeclined(Exception):
    """The user fills in nothing, or cannot."""


async def fill_in_form(form: ElicitationForm, agent: str, show: Show, ask: Ask) -> FormValues:
    """Ask for each field; an empty line takes the default. Raises `Refused`."""
    show(f"{one_line(agent)} asks (Ctrl-C declines):", "bold")
    for text in (form.title, form.message, form.description):
        _show_text(text, show)
    for field in form.fields:
        if field.required and not _is_supported(field):
            raise FormDeclined(f"it wants {one_line(field.title)}, which cannot be typed")
    values: dict[str, FormValue] = {}
    for field in form.fields:
        if _is_supported(field):
            given = await _ask_field(field, show, ask)
            if given is not None:
                values[field.name] = given
    return values


async def offer_url(page: UrlElicitationRequest, agent: str, show: Show, ask: Ask) -> bool:
    """Show all of an address and tell whether the user goes there; open it then."""
    show(f"{one_line(agent)} asks to open a page (Ctrl-C declines):", "bold")
    _show_text(page.message, show)
    show(f"  {' '.join(visible(page.url).split())}", "cyan")
    answer = await ask("[o]pen, [d]ecline: ")
    if answer is None or answer.strip().lower()[:1] not in ("o", "y"):
        return False
    if not _open_page(page.url):
        show("  Open it in a browser yourself.", "")
    return True


def _open_page(url: str) -> bool:
    """Open a page, but never in a browser that takes this terminal."""
    import webbrowser

    if not url.lower().startswith(("https://", "http://")):
        return False
    try:
        browser = webbrowser.get()
        return type(browser) is not webbrowser.GenericBrowser and browser.open(url)
    except (webbrowser.Error, OSError):
        return False


def _show_text(text: str | None, show: Show) -> None:
    # Further in than what we say: nobody can take the one for the other.
    for line in printable(excerpt(text or "", MAX_TEXT)).splitlines():
        show(f"  {line}", "")


def _is_supported(field: FormField) -> bool:
    return field.kind in ("text", "integer", "number", "boolean", "choice", "choices")


async def _ask_field(field: FormField, show: Show, ask: Ask) -> FormValue | None:
    """Return what is given for a field, None for nothing."""
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
            raise FormDeclined("nothing more can be typed")
        text = line.strip("\r\n")
        if not text.strip():
            if default is not None or not field.required:
                return default
            show("  It is needed.", "yellow")
            continue
        given = _parse(field, text)
        why = (
            _PARSE_ERRORS.get(field.kind, _INVALID) if given is None else _field_error(field, given)
        )
        if why is None:
            return given
        show(f"  {why}{_format_bounds(field)}.", "yellow")


def _field_error(field: FormField, given: Any) -> str | None:
    """Say that a value does not fit a field, None when it does."""
    if given is None:
        return "There is none"
    try:
        wrong = form_error(ElicitationForm(message="", fields=(field,)), {field.name: given})
    except TypeError:  # a default of the agent's that is no value at all
        wrong = "none"
    return None if wrong is None else _INVALID


def _parse(field: FormField, text: str) -> FormValue | None:
    """Return what a line means for a field, None for nothing that it could be."""
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
                found = [_find_choice(field.choices, part.strip()) for part in text.split(",")]
                known = [value for value in found if value is not None]
                return list(dict.fromkeys(known)) if len(known) == len(found) else None
            case _:
                return text
    except ValueError:
        return None


def _find_choice(choices: tuple[OptionChoice, ...], text: str) -> str | None:
    """Return the choice of this number, or of this name."""
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
