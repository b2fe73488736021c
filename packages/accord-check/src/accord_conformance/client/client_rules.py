"""Judges what a client does on its own, in every run as its agent."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any, TypeAlias

from accord.text.lenient_json import is_array, is_object
from accord_conformance.client.fixtures import BROKEN_LOGIN, COMMAND
from accord_conformance.harness.raw_connection import NoResponse, RawConnection
from accord_conformance.judges.base import Evidence, make_finding
from accord_conformance.reports.report import Report
from accord_conformance.rules.authority import Authority
from accord_conformance.rules.manifest import requirements
from accord_conformance.traffic.connection_state import SETUP_METHODS
from accord_conformance.traffic.message import Request

Json: TypeAlias = dict[str, Any]

CLIENT_RULES = (
    "R-AUTH-12",
    "R-AUTH-30",
    "R-INIT-07",
    "R-INIT-15",
    "R-INIT-32",
    "R-INIT-36",
    "R-REQCAN-14",
    "R-PROMPT-17",
    "R-PROMPT-18",
    "R-PROV-11",
    "R-SESS-17",
    "R-SESS-28",
    "R-TOOL-11",
    "R-LIST-04",
    "R-LIST-09",
    "R-STATUS-05",
    "R-STATUS-07",
    "R-SYSP-09",
    "R-MODE-04",
    "R-CMD-02",
    "R-EXT-05",
    "R-STDIO-07",
)


class ClientRules:
    """Judges the client of one connection; all findings go into `report`."""

    def __init__(self, report: Report, version: Callable[[], int | None]) -> None:
        self.report = report
        self.where = ""
        self._version = version
        self._prompts: dict[str, tuple[Any, Request]] = {}
        self._first: Request | None = None  # the `initialize` request for version 2
        self._second_page: Request | None = None
        self._refused: Request | None = None  # because it requires a login
        self._login: Request | None = None

    def judge(
        self,
        rule: str,
        passed: bool,
        *seen: Evidence,
        expected: str = "",
        got: str = "",
        authority: Authority | None = None,
    ) -> None:
        """Add a finding about a rule, unless the rule is not of the agreed version."""
        version = self._version()
        if version is not None and version not in requirements()[rule].versions:
            return
        self.report.add(
            make_finding(
                rule,
                passed,
                "client",
                *seen,
                expected=expected,
                got=got,
                where=self.where,
                authority=authority,
            )
        )

    # The handshake.

    def check_deferred(self, early: Request, line: RawConnection) -> None:
        """Judge that a request before the response to `initialize` waits."""
        self.judge(
            "R-INIT-36",
            early.response is None and not line.is_closed,
            early,
            expected="requests that arrive before the response to `initialize` are held",
            got="it disconnected" if line.is_closed else "a response before that",
        )

    def initialized(self, call: Request) -> None:
        """Record that `initialize` has been answered."""
        asked = call.params.get("protocolVersion") if is_object(call.params) else None
        if asked == 2 and self._version() == 1:
            self._first = call

    async def check_disconnect(self, line: RawConnection) -> None:
        """Judge that the client disconnects when it gets a version that it does not support."""
        before = len(line.requests)
        with suppress(NoResponse):
            await line.wait_until(lambda: line.is_closed or len(line.requests) > before, "end")
        more = line.requests[before:]
        call = line.requests[0]
        asked = call.params.get("protocolVersion") if is_object(call.params) else None
        got = f"it sent {more[0].method}" if more else "it stayed connected"
        expected = "a client that disconnects, because it does not support this version"
        seen = (call, *more)
        self.judge("R-INIT-07", not more and line.is_closed, *seen, expected=expected, got=got)
        if asked == 2 and (more or line.is_closed):
            self.judge("R-INIT-32", not more, *seen, expected=expected, got=got)

    def login_asked(self, call: Request) -> None:
        """Record that a request was refused because it requires a login."""
        self._refused = call

    def login_tried(self, call: Request, method: Any) -> None:
        """Record a login of the client."""
        self._login = call
        self.judge(
            "R-AUTH-30",
            method != BROKEN_LOGIN,
            call,
            expected="a malformed entry of `authMethods` is ignored",
            got=f"a login with {method}",
        )

    # Requests.

    def on_request(self, call: Request, params: Json) -> None:
        """Judge a request of the client."""
        self._fell_back(call, params)
        ident = params.get("sessionId")
        if call.method in SETUP_METHODS and self._login is not None and self._refused is not None:
            self.judge("R-AUTH-12", True)
            self._refused = None
        match call.method:
            case "session/load" | "session/resume" | "session/fork":
                if isinstance(ident, str):
                    self._reopened(call, params, ident)
            case "session/list":
                self._listed(call, params)
            case "session/set_mode" | "session/set_config_option":
                self._switched(call, params)
            case "session/prompt":
                self._prompted(call, params)
            case _:
                pass

    def opened(self, ident: str, call: Request, params: Json) -> None:
        """Record the id of a new session."""
        self._prompts[ident] = params.get("systemPrompt"), call

    def _fell_back(self, call: Request, params: Json) -> None:
        first, self._first = self._first, None
        if first is None or not is_object(first.params):
            return
        offers = first.params.get("capabilities")
        if not is_object(offers) or not any(offers.values()):
            return  # it has no capability that version 1 does not define
        again = call.method == "initialize" and params.get("protocolVersion") == 1
        self.judge(
            "R-INIT-15",
            again,
            first,
            call,
            expected="a second `initialize`, with params of version 1",
            got=call.method,
        )

    def _reopened(self, call: Request, params: Json, ident: str) -> None:
        known = self._prompts.get(ident)
        if known is None or known[0] is None:
            return
        given, made = known
        self.judge(
            "R-SYSP-09",
            params.get("systemPrompt") == given,
            made,
            call,
            expected="the system prompt with which the session was created",
            got="another" if params.get("systemPrompt") else "none",
        )

    def _listed(self, call: Request, params: Json) -> None:
        cursor = params.get("cursor")
        if cursor is None:
            self._unfollowed()
        elif cursor == "2":
            self._second_page = call
        elif cursor == "":
            self._second_page = None
            self.judge("R-LIST-04", True)

    def _unfollowed(self) -> None:
        """Judge that a client requests the page of a cursor that is an empty text."""
        page, self._second_page = self._second_page, None
        if page is None or self._version() != 2 or not page.ok:
            return
        self.judge(
            "R-LIST-04",
            False,
            page,
            expected='another request, with the cursor `""`',
            got="no further request",
        )

    def _switched(self, call: Request, params: Json) -> None:
        if params.get("configId", "mode") == "mode":
            self.judge(
                "R-MODE-04",
                call.method == "session/set_config_option",
                call,
                expected="`session/set_config_option`, because the session has `configOptions`",
                got=call.method,
            )

    def _prompted(self, call: Request, params: Json) -> None:
        blocks = params.get("prompt")
        for block in blocks if is_array(blocks) else []:
            words = block.get("text") if is_object(block) else None
            if isinstance(words, str) and words.strip().lstrip("/").startswith(COMMAND):
                self.judge(
                    "R-CMD-02",
                    words.strip().startswith("/"),
                    call,
                    expected=f"`/{COMMAND}` and the input after it",
                    got=words.strip(),
                )

    # Turns, and the end.

    def expects_idle(self, line: RawConnection, call: Request) -> None:
        """Judge that the client waits for the idle state after the response to its prompt."""
        self.judge(
            "R-PROMPT-17",
            not line.is_closed,
            call,
            expected="a client that follows the state of the session until it is idle",
            got="it disconnected when the prompt was answered",
        )

    def terminated(self, line: RawConnection) -> None:
        """Judge a signal that arrives while stdin is open."""
        self.judge(
            "R-STDIO-07",
            False,
            line.observer.state.frames[-1] if line.observer.state.frames else None,
            expected="stdin closed before any signal",
            got="SIGTERM while stdin was still open",
        )

    def finished(self, line: RawConnection) -> None:
        """Judge what only the end shows."""
        self._unfollowed()
        if self._refused is not None and self._login is not None and self._login.ok:
            self.judge(
                "R-AUTH-12",
                False,
                self._refused,
                self._login,
                expected="the refused request again, after the login",
                got="no such request",
            )
        if line.is_closed and line.close_error is None:
            self.judge("R-STDIO-07", True)
