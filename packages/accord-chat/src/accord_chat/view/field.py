"""A line of text to fill in."""

from __future__ import annotations

from typing import Any, cast

from textual import events
from textual.app import App
from textual.widgets import Input


class Field(Input):
    """Handles keys in their order.

    Textual runs the bindings of a widget later, and while it is busy, letters that follow would
    overtake Backspace and Enter.
    """

    async def on_key(self, event: events.Key) -> None:
        """Run the binding of a key at once; letters are inserted by the widget itself.

        A key that does nothing here, as Ctrl+C without a selection, is left to the screen.
        """
        app = cast("App[Any]", self.app)  # pyright: ignore[reportUnknownMemberType]
        bindings = self._bindings.key_to_bindings.get(event.key)
        if bindings and await app.run_action(bindings[0].action, self):
            event.stop()
            event.prevent_default()
