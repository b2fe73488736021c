"""A line of text to fill in."""

from __future__ import annotations

from textual import events
from textual.widgets import Input

__all__ = ("Field",)


class Field(Input):
    """Handles keys in their order.

    Textual runs the bindings of a widget later, and while it is busy, letters that follow would
    overtake Backspace and Enter.
    """

    async def on_key(self, event: events.Key) -> None:
        """Run the binding of a key at once; letters are inserted by the widget itself."""
        if bindings := self._bindings.key_to_bindings.get(event.key):
            event.stop()
            event.prevent_default()
            await self.run_action(bindings[0].action)
