"""The mix-in for an `accord.Agent` that suggests edits."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from accord.errors import MethodNotFound
from accord_conformance.nes import types as t
from accord_conformance.nes.spec import SPEC


class NextEditsMixin:
    """Mix-in for an agent that suggests edits: `class MyAgent(NextEditsMixin, Agent)`.

    It must override `start_nes`, `suggest_nes` and `close_nes`. The client sends the events whose
    `did_…` method is overridden. Only version 1 has these methods.
    """

    spec_v1 = SPEC

    def handlers_v1(self) -> Mapping[str, Callable[[Any], object]]:
        """Return the methods that the agent overrides, and those with a default."""
        always = {"accept_nes", "reject_nes"}
        calls = [
            call for call in vars(NextEditsMixin) if call.endswith("_nes") or "_document" in call
        ]
        return {
            call: getattr(self, call)
            for call in calls
            if call in always or getattr(type(self), call) is not getattr(NextEditsMixin, call)
        }

    async def start_nes(self, params: t.StartNesRequest) -> t.StartNesResponse:
        """Open a session of suggestions."""
        raise MethodNotFound

    async def suggest_nes(self, params: t.SuggestNesRequest) -> t.SuggestNesResponse:
        """Suggest the next edits."""
        raise MethodNotFound

    async def close_nes(self, params: t.CloseNesRequest) -> t.CloseNesResponse:
        """Close a session of suggestions and cancel its work."""
        raise MethodNotFound

    async def accept_nes(self, params: t.AcceptNesNotification) -> None:
        """A suggestion was accepted."""

    async def reject_nes(self, params: t.RejectNesNotification) -> None:
        """A suggestion was rejected."""

    async def did_open_document(self, params: t.DidOpenDocumentNotification) -> None:
        """A document was opened."""

    async def did_change_document(self, params: t.DidChangeDocumentNotification) -> None:
        """A document was changed."""

    async def did_close_document(self, params: t.DidCloseDocumentNotification) -> None:
        """A document was closed."""

    async def did_save_document(self, params: t.DidSaveDocumentNotification) -> None:
        """A document was saved."""

    async def did_focus_document(self, params: t.DidFocusDocumentNotification) -> None:
        """A document came into focus."""
