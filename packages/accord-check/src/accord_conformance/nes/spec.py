"""The methods of next edit suggestions, and version 1 extended by them."""

from __future__ import annotations

from accord.v1.methods import SPEC as V1
from accord.wire.protocol import Method
from accord_conformance.nes import types as t

METHODS: tuple[Method, ...] = (
    Method(
        name="initialize",
        call="initialize",
        params=t.InitializeRequest,
        result=t.InitializeResponse,
        to="agent",
    ),
    Method(
        name="nes/start",
        call="start_nes",
        params=t.StartNesRequest,
        result=t.StartNesResponse,
        to="agent",
        unstable=True,
        gate="agent.nes",
    ),
    Method(
        name="nes/suggest",
        call="suggest_nes",
        params=t.SuggestNesRequest,
        result=t.SuggestNesResponse,
        to="agent",
        unstable=True,
        gate="agent.nes",
    ),
    Method(
        name="nes/accept",
        call="accept_nes",
        params=t.AcceptNesNotification,
        to="agent",
        unstable=True,
        gate="agent.nes",
    ),
    Method(
        name="nes/reject",
        call="reject_nes",
        params=t.RejectNesNotification,
        to="agent",
        unstable=True,
        gate="agent.nes",
    ),
    Method(
        name="nes/close",
        call="close_nes",
        params=t.CloseNesRequest,
        result=t.CloseNesResponse,
        to="agent",
        unstable=True,
        gate="agent.nes",
    ),
    Method(
        name="document/didOpen",
        call="did_open_document",
        params=t.DidOpenDocumentNotification,
        to="agent",
        unstable=True,
        gate="agent.nes.events.document.did_open",
    ),
    Method(
        name="document/didChange",
        call="did_change_document",
        params=t.DidChangeDocumentNotification,
        to="agent",
        unstable=True,
        gate="agent.nes.events.document.did_change",
    ),
    Method(
        name="document/didClose",
        call="did_close_document",
        params=t.DidCloseDocumentNotification,
        to="agent",
        unstable=True,
        gate="agent.nes.events.document.did_close",
    ),
    Method(
        name="document/didSave",
        call="did_save_document",
        params=t.DidSaveDocumentNotification,
        to="agent",
        unstable=True,
        gate="agent.nes.events.document.did_save",
    ),
    Method(
        name="document/didFocus",
        call="did_focus_document",
        params=t.DidFocusDocumentNotification,
        to="agent",
        unstable=True,
        gate="agent.nes.events.document.did_focus",
    ),
)

SPEC = V1.extended(
    METHODS,
    initialize_request=t.InitializeRequest,
    initialize_response=t.InitializeResponse,
    capability_types={"agent": t.AgentCapabilities, "client": t.ClientCapabilities},
)
