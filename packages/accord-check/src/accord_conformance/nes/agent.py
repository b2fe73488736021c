"""The mix-in for an `accord.Agent` that suggests edits, and the two sides to subclass."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar

from accord import v1
from accord.errors import MethodNotFound
from accord.wire.protocol import Side
from accord_conformance.nes import types as t
from accord_conformance.nes.types import SPEC


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


# The two sides of version 1 with next edit suggestions, to subclass.


class RemoteClient(v1.RemoteClient):
    """The client, as an agent calls it."""

    spec = SPEC


class RemoteAgent(v1.RemoteAgent):
    """The agent, as a client calls it."""

    spec = SPEC

    async def start_nes(self, params: t.StartNesRequest) -> t.StartNesResponse:
        """Begin a session of next edit suggestions."""
        return await self._call("start_nes", params)

    async def suggest_nes(self, params: t.SuggestNesRequest) -> t.SuggestNesResponse:
        """Suggest the next edits."""
        return await self._call("suggest_nes", params)

    async def accept_nes(self, params: t.AcceptNesNotification) -> None:
        """Say that a suggestion was accepted."""
        await self._notify("nes/accept", params)

    async def reject_nes(self, params: t.RejectNesNotification) -> None:
        """Say that a suggestion was rejected."""
        await self._notify("nes/reject", params)

    async def close_nes(self, params: t.CloseNesRequest) -> t.CloseNesResponse:
        """End a session of next edit suggestions."""
        return await self._call("close_nes", params)

    async def did_open_document(self, params: t.DidOpenDocumentNotification) -> None:
        """Say that a document was opened."""
        await self._notify("document/didOpen", params)

    async def did_change_document(self, params: t.DidChangeDocumentNotification) -> None:
        """Say that a document was changed."""
        await self._notify("document/didChange", params)

    async def did_close_document(self, params: t.DidCloseDocumentNotification) -> None:
        """Say that a document was closed."""
        await self._notify("document/didClose", params)

    async def did_save_document(self, params: t.DidSaveDocumentNotification) -> None:
        """Say that a document was saved."""
        await self._notify("document/didSave", params)

    async def did_focus_document(self, params: t.DidFocusDocumentNotification) -> None:
        """Say that a document came into focus."""
        await self._notify("document/didFocus", params)


class AgentRole(v1.AgentRole):
    """An agent of version 1 that suggests edits: override the methods it serves."""

    spec = SPEC
    side: ClassVar[Side] = "agent"
    remote_class: type[v1.RemoteClient] = RemoteClient

    def start_nes(
        self, params: t.StartNesRequest, context: v1.AgentContext
    ) -> v1.MaybeAwaitable[t.StartNesResponse]:
        """Begin a session of next edit suggestions."""
        raise MethodNotFound

    def suggest_nes(
        self, params: t.SuggestNesRequest, context: v1.AgentContext
    ) -> v1.MaybeAwaitable[t.SuggestNesResponse]:
        """Suggest the next edits."""
        raise MethodNotFound

    def accept_nes(
        self, params: t.AcceptNesNotification, context: v1.AgentContext
    ) -> v1.MaybeAwaitable[None]:
        """A suggestion was accepted."""
        raise MethodNotFound

    def reject_nes(
        self, params: t.RejectNesNotification, context: v1.AgentContext
    ) -> v1.MaybeAwaitable[None]:
        """A suggestion was rejected."""
        raise MethodNotFound

    def close_nes(
        self, params: t.CloseNesRequest, context: v1.AgentContext
    ) -> v1.MaybeAwaitable[t.CloseNesResponse]:
        """End a session of next edit suggestions."""
        raise MethodNotFound

    def did_open_document(
        self, params: t.DidOpenDocumentNotification, context: v1.AgentContext
    ) -> v1.MaybeAwaitable[None]:
        """A document was opened."""
        raise MethodNotFound

    def did_change_document(
        self, params: t.DidChangeDocumentNotification, context: v1.AgentContext
    ) -> v1.MaybeAwaitable[None]:
        """A document was changed."""
        raise MethodNotFound

    def did_close_document(
        self, params: t.DidCloseDocumentNotification, context: v1.AgentContext
    ) -> v1.MaybeAwaitable[None]:
        """A document was closed."""
        raise MethodNotFound

    def did_save_document(
        self, params: t.DidSaveDocumentNotification, context: v1.AgentContext
    ) -> v1.MaybeAwaitable[None]:
        """A document was saved."""
        raise MethodNotFound

    def did_focus_document(
        self, params: t.DidFocusDocumentNotification, context: v1.AgentContext
    ) -> v1.MaybeAwaitable[None]:
        """A document came into focus."""
        raise MethodNotFound


class ClientRole(v1.ClientRole):
    """A client of version 1 that shows suggestions; `remote_class` calls the agent."""

    spec = SPEC
    side: ClassVar[Side] = "client"
    remote_class: type[v1.RemoteAgent] = RemoteAgent
