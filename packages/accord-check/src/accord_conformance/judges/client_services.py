"""Judges of what the client does for the agent: files, terminals, elicitation, MCP servers."""

from __future__ import annotations

import re
from typing import Any

from accord.text.lenient_json import is_object
from accord_conformance.judges.base import Judge, items
from accord_conformance.judges.turns import NOTICED_S
from accord_conformance.traffic.connection_state import SETUP_METHODS
from accord_conformance.traffic.message import Notification, Request, format_value

# Files and terminals of the client (version 1) and terminals of the agent (version 2).


class _Terminal:
    """One terminal of the client."""

    def __init__(self, created: Request) -> None:
        self.created = created
        limit = created.params.get("outputByteLimit")
        self.limit: int | None = limit if isinstance(limit, int) else None
        self.exited: Request | None = None
        self.killed: Request | None = None
        self.released: Request | None = None
        self.given_back = False  # the agent sent a request to release it


class FilesAndTerminals(Judge):
    """R-FS and R-TERM, and the use of terminals in version 2."""

    rules = (
        "R-FS-03",
        "R-TERM-04",
        "R-TERM-06",
        "R-TERM-08",
        "R-TERM-09",
        "R-TERM-10",
        "R-DTERM-11",
    )

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._terminals: dict[tuple[str, str], _Terminal] = {}
        self._shows = False  # the agent has shown a terminal of its own

    def on_request(self, call: Request) -> None:
        if call.method == "terminal/release" and is_object(call.params):
            terminal = self._terminals.get(_terminal_key(call, call.params))
            if terminal is not None:
                terminal.given_back = True
        if call.sender == "client" and call.method.startswith("terminal/"):
            self.judge(
                "R-DTERM-11",
                call.method == "terminal/cancel",
                call,
                expected="no request for a terminal except `terminal/cancel`",
                got=call.method,
            )

    def on_notification(self, note: Notification) -> None:
        update = note.params.get("update") if is_object(note.params) else None
        if note.sender == "agent" and is_object(update):
            self._shows |= update.get("sessionUpdate") == "terminal_update"

    def on_response(self, call: Request) -> None:
        if call.sender != "agent" or not is_object(call.params):
            return
        if call.method == "fs/read_text_file":
            self._read(call)
        elif call.method == "terminal/create" and call.ok and is_object(call.result):
            self._terminals[_terminal_key(call, call.result)] = _Terminal(call)
        elif call.method.startswith("terminal/"):
            terminal = self._terminals.get(_terminal_key(call, call.params))
            if terminal is not None:
                self._use(terminal, call)

    def _read(self, call: Request) -> None:
        limit = call.params.get("limit")
        text = call.result.get("content") if is_object(call.result) else None
        if isinstance(limit, int) and isinstance(text, str):
            lines = text.count("\n") + (not text.endswith("\n") and text != "")
            self.judge(
                "R-FS-03",
                lines <= limit,
                call,
                expected=f"at most {limit} lines",
                got=f"{lines} lines",
            )

    def _use(self, terminal: _Terminal, call: Request) -> None:
        if terminal.released is not None:
            # They may have crossed: only a message after the response is later.
            assert terminal.released.response is not None
            if call.frame.number > terminal.released.response.frame.number:
                self.judge(
                    "R-TERM-10",
                    not call.ok,
                    terminal.released,
                    call,
                    expected="an error for a released terminal",
                    got="a result",
                )
            return
        killed = terminal.killed and terminal.killed.response
        if killed and call.frame.number > killed.frame.number:
            self.judge(
                "R-TERM-08",
                call.ok,
                terminal.killed,
                call,
                expected="a result: the id of a killed terminal stays valid",
                got=f"error {format_value(call.code)}",
            )
        if not call.ok:
            return
        match call.method:
            case "terminal/output" if is_object(call.result):
                self._output(terminal, call)
            case "terminal/wait_for_exit":
                terminal.exited = call
            case "terminal/kill":
                terminal.killed = call
            case "terminal/release":
                terminal.released = call
            case _:
                pass

    def _output(self, terminal: _Terminal, call: Request) -> None:
        output = call.result.get("output")
        if terminal.limit is not None and isinstance(output, str):
            size = len(output.encode("utf-8", "surrogatepass"))
            self.judge(
                "R-TERM-04",
                size <= terminal.limit,
                terminal.created,
                call,
                expected=f"at most {terminal.limit} bytes",
                got=f"{size} bytes",
            )
        exited = terminal.exited and terminal.exited.response
        if exited and call.frame.number > exited.frame.number:
            self.judge(
                "R-TERM-06",
                is_object(call.result.get("exitStatus")),
                terminal.exited,
                call,
                expected="`exitStatus` after the command has exited",
                got=format_value(call.result.get("exitStatus")),
            )

    def on_end(self) -> None:
        if self._shows:
            self.judge("R-DTERM-11", True)
        if not self.state.ended_sides:
            return  # the recording may stop in the middle
        for terminal in self._terminals.values():
            self.judge(
                "R-TERM-09",
                terminal.given_back,
                terminal.created,
                expected="terminal/release for each created terminal",
                got="none",
            )


def _terminal_key(call: Request, named: dict[str, Any]) -> tuple[str, str]:
    return call.session_id or "", str(named.get("terminalId"))


# Elicitation: forms and URLs that the agent shows to the user.

_CREATE = "elicitation/create"


class Elicitation(Judge):
    """R-ELIC."""

    rules = (
        "R-ELIC-03",
        "R-ELIC-05",
        "R-ELIC-07",
        "R-ELIC-22",
        "R-ELIC-24",
        "R-ELIC-28",
        "R-ELIC-29",
    )

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._pages: dict[
            str, Request
        ] = {}  # outstanding: unanswered, or accepted and not completed
        self._ever: set[str] = set()

    def on_request(self, call: Request) -> None:
        if call.method != _CREATE or not is_object(call.params):
            return
        params = call.params
        if "requestId" in params and self.state.version == 2:
            self.judge(
                "R-ELIC-05",
                self.state.find_request("client", params["requestId"]) is not None,
                call,
                expected="the id of a pending request of the client",
                got=format_value(params["requestId"]),
            )
        schema = params.get("requestedSchema")
        if params.get("mode") == "form" and is_object(schema) and self.state.version == 1:
            self.judge(
                "R-ELIC-07",
                "type" in schema and "properties" in schema,
                call,
                expected="`type` and `properties` in `requestedSchema`",
                got=format_value(schema),
            )
        if params.get("mode") == "url":
            self._page(call, params)

    def _page(self, call: Request, params: dict[str, Any]) -> None:
        ident, url = params.get("elicitationId"), params.get("url")
        if isinstance(ident, str):
            self.judge(
                "R-ELIC-28",
                ident not in self._pages,
                self._pages.get(ident),
                call,
                expected="an id that no outstanding URL elicitation has",
                got=format_value(ident),
            )
            self._pages[ident] = call
            self._ever.add(ident)
        if isinstance(url, str):
            self.judge(
                "R-ELIC-22",
                not _has_password(url),
                call,
                expected="a URL without credentials",
                got="a URL with user name and password",
            )

    def on_response(self, call: Request) -> None:
        if call.method != _CREATE or not is_object(call.params):
            return
        mode = call.params.get("mode")
        offered = getattr(self.state.capabilities["client"], "elicitation", None)
        is_known_mode = mode in ("form", "url") and None not in self.state.capabilities.values()
        if is_known_mode and getattr(offered, str(mode), None) is None:
            self.judge(
                "R-ELIC-03",
                call.code in (-32602, -32601) if offered is None else call.code == -32602,
                call,
                expected="-32602 for a mode that was not advertised",
                got="a result" if call.ok else format_value(call.code),
            )
        result = call.result if is_object(call.result) else {}
        if result.get("action") != "accept":
            for ident in [ident for ident, page in self._pages.items() if page is call]:
                del self._pages[ident]
        if call.ok:
            # Version 2 does not define the values of custom fields.
            content = result.get("content")
            flat = not is_object(content) or not any(map(is_object, content.values()))
            if self.state.version == 1:
                self.judge(
                    "R-ELIC-24",
                    flat,
                    call,
                    expected="strings, numbers, booleans and lists of strings",
                    got="an object",
                )

    def on_notification(self, note: Notification) -> None:
        if note.method != "elicitation/complete" or not is_object(note.params):
            return
        ident = note.params.get("elicitationId")
        self.judge(
            "R-ELIC-29",
            str(ident) in self._ever,
            note,
            expected="the id of a URL elicitation of this connection",
            got=format_value(ident),
        )
        if isinstance(ident, str):
            self._pages.pop(ident, None)


def _has_password(url: str) -> bool:
    """Return whether a URL has `user:password@` before its host."""
    return re.match(r"[a-z][a-z0-9+.-]*://[^/?#@]*:[^/?#@]+@", url, re.IGNORECASE) is not None


# MCP over ACP: messages of the client's MCP servers, carried by the connection.

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
            key = _mcp_key(call.params)
            if key is not None:  # drafts had other keys, and a handshake of their own
                self._inner(call, call.params)
                self._again(self._requests.get(key), call)
                self._requests[key] = call
                setup = self._declaring(key[0])
                if setup is not None:
                    self._while_declared[call.frame.number] = setup

    def on_notification(self, note: Notification) -> None:
        key = _mcp_key(note.params)
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


def _mcp_key(params: Any) -> _Key | None:
    if not is_object(params):
        return None
    server, request = params.get("serverId"), params.get("requestId")
    return (server, request) if isinstance(server, str) and isinstance(request, str) else None
