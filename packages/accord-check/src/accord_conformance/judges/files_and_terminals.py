"""Files and terminals of the client (version 1) and terminals of the agent (version 2)."""

from __future__ import annotations

from typing import Any

from accord.text.lenient_json import is_object
from accord_conformance.judges.base import Judge
from accord_conformance.traffic.message import Notification, Request
from accord_conformance.traffic.strict_types import format_value


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
            terminal = self._terminals.get(_key(call, call.params))
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
            self._terminals[_key(call, call.result)] = _Terminal(call)
        elif call.method.startswith("terminal/"):
            terminal = self._terminals.get(_key(call, call.params))
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


def _key(call: Request, named: dict[str, Any]) -> tuple[str, str]:
    return call.session_id or "", str(named.get("terminalId"))
