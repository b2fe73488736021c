"""The docked form of an agent, and its request to open a page."""

from __future__ import annotations

import math
from typing import ClassVar

from rich.text import Text
from textual import events
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, VerticalScroll
from textual.content import Content
from textual.message import Message
from textual.widget import Widget
from textual.widgets import (
    Button,
    Checkbox,
    Input,
    Label,
    RadioButton,
    RadioSet,
    SelectionList,
    Static,
)

from accord.client.elicitation import (
    ElicitationForm,
    FormField,
    FormValue,
    form_error,
)
from accord.text.excerpt import excerpt, visible
from accord_chat.model.questions import FormQuestion, PageQuestion
from accord_chat.view.pick_screen import Field
from accord_terminal.toolkit.questions import open_page
from accord_terminal.toolkit.text import one_line, printable

MAX_TEXT = 4000  # characters of a message
SUPPORTED = ("text", "integer", "number", "boolean", "choice", "choices")


class _Panel(VerticalScroll):
    DEFAULT_CSS = """
    _Panel {
        height: auto;
        max-height: 65vh;
        border: heavy $accent;
        border-title-color: $accent;
        border-title-style: bold;
        background: $surface;
        padding: 0 1;
    }
    _Panel Input, _Panel RadioSet, _Panel Checkbox, _Panel SelectionList { margin-bottom: 1; }
    _Panel Input { border: none; height: 1; background: $surface; padding: 0 1; }
    _Panel Input:focus { text-style: bold; }
    _Panel Checkbox { border: none; padding: 0; }
    _Panel SelectionList { height: auto; max-height: 6; border: none; padding: 0; }
    _Panel Horizontal { height: 1; }
    _Panel Button { min-width: 12; margin-right: 2; }
    """


class FormPanel(_Panel):
    """A form; Ctrl+S or the button sends it, Esc declines it."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("ctrl+s", "send", show=False, priority=True),
        # Before what is typed next is given to the field that had the keyboard.
        Binding("tab", "app.focus_next", show=False, priority=True),
        Binding("shift+tab", "app.focus_previous", show=False, priority=True),
        Binding("enter", "next_field", show=False, priority=True),
    ]

    class Answered(Message):
        """The form was sent or declined."""

        def __init__(self, question: FormQuestion, values: dict[str, FormValue] | None) -> None:
            super().__init__()
            self.question = question
            self.values = values

    def __init__(self, question: FormQuestion, _waiting: int) -> None:
        super().__init__()
        self.question = question
        self.border_title = Content(f"{one_line(question.agent_name, 40)} asks")
        self.border_subtitle = "Tab next field · Ctrl+S send · Esc decline"
        self._fields: list[tuple[FormField, Widget]] = []

    def compose(self) -> ComposeResult:
        """Make the fields."""
        form = self.question.form
        for text in (form.title, form.message, form.description):
            if text:
                yield Static(Text(printable(excerpt(text, MAX_TEXT))))
        for field in form.fields:
            if field.kind not in SUPPORTED:
                continue
            widget = _widget(field)
            self._fields.append((field, widget))
            if field.kind != "boolean":
                star = " *" if field.required else ""
                more = f" · {one_line(field.description)}" if field.description else ""
                yield Label(Text.assemble((one_line(field.title) + star, "bold"), (more, "dim")))
            yield widget
        with Horizontal():
            yield Button("Send", variant="primary", id="send", compact=True)
            yield Button("Decline", id="decline", compact=True)

    def take_focus(self, *, asked: bool = False) -> None:
        """Take the keyboard."""
        (self._fields[0][1] if self._fields else self.query_one("#send", Button)).focus()

    def on_key(self, event: events.Key) -> None:
        """Decline with Escape."""
        if event.key == "escape":
            event.stop()
            self.post_message(self.Answered(self.question, None))

    def on_button_pressed(self, event: Button.Pressed) -> None:
        """Send or decline."""
        event.stop()
        if event.button.id == "send":
            self.action_send()
        else:
            self.post_message(self.Answered(self.question, None))

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Leave Enter to buttons and choices."""
        return action != "next_field" or isinstance(self.screen.focused, Field)

    def action_next_field(self) -> None:
        """Go on to the next field."""
        self.screen.focus_next()

    def action_send(self) -> None:
        """Send the values, unless one is invalid."""
        values: dict[str, FormValue] = {}
        for field, widget in self._fields:
            try:
                value = _value(field, widget)
            except ValueError:
                self._show_wrong(field, widget)
                return
            if value is not None:
                values[field.name] = value
            single = ElicitationForm(message="", fields=(field,))
            if form_error(single, {} if value is None else {field.name: value}) is not None:
                self._show_wrong(field, widget)
                return
        missing = [
            field
            for field in self.question.form.fields
            if field.required and field.kind not in SUPPORTED
        ]
        if missing:
            title = one_line(missing[0].title, 60)
            self._show_wrong_text(f"{title} is required, but cannot be filled in here.")
            return
        self.post_message(self.Answered(self.question, values))

    def _show_wrong(self, field: FormField, widget: Widget) -> None:
        bounds = [
            f"{word} {size:g}"
            for word, size in (("at least", field.minimum), ("at most", field.maximum))
            if size is not None
        ]
        kinds = {"integer": "a whole number", "number": "a number"}
        wanted = " ".join([kinds.get(field.kind, "a value"), " and ".join(bounds)]).strip()
        self._show_wrong_text(f"{one_line(field.title, 60)}: enter {wanted}.")
        widget.focus()

    def _show_wrong_text(self, text: str) -> None:
        self.border_subtitle = Content(text)  # not markup


class PagePanel(_Panel):
    """A URL that the agent asks to open, shown as a whole."""

    class Answered(Message):
        """The page is opened, or not."""

        def __init__(self, question: PageQuestion, agreed: bool) -> None:
            super().__init__()
            self.question = question
            self.agreed = agreed

    def __init__(self, question: PageQuestion, _waiting: int) -> None:
        super().__init__()
        self.question = question
        self.border_title = Content(f"{one_line(question.agent_name, 40)} asks to open a page")
        self.border_subtitle = "o open · Esc decline"

    def compose(self) -> ComposeResult:
        """Make the message, the whole URL and the buttons."""
        page = self.question.page
        yield Static(Text(printable(excerpt(page.message, MAX_TEXT))))
        yield Static(Text.assemble((" ".join(visible(page.url).split()), "bold cyan")))
        with Horizontal():
            yield Button("Decline", id="decline", compact=True)
            yield Button("Open", id="open", variant="primary", compact=True)

    def take_focus(self, *, asked: bool = False) -> None:
        """Take the keyboard."""
        self.query_one("#decline", Button).focus()

    def on_key(self, event: events.Key) -> None:
        """Open or decline."""
        if event.key in ("o", "escape"):
            event.stop()
            self._answer(event.key == "o")

    def on_button_pressed(self, event: Button.Pressed) -> None:
        """Open or decline."""
        event.stop()
        self._answer(event.button.id == "open")

    def _answer(self, agreed: bool) -> None:
        if agreed and not open_page(self.question.page.url):
            self.notify("Open it in a browser yourself.", timeout=10)
        self.post_message(self.Answered(self.question, agreed))


def _widget(field: FormField) -> Widget:
    choices = [(one_line(choice.name), choice.value) for choice in field.choices]
    values = [value for _, value in choices]
    default = field.default
    match field.kind:
        case "boolean":
            return Checkbox(Text(one_line(field.title)), value=default is True)
        case "choice":
            return _radio_set(field, values)
        case "choices":
            chosen = default if isinstance(default, list) else []
            return SelectionList[str](
                *((Text(name), value, value in chosen) for name, value in choices)
            )
        case _:
            given = "" if default is None or isinstance(default, bool) else str(default)
            return Field(value=printable(given), compact=True)


def _radio_set(field: FormField, values: list[str]) -> RadioSet:
    labels = [Text(one_line(choice.name)) for choice in field.choices]
    at = values.index(field.default) if field.default in values else -1
    if not field.required:  # a choice cannot be taken back otherwise
        labels.append(Text("(none)", "dim"))
    return RadioSet(
        *(RadioButton(label, value=number == at) for number, label in enumerate(labels)),
        compact=True,
    )


def _value(field: FormField, widget: Widget) -> FormValue | None:
    """Return the value of a field, None if it is empty; raise `ValueError` if it is invalid."""
    match widget:
        case Checkbox():
            return widget.value
        case RadioSet():
            at = widget.pressed_index
            return field.choices[at].value if 0 <= at < len(field.choices) else None
        case SelectionList():
            chosen_values: list[str] = [str(value) for value in widget.selected]  # pyright: ignore[reportUnknownVariableType, reportUnknownMemberType, reportUnknownArgumentType]
            return list(chosen_values)
        case Input():
            text = widget.value
            if not text.strip():
                return None
            if field.kind == "integer":
                return int(text)
            if field.kind == "number":
                number = float(text)
                if not math.isfinite(number):
                    raise ValueError(text)
                return number
            return text
        case _:
            return None
