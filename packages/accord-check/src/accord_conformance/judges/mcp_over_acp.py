"""MCP over ACP: messages of the client's MCP servers, carried by the connection."""

from __future__ import annotations

from typing import Any

from accord.text.lenient_json import is_object
from accord_conformance.judges.base import Judge
from accord_conformance.judges.paths import items
from accord_conformance.judges.turns import NOTICED_S
from accord_conformance.traffic.connection_state import SETUP_METHODS
from accord_conformance.traffic.message import Notification, Request
from accord_conformance.traffic.strict_types import format_value

_CARRY = "mcp/message"
_CANCELLED = -32800
_NO_SERVER = -33001
# Error codes of the connection.
_CODES = (-32602, _CANCELLED, -33000, _NO_SERVER, -33002)
# Error codes of MCP servers: method, resource, headers, version, URL elicitation.
_INNER_CODES = (-32601, -32002, -32020, -32022, -32042)
_META = "io.modelcontextprotocol/"

_Key = tuple[str, str]


class McpOverAcp(Judge):
    """R-MOA, except for wrong fields."""

    rules = (
        "R-MOA-02",
        "R-MOA-08",
        "R-MOA-09",
        "R-MOA-10",
        "R-MOA-11",
        "R-MOA-12",
        "R-MOA-13",
        "R-MOA-15",
    )

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._requests: dict[_Key, Request] = {}
        self._while_declared: dict[
            int, Request
        ] = {}  # setup requests, by the frame of the MCP request
        self._served = False  # the client has answered such a message

    def on_request(self, call: Request) -> None:
        if self.state.version is None or not is_object(call.params):
            return
        if call.sender == "client" and call.method in SETUP_METHODS:
            self._servers(call, call.params)
        elif call.sender == "agent" and call.method == _CARRY:
            key = _key(call.params)
            if key is not None:  # drafts had other keys, and a handshake of their own
                self._inner(call, call.params)
                self._again(self._requests.get(key), call)
                self._requests[key] = call
                setup = self._declaring(key[0])
                if setup is not None:
                    self._while_declared[call.frame.number] = setup

    def on_notification(self, note: Notification) -> None:
        key = _key(note.params)
        if note.sender != "client" or note.method != _CARRY or key is None:
            return
        if self.state.version is None:
            return
        request = self._requests.get(key)
        self.judge(
            "R-MOA-09",
            request is not None,
            note,
            expected="only notifications that belong to a request of the agent",
            got=f"one for {format_value(key[1])}, which it never made",
            by="client",
        )
        if request is not None:
            self.judge(
                "R-MOA-15",
                request.response is None,
                request,
                note,
                expected="no notification after the response",
                got="a notification after it",
                by="client",
            )

    def on_response(self, call: Request) -> None:
        if call.sender != "agent" or call.method != _CARRY or self.state.version is None:
            return
        if call.cancelled is not None:
            self._cancelled(call)
        elif not call.ok:
            self._failed(call)
        self._served |= call.ok
        self._early(call)

    def _early(self, call: Request) -> None:
        """Judge the result of a request that was sent while its server was being declared."""
        setup = self._while_declared.pop(call.frame.number, None)
        if setup is not None and call.code != _CANCELLED:
            self.judge(
                "R-MOA-08",
                call.code != _NO_SERVER,
                setup,
                call,
                expected="a server that accepts requests as soon as it is declared",
                got=f"error {_NO_SERVER}",
            )

    def _declaring(self, server: str) -> Request | None:
        """Return the unanswered request that declares a server."""
        for method in SETUP_METHODS:
            for setup in self.state.unanswered("client", method):
                servers = items(setup.params, "mcpServers") if is_object(setup.params) else []
                if any(s.get("type") == "acp" and s.get("serverId") == server for s in servers):
                    return setup
        return None

    def _servers(self, call: Request, params: dict[str, Any]) -> None:
        found = [
            server.get("serverId")
            for server in items(params, "mcpServers")
            if server.get("type") == "acp" and isinstance(server.get("serverId"), str)
        ]
        if found:
            self.judge(
                "R-MOA-02",
                len(found) == len(set(found)),
                call,
                expected="a different serverId for each server",
                got=format_value(found),
            )

    def _inner(self, call: Request, params: dict[str, Any]) -> None:
        inner = params.get("params")
        if inner is not None and not is_object(inner):
            return  # reported by R-MOA-05
        expected, got = "", ""
        if params.get("method") == "initialize":
            expected, got = "requests without a handshake", "initialize"
        else:
            meta = inner.get("_meta") if inner is not None else None
            meta = meta if is_object(meta) else {}
            if not isinstance(meta.get(f"{_META}protocolVersion"), str):
                expected, got = f"{_META}protocolVersion in _meta", format_value(meta)
            elif not is_object(meta.get(f"{_META}clientCapabilities")):
                expected, got = f"{_META}clientCapabilities in _meta", format_value(meta)
        self.judge("R-MOA-13", not expected, call, expected=expected, got=got, by="agent")

    def _again(self, earlier: Request | None, call: Request) -> None:
        if earlier is not None and earlier.response is None and earlier.cancelled is not None:
            return  # whether a cancelled request counts as active may be seen in two ways
        self.judge(
            "R-MOA-10",
            earlier is None or earlier.response is not None,
            earlier,
            call,
            expected="a requestId that no active request for this server has",
            got=format_value(call.params.get("requestId")),
        )

    def _cancelled(self, call: Request) -> None:
        assert call.cancelled is not None
        assert call.response is not None
        kept = call.ok or call.code == _CANCELLED
        if kept or call.response.frame.time - call.cancelled.time >= NOTICED_S:
            self.judge(
                "R-MOA-11",
                kept,
                call,
                call.cancelled,
                expected=f"{_CANCELLED}, or a result if it was faster",
                got=f"error {format_value(call.code)}",
                by="client",
            )

    def _failed(self, call: Request) -> None:
        """Judge an error; other meanings, such as a bug in the client, are not judged here."""
        leaked = call.code in _INNER_CODES and self._served
        if leaked or call.code in _CODES:
            self.judge(
                "R-MOA-12",
                not leaked,
                call,
                expected="the error of the MCP server inside the result",
                got=f"error {format_value(call.code)} of the connection",
                by="client",
            )


def _key(params: Any) -> _Key | None:
    if not is_object(params):
        return None
    server, request = params.get("serverId"), params.get("requestId")
    return (server, request) if isinstance(server, str) and isinstance(request, str) else None
