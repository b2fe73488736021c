"""Questions at the terminal: permission requests, forms and URLs; answers come from the keyboard.

A permission question shows the whole action and the agent's own options.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import os
import sys
import threading
import webbrowser
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from accord.client.elicitation import (
    ElicitationForm,
    FormField,
    FormValue,
    FormValues,
    UrlElicitationRequest,
    form_error,
)
from accord.client.events import Decision, PermissionRequest
from accord.client.permissions import allows, command_of, is_distinct
from accord.connection.tasks import is_being_cancelled
from accord.text.excerpt import excerpt, visible
from accord.types.permission import PermissionOption
from accord.types.tool_calls import rule_error
from accord_terminal.toolkit.text import (
    GUTTER,
    Row,
    Writer,
    one_line,
    printable,
    relative_path,
    relative_title,
)
from accord_terminal.toolkit.tool_rows import diff_rows, diffs_of, lines_before_diff, text_of_call

if TYPE_CHECKING:
    from accord.types.session import OptionChoice

# Reads lines from the keyboard without blocking the event loop.

if sys.platform != "win32":
    import termios


class _Keyboard:
    """Reads in one thread at a time; two threads would share the input."""

    def __init__(self) -> None:
        self.pending_line: asyncio.Future[bytes] | None = None
        self.is_reading = False

    def start(self, line: asyncio.Future[bytes]) -> None:
        self.pending_line = line
        if self.is_reading:
            return  # the thread of a cancelled question is still reading; it reads for this one
        self.is_reading = True
        loop = asyncio.get_running_loop()

        def read() -> None:
            # Not `sys.stdin`: the daemon thread would hold its lock at exit.
            try:
                data = os.read(0, 4096)
            except OSError:  # the terminal was closed
                data = b""
            with contextlib.suppress(RuntimeError):  # the loop is closed
                loop.call_soon_threadsafe(self._deliver, data)

        threading.Thread(target=read, name="accord keyboard", daemon=True).start()

    def _deliver(self, data: bytes) -> None:
        self.is_reading = False
        if self.pending_line is not None and not self.pending_line.done():
            self.pending_line.set_result(data)


_keyboard = _Keyboard()


async def read_line() -> str:
    """Return a line from the keyboard with its line end; empty at the end of the input."""
    line: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
    _keyboard.start(line)
    return (await line).decode("utf-8", "replace")


def discard_typed() -> None:
    """Discard what was typed before a question was shown."""
    if sys.platform == "win32":
        return
    with contextlib.suppress(termios.error):  # not a terminal
        termios.tcflush(0, termios.TCIFLUSH)


# The permission question at the terminal: the whole action, and the agent's own options.

MAX_OPTIONS = 30
MAX_CHARACTERS = 1_000_000  # of an action
LONG_TITLE = 100  # characters: it may not fit above the action
KINDS = {
    "allow_once": "allows it once",
    "allow_always": "allows it always",
    "reject_once": "rejects it once",
    "reject_always": "rejects it always",
}

# Asks for a line; None at the end of the input.
ReadLine = Callable[[str], Awaitable[str | None]]


async def ask_permission(
    request: PermissionRequest, agent: str, writer: Writer, read_line: ReadLine
) -> Decision:
    """Return the option that the user chooses. Options that are not shown cannot be chosen."""

    def show(*rows: Row) -> None:
        writer.write_lines(writer.render_rows(rows))

    call, cwd = request.tool_call, request.cwd
    title = relative_title(request.title or (call.title if call else ""), cwd)
    show(Row(f"{one_line(agent, 40)} asks: {title or 'May I continue?'}", "bold yellow"))
    left = await _show_pages(writer, writer.render_rows(request_rows(request, title)), read_line)
    if left:
        show(Row(f"{left} lines were not shown.", "yellow", "  "))
    options = request.options[:MAX_OPTIONS]
    if not options:
        show(Row("The agent sent no options to choose from.", "yellow", "  "))
        return "cancel"
    writer.write_lines([""])
    names = [one_line(option.name) or one_line(option.id) for option in options]
    for number, (option, name) in enumerate(zip(options, names, strict=True), 1):
        kind = KINDS.get(option.kind) or one_line(str(option.kind), 40)
        show(Row(f"{name}  ({kind})", "", f"  {number}) ", lead_style="bold"))
    if more := len(request.options) - len(options):
        show(Row(f"{more} more options are not shown and cannot be chosen.", "yellow", "  "))
    while True:
        line = await read_line(f"Choose 1 to {len(options)}: " if len(options) > 1 else "Type 1: ")
        if line is None:
            rejecting = [option for option in options if option.kind == "reject_once"]
            return rejecting[0] if rejecting else "cancel"
        if (chosen := _find_option(options, names, line.strip())) is not None:
            if is_distinct(chosen, request.options):
                return chosen
            show(
                Row(
                    "The agent cannot distinguish this option from another one: cancelled.",
                    "yellow",
                    "  ",
                )
            )
            return "cancel"
        show(Row("Type the number of an option, or its name.", "yellow", "  "))


def _find_option(
    options: Sequence[PermissionOption], names: Sequence[str], text: str
) -> PermissionOption | None:
    if text.isascii() and text.isdigit():
        shown = {str(number): option for number, option in enumerate(options, 1)}
        return shown.get(text)
    same = [n for n, name in enumerate(names) if name.casefold() == text.casefold()]
    return options[same[0]] if len(same) == 1 else None


async def _show_pages(writer: Writer, lines: Sequence[str], read_line: ReadLine) -> int:
    """Show lines, one screen at a time; return how many the user skipped."""
    page = max(writer.size[1] - 4, 3)
    at = 0
    while True:
        writer.write_lines(lines[at : at + page])
        at += page
        if at >= len(lines):
            return 0
        line = await read_line(f"— {len(lines) - at} more lines: Enter shows them, s skips them ")
        if line is None or line.strip().lower() == "s":
            return len(lines) - at


def request_rows(request: PermissionRequest, title: str) -> Iterator[Row]:
    """Yield the action of a request, without its title."""
    call, cwd = request.tool_call, request.cwd
    yield from _text_rows(printable(request.description or ""), "", "  ")
    command = command_of(request)
    whole = (request.title or (call.title if call else "")).strip()
    if len(whole) > LONG_TITLE and command is None:
        yield from _text_rows(visible(whole), "bold", "  ")  # the title shows its ends
    if command is not None:
        yield from _text_rows(visible(command), "cyan", "    ", "  $ ")
    if call is None:
        return
    shown = command is not None
    diffs = list(diffs_of(call))
    for diff in diffs:
        path = one_line(relative_path(diff.path, cwd))
        if len(diffs) > 1 or path not in title:
            yield Row(path, "bold", "  ")
        yield from diff_rows(diff, lines_before_diff(diff, call, cwd))
        shown = True
    text = text_of_call(call)
    if text.strip() and (command is None or _is_other(text, command)):
        yield from _text_rows(printable(text.strip("\n")), "", GUTTER)
        shown = True
    if not shown and call.raw_input is not None:
        yield from _text_rows(visible(_json(call.raw_input)), "cyan", "  ")
    paths = {one_line(relative_path(diff.path, cwd)) for diff in diffs}
    places = [one_line(relative_path(place.path, cwd)) for place in call.locations]
    if places := [path for path in places if path not in paths and path not in title]:
        yield Row(", ".join(dict.fromkeys(places)), "dim", "  ")


def _is_other(text: str, command: str) -> bool:
    """Return whether a text is not just the command line, perhaps in a code block."""
    lines = text.strip().splitlines()
    if len(lines) > 2 and lines[0].startswith("```") and lines[-1] == "```":
        lines = lines[1:-1]
    return "\n".join(lines) != command


def _text_rows(text: str, style: str, lead: str, first: str | None = None) -> Iterator[Row]:
    """Yield the lines of a text, up to `MAX_CHARACTERS`."""
    if not text:
        return
    left = len(text) - MAX_CHARACTERS
    for line in text[:MAX_CHARACTERS].split("\n"):
        yield Row(line, style, lead if first is None else first, lead, "dim", whole_words=False)
        first = None
    if left > 0:
        yield Row(f"{left} more characters are not shown.", "yellow", lead)


def _json(value: Any) -> str:
    try:
        return msgspec.json.format(msgspec.json.encode(value), indent=2).decode()
    except (TypeError, ValueError):
        return repr(value)


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


# `UserQuestions` asks one question at a time; what was not asked is reported.

T = TypeVar("T")

# Nothing else is written while it is entered. The argument is the request that is shown, if any.
PauseOutput = Callable[["PermissionRequest | None"], AbstractContextManager[None]]


class UserQuestions:
    """Asks one question at a time, and pauses all other output during the question."""

    def __init__(self, writer: Writer, pause_output: PauseOutput) -> None:
        self._writer = writer
        self._pause_output = pause_output
        self._lock = asyncio.Lock()
        self._pending_answer: asyncio.Future[Any] | None = None  # to a form or URL

    @property
    def is_asking(self) -> bool:
        """Whether a question is open."""
        return self._lock.locked()

    async def ask_permission(self, request: PermissionRequest, agent_name: str) -> Decision | None:
        """Ask the user to decide a permission request."""
        async with self._lock:
            with self._pause_output(request):
                discard_typed()
                try:
                    return await ask_permission(request, agent_name, self._writer, self._read_line)
                except asyncio.CancelledError:
                    self._writer.write("\n")  # after the question
                    raise

    async def ask_form(self, form: ElicitationForm, agent_name: str) -> FormValues | None:
        """Ask the user to fill in a form; None if the user declines."""

        async def fill_in() -> FormValues | None:
            try:
                return await fill_in_form(form, agent_name, self._show_line, self._read_line)
            except FormDeclined as reason:
                self._show_line(f"  declined: {reason}", "yellow")
                return None

        return await self._ask_declinable(fill_in)

    async def ask_url(self, page: UrlElicitationRequest, agent_name: str) -> bool:
        """Ask the user to open a URL; return whether the user agrees."""
        agreed = await self._ask_declinable(
            lambda: offer_url(page, agent_name, self._show_line, self._read_line)
        )
        return agreed is True

    def decline(self) -> bool:
        """Decline the open form or URL; return whether one was open."""
        if self._pending_answer is None:
            return False
        return self._pending_answer.cancel()

    async def _ask_declinable(self, answer: Callable[[], Coroutine[Any, Any, T]]) -> T | None:
        async with self._lock:
            with self._pause_output(None):
                discard_typed()
                try:
                    self._pending_answer = asyncio.ensure_future(answer())
                    return await self._pending_answer
                except asyncio.CancelledError:
                    self._writer.write("\n")  # after the question
                    if is_being_cancelled():
                        raise
                    self._show_line("  declined", "yellow")
                    return None
                finally:
                    self._pending_answer = None

    def _show_line(self, text: str, style: str = "") -> None:
        words = text.lstrip(" ")
        lead = text[: len(text) - len(words)]
        self._writer.write_lines(self._writer.render_rows([Row(printable(words), style, lead)]))

    async def _read_line(self, prompt: str) -> str | None:
        """Ask for a line; None at the end of the input."""
        self._writer.write(printable(prompt))
        line = await read_line()
        if not line.endswith("\n"):
            self._writer.write("\n")
        return line or None


# Reports which permission requests were rejected without asking, and how to allow them.

MAX_SHOWN = 5


def rejected_lines(
    requests: Sequence[PermissionRequest], reason: str, program: str = "accord ask"
) -> list[str]:
    """Return the report: the titles, and the options that would have allowed the actions."""
    import shlex

    lines = [f"{program}: rejected without asking the user: {reason}"]
    for request in requests[:MAX_SHOWN]:
        call = request.tool_call
        title = relative_title(request.title or (call.title if call else ""), request.cwd)
        lines.append(f"  {title}")
    if len(requests) > MAX_SHOWN:
        lines.append(f"  and {len(requests) - MAX_SHOWN} more")
    rules = dict.fromkeys(map(_narrowest_rule, requests[:MAX_SHOWN]))
    allowing = " ".join(f"--allow {shlex.quote(rule)}" for rule in rules)
    lines.append(f"  To allow it: {allowing}, or --yes for everything.")
    return lines


def _narrowest_rule(request: PermissionRequest) -> str:
    """Return the narrowest rule for `--allow` that matches a request."""
    import glob

    call = request.tool_call
    command = command_of(request)
    kind = "execute" if call is None else one_line(str(call.kind), 40)
    # A rule is a pattern: the stars of a command or path are escaped.
    rules = [] if command is None else [f"execute:{glob.escape(one_line(command))}"]
    if call is not None and len(call.locations) == 1:
        path = relative_path(call.locations[0].path, request.cwd)
        rules.append(f"{kind}:{glob.escape(one_line(path))}")
    rules.append(kind)
    return next((rule for rule in rules if not rule_error([rule]) and allows(rule, request)), "*")
