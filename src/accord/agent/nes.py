"""Next edit suggestions, which version 1 alone has: in its own words."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from accord import v1
from accord.errors import MethodNotFound

__all__ = ("NextEdits",)


class NextEdits:
    """Mix-in: `class MyAgent(NextEdits, Agent)`, which suggests the next edits in an editor.

    `start_nes`, `suggest_nes`, `close_nes`, `accept_nes` and `reject_nes` are all needed; which
    of the `did_…` methods are overridden says which events the agent wants.
    """

    def handlers_v1(self) -> Mapping[str, Callable[[Any], Any]]:
        """Return the methods of suggestions that the agent overrides, and those with a default."""
        always = {"accept_nes", "reject_nes"}
        calls = [call for call in vars(NextEdits) if call.endswith("_nes") or "_document" in call]
        return {
            call: getattr(self, call)
            for call in calls
            if call in always or getattr(type(self), call) is not getattr(NextEdits, call)
        }

    async def start_nes(self, params: v1.StartNesRequest) -> v1.StartNesResponse:
        """Begin a session of suggestions."""
        raise MethodNotFound

    async def suggest_nes(self, params: v1.SuggestNesRequest) -> v1.SuggestNesResponse:
        """Suggest the next edits."""
        raise MethodNotFound

    async def close_nes(self, params: v1.CloseNesRequest) -> v1.CloseNesResponse:
        """End a session of suggestions; what it works on is cancelled."""
        raise MethodNotFound

    async def accept_nes(self, params: v1.AcceptNesNotification) -> None:
        """A suggestion was accepted."""

    async def reject_nes(self, params: v1.RejectNesNotification) -> None:
        """A suggestion was rejected."""

    async def did_open_document(self, params: v1.DidOpenDocumentNotification) -> None:
        """A document was opened."""

    async def did_change_document(self, params: v1.DidChangeDocumentNotification) -> None:
        """A document was changed."""

    async def did_close_document(self, params: v1.DidCloseDocumentNotification) -> None:
        """A document was closed."""

    async def did_save_document(self, params: v1.DidSaveDocumentNotification) -> None:
        """A document was saved."""

    async def did_focus_document(self, params: v1.DidFocusDocumentNotification) -> None:
        """A document came into focus."""
