"""The agent that a client under test connects to: it serves what it advertises, and nothing else.

`ScenarioAgent` answers the requests of the client and sends what scenarios want. `ClientRules`
judges what the client does on its own, in every run.
"""

from __future__ import annotations

import itertools
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from typing import Any, TypeAlias

from accord.text.lenient_json import is_array, is_object
from accord_conformance.client import fixtures
from accord_conformance.client.fixtures import (
    BROKEN_LOGIN,
    COMMAND,
    ActivePrompt,
    ClientOpenedSession,
)
from accord_conformance.client.state_probe import (
    ExpectedState,
    IsNot,
    StateProbe,
    expect,
    probe_state,
)
from accord_conformance.harness import NoResponse, NotExercised, RawConnection
from accord_conformance.judges.base import Evidence, make_finding
from accord_conformance.reports.report import Report
from accord_conformance.rules.manifest import Authority, requirements
from accord_conformance.traffic.connection_state import SETUP_METHODS
from accord_conformance.traffic.message import Frame, Notification, Request

# Judges what a client does on its own, in every run as its agent.

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


# The agent.

PAUSE_S = 0.1  # to notice a reaction before `initialize` is answered


# Starts a task in the task group of the run.
Start: TypeAlias = Callable[[Coroutine[Any, Any, None]], object]
OnPrompt: TypeAlias = Callable[[ActivePrompt], Awaitable[None]]


class ScenarioAgent:
    """One connection with a client under test; `play` handles its prompts, in tasks that `start`
    creates.

    `versions` are the supported versions. `answer` is a version that no client supports: the agent
    answers `initialize` with it, and the client has to disconnect. With `login`, sessions require a
    login.
    """

    def __init__(
        self,
        connection: RawConnection,
        rules: ClientRules,
        play: OnPrompt,
        start: Start,
        *,
        versions: tuple[int, ...] = (1, 2),
        answer: int | None = None,
        login: bool = False,
        pause_s: float = PAUSE_S,
    ) -> None:
        self.connection = connection
        self.rules = rules
        self.sessions: dict[str, ClientOpenedSession] = {}
        self.answers_probes = True
        self.has_order = True  # between messages of the connection and of a session
        self._on_prompt = play
        self._versions = versions
        self._answer = answer
        self.pause_s = pause_s
        self._requires_login = login
        self._logged_in = not login
        self._numbers = itertools.count(1)
        self._probes: dict[str, StateProbe] = {}
        self._listings = 0  # that were started
        self._statuses = 0  # that were requested
        self._start = start
        connection.on_request = self._on_request
        connection.on_notification = self._on_notification

    @property
    def version(self) -> int:
        """The agreed version, 1 before there is one."""
        return self.connection.observer.state.version or 1

    # Sending.

    def update(self, session: ClientOpenedSession, kind: str, /, **fields: Any) -> Frame:
        """Send a `session/update`; return it."""
        update = {"sessionUpdate": kind, **fields}
        self.connection.send_notification(
            "session/update", {"sessionId": session.id, "update": update}
        )
        return self.last_frame

    def say(self, session: ClientOpenedSession, words: str) -> None:
        """Send a message to the user."""
        content = fixtures.text_block(words + "\n\n")
        ident = f"said-{next(self._numbers)}"
        update = {"sessionUpdate": "agent_message_chunk", "messageId": ident, "content": content}
        session.sent_updates.append(update)
        self.connection.send_notification(
            "session/update", {"sessionId": session.id, "update": update}
        )

    @property
    def last_frame(self) -> Frame:
        """The last frame that was sent or received."""
        return self.connection.observer.state.frames[-1]

    async def is_alive(self) -> bool:
        """Return whether the client responds twice: then it has read all earlier messages."""
        for _ in range(2):
            if not self.answers_probes:
                try:
                    await self.connection.wait_until(
                        lambda: self.connection.is_closed, "end", within_s=self.pause_s
                    )
                except NoResponse:
                    continue
                return False
            call = self.connection.send_request(fixtures.ABSENT_METHOD, {})
            try:
                await self.connection.wait_for_response(call)
            except NoResponse:
                return False
        return not self.connection.is_closed

    async def stays_alive(self) -> bool:
        """Return whether the client responds, and stays connected for a moment."""
        if not await self.is_alive():
            return False
        await self.pause()
        return not self.connection.is_closed

    # Serving.

    def _on_request(self, call: Request) -> None:
        params: Json = call.params if is_object(call.params) else {}
        self.rules.on_request(call, params)
        if not isinstance(params.get("sessionId", ""), str):
            self.connection.respond_error(call, -32602, "Invalid params: sessionId is a string")
            return
        if call.method == "initialize":
            self._start(self._initialize(call, params))
        elif self.connection.observer.state.initialized is None:
            self.connection.respond_error(call, -32600, "Not initialized yet")
        elif call.method in SETUP_METHODS and not self._logged_in:
            self.rules.login_asked(call)
            self.connection.respond_error(call, -32000, "Log in first")
        elif (serve := self._table.get(call.method)) is not None:
            serve(self, call, params)
        else:
            self.connection.respond_error(call, -32601, "Method not found", {"method": call.method})

    def _on_notification(self, note: Notification) -> None:
        session = self.sessions.get(note.session_id or "")
        if note.method == "session/cancel" and session is not None:
            session.cancels += 1

    async def _initialize(self, call: Request, params: Json) -> None:
        line, asked = self.connection, params.get("protocolVersion")
        if not isinstance(asked, int):
            line.respond_error(call, -32602, "Expected a version")
            return
        if self._answer is not None:
            line.respond(call, {**fixtures.initialize_result(1), "protocolVersion": self._answer})
            await self.rules.check_disconnect(line)
            return
        again = line.observer.state.initialized is not None
        version = asked if asked in self._versions else max(self._versions)
        if not again:
            await self._early(asked)
        if line.is_closed:
            return
        line.respond(call, fixtures.initialize_result(version, login=self._requires_login))
        self.rules.initialized(call)

    async def _early(self, asked: int) -> None:
        """Send what an agent may send before the response to `initialize`."""
        line = self.connection
        line.send_notification("$/cancel_request", {"requestId": "nothing"})
        cancel = self.last_frame
        await self.pause()
        self.rules.judge(
            "R-REQCAN-14",
            not line.is_closed,
            cancel,
            expected="a client that still responds after an early `$/cancel_request`",
            got="it disconnected",
        )
        if asked < 2 or line.is_closed:
            return
        early = line.send_request(fixtures.ABSENT_METHOD, {"early": True}, ident="early")
        await self.pause()
        self.rules.check_deferred(early, line)

    async def pause(self) -> None:
        """Wait for a moment, to notice a wrong reaction."""
        try:
            await self.connection.wait_until(
                lambda: self.connection.is_closed, "end", within_s=self.pause_s
            )
        except NoResponse:
            return

    # Logging in.

    def _log_in(self, call: Request, params: Json) -> None:
        self.rules.login_tried(call, params.get("methodId"))
        if params.get("methodId") == fixtures.LOGIN:
            self._logged_in = True
            self.connection.respond(call, {})
        else:
            self.connection.respond_error(call, -32602, "Unknown auth method")

    def _log_out(self, call: Request, _: Json) -> None:
        self._logged_in = not self._requires_login
        self.connection.respond(call, {})

    # Sessions.

    def _open(self, ident: str, params: Json) -> ClientOpenedSession:
        roots = params.get("additionalDirectories")
        roots = [root for root in roots if isinstance(root, str)] if is_array(roots) else []
        old = self.sessions.get(ident)
        session = ClientOpenedSession(ident, str(params.get("cwd")), roots)
        if old is not None:
            session.sent_updates, session.begun = old.sent_updates, old.begun
        self.sessions[ident] = session
        return session

    def _new(self, call: Request, params: Json) -> None:
        session = self._open(f"check-{next(self._numbers)}", params)
        self.rules.opened(session.id, call, params)
        self._start(self._begin(call, session))

    async def _begin(self, call: Request, session: ClientOpenedSession) -> None:
        """Respond, with an update before the response and updates after it."""
        try:
            if not self.connection.is_closed:
                await self._begin_with_updates(call, session)
        finally:
            session.begun.set()

    async def _begin_with_updates(self, call: Request, session: ClientOpenedSession) -> None:
        sent: list[Evidence] = [
            self.update(session, "session_info_update", title="Check of this client")
        ]
        if self.version == 2:
            sent += [self.update(session, "state_update", state="running")]
        self.connection.respond(
            call, {"sessionId": session.id, **fixtures.session_setup(self.version, session.mode)}
        )
        self.update(
            session, "available_commands_update", availableCommands=fixtures.commands(self.version)
        )
        await self._first_probe()
        if self.version == 2 and not self.connection.is_closed:
            await self._judge_state(
                session, [*sent, call], expect("R-SESS-28", "", state=IsNot(("idle",)))
            )
            # If streams have no common order, a client that has sent its prompt already may see
            # both states after that, and would take the second one for the end of the turn.
            calls = self.connection.requests
            is_early = any(
                one.method == "session/prompt" and one.session_id == session.id for one in calls
            )
            if self.has_order or not is_early:
                self.update(session, "state_update", state="idle")

    async def _judge_state(
        self, session: ClientOpenedSession, sent: list[Evidence], *claims: ExpectedState
    ) -> None:
        """Judge the client's state of a session, if the client reports it."""
        if self.answers_probes and not self.connection.is_closed:
            with suppress(NotExercised, NoResponse):
                await self._probe(session).check(sent, *claims)

    def _probe(self, session: ClientOpenedSession) -> StateProbe:
        if session.id not in self._probes:
            window = StateProbe(self.connection, session.id, self.rules.judge, self.pause_s)
            self._probes[session.id] = window
        return self._probes[session.id]

    async def _first_probe(self) -> None:
        """Find out whether the client answers unknown requests, by which the kit synchronizes."""
        if not self.answers_probes:
            return
        call = self.connection.send_request(fixtures.ABSENT_METHOD, {})
        try:
            await self.connection.wait_for_response(call)
        except NoResponse:
            self.answers_probes = False
            if not self.connection.is_closed:
                self.rules.judge(
                    "R-EXT-05",
                    False,
                    call,
                    expected="a response to a custom request",
                    got="none",
                )

    def _load(self, call: Request, params: Json) -> None:
        ident = params.get("sessionId")
        if not isinstance(ident, str) or ident not in self.sessions:
            self.connection.respond_error(call, -32002, "Unknown session", {"sessionId": ident})
            return
        session = self._open(ident, params)
        replays = call.method == "session/load" or is_object(params.get("replayFrom"))
        if replays:
            rewritten = fixtures.REPLAYED_UPDATES if self.version == 2 else []
            for update in [*session.sent_updates, *rewritten]:
                self.connection.send_notification(
                    "session/update", {"sessionId": ident, "update": update}
                )
        if self.version == 2:
            self.update(session, "state_update", state="idle")
        self.connection.respond(call, fixtures.session_setup(self.version, session.mode))
        if replays and self.version == 2:
            whole = [fixtures.text_block("C"), fixtures.text_block("D")]
            replayed = expect("R-SESS-17", "messages", fixtures.REPLAYED_ID, content=whole)
            self._start(self._judge_state(session, [call], replayed))

    def _list(self, call: Request, params: Json) -> None:
        self._listings += params.get("cursor") is None
        # Only the first listing has additional directories.
        more: Json = {"additionalDirectories": [fixtures.ELSEWHERE]} if self._listings == 1 else {}
        infos: list[Json] = [
            {"sessionId": one.id, "cwd": one.cwd, **more} for one in self.sessions.values()
        ]
        where = params.get("cwd")
        infos = [info for info in infos if where in (None, info["cwd"])]
        # Three pages; the cursor of the third is easily mistaken for a missing one.
        last = "3" if self.version == 1 else ""
        match params.get("cursor"):
            case None:
                page: Json = {"sessions": infos[:1], "nextCursor": "2"}
            case "2":
                page = {"sessions": infos[1:2], "nextCursor": last}
            case cursor if cursor == last:
                page = {"sessions": infos[2:]}
            case _:
                self.connection.respond_error(call, -32602, "Unknown cursor")
                return
        self.connection.respond(call, page)
        for info in page["sessions"] if "nextCursor" not in page else ():
            said = [fixtures.ELSEWHERE] if more else None
            listed = expect("R-LIST-09", "sessions", info["sessionId"], additionalDirectories=said)
            self._start(self._judge_state(self.sessions[info["sessionId"]], [call], listed))

    def _status(self, call: Request, params: Json) -> None:
        session = self.sessions.get(params.get("sessionId", ""))
        if session is None:
            self.connection.respond_error(call, -32002, "Unknown session", {"sessionId": None})
            return
        self._statuses += 1
        if self._statuses % 2:
            said: Json = {"status": "open"}
            if self.version == 2:
                said["state"] = {"state": "running"}
            self.connection.respond(call, said)
            known = expect("R-STATUS-07", "statuses", session.id, state=IsNot(("idle",)))
            self._start(self._judge_state(session, [call], known))
            return
        # An unknown status, and no state.
        self.connection.respond(call, {"status": "accord_later"})
        saved = expect("R-STATUS-05", "statuses", session.id, status="saved")
        unknown = expect("R-STATUS-07", "statuses", session.id, state=IsNot(("idle",)))
        self._start(self._judge_state(session, [call], saved, unknown))

    def _login_status(self, call: Request, _: Json) -> None:
        self.connection.respond(
            call, {"state": "authenticated" if self._logged_in else "unauthenticated"}
        )

    def _forget(self, call: Request, params: Json) -> None:
        if call.method == "session/delete":
            self.sessions.pop(params.get("sessionId", ""), None)
        self.connection.respond(call, {})

    def _set_option(self, call: Request, params: Json) -> None:
        session = self.sessions.get(params.get("sessionId", ""))
        value: Any = params.get("value", params.get("modeId"))
        known = params.get("configId", "mode") == "mode"
        if session is None or not known or not (value == "kind" or value == "strict"):
            self.connection.respond_error(call, -32602, "Unknown option or value")
            return
        session.mode = value
        if call.method == "session/set_mode":
            self.connection.respond(call, {})
        else:
            options = fixtures.config_options(self.version, session.mode)
            self.connection.respond(call, {"configOptions": options})

    def _providers(self, call: Request, _: Json) -> None:
        offered = {"providerId": "main", "supported": ["openai", "accord-unheard-of", "_accord"]}
        current = {"apiType": "accord-unheard-of", "baseUrl": "https://example.com"}
        self.connection.respond(
            call, {"providers": [{**offered, "required": True, "current": current}]}
        )
        self._start(self._require_providers(call))

    async def _require_providers(self, call: Request) -> None:
        alive = await self.is_alive()
        expected = "a client that still responds after providers with unknown protocols"
        got = "it disconnected" if self.connection.is_closed else "it no longer responds"
        self.rules.judge("R-PROV-11", alive, call, expected=expected, got=got)

    def _refused(self, call: Request, _: Json) -> None:
        self.connection.respond_error(call, -32602, "It cannot be changed")

    # Prompts.

    def _prompt(self, call: Request, params: Json) -> None:
        session = self.sessions.get(params.get("sessionId", ""))
        if session is None:
            self.connection.respond_error(call, -32002, "Unknown session")
            return
        blocks = params.get("prompt")
        blocks = blocks if is_array(blocks) else []
        texts = [block.get("text") for block in blocks if is_object(block)]
        words = "\n".join(one for one in texts if isinstance(one, str))
        self._start(self._turn(call, ActivePrompt(session, words, session.cancels), blocks))

    async def _turn(self, call: Request, prompted: ActivePrompt, blocks: list[Any]) -> None:
        session, line = prompted.session, self.connection
        await session.begun.wait()
        if line.is_closed:
            return
        if self.version == 2:
            ident = f"prompt-{next(self._numbers)}"
            line.respond(call, {"messageId": ident})
            echo = {"sessionUpdate": "user_message", "messageId": ident, "content": blocks}
            session.sent_updates.append(echo)
            line.send_notification("session/update", {"sessionId": session.id, "update": echo})
            # A client that mistakes the response for the end of the turn would disconnect now.
            await self.pause()
            self.rules.expects_idle(line, call)
            if not line.is_closed:
                await self._idle_update(session)
            self.update(session, "state_update", state="running")
        await self._on_prompt(prompted)
        reason = "end_turn" if session.cancels == prompted.cancels else "cancelled"
        if self.version == 2:
            self.update(session, "state_update", state="idle", stopReason=reason)
        else:
            line.respond(call, {"stopReason": reason})

    async def _idle_update(self, session: ClientOpenedSession) -> None:
        state = await self._state_of(session)
        fields = {"toolCallId": "idle", "title": "While the session is idle", "status": "completed"}
        sent = self.update(session, "tool_call_update", **fields)
        alive = await self.is_alive()
        if alive and state is not None:
            await self._judge_state(session, [sent], expect("R-TOOL-11", "", state=state))
        got = "it disconnected" if self.connection.is_closed else "it no longer responds"
        expected = "a client that still responds after an update while the session is idle"
        self.rules.judge("R-PROMPT-18", alive, sent, expected=expected, got=got)

    async def _state_of(self, session: ClientOpenedSession) -> str | None:
        """Return the session's state as the client reports it, or None."""
        if not self.answers_probes:
            return None
        try:
            call = await probe_state(self.connection, session.id)
        except (NotExercised, NoResponse):
            return None
        state = None if call is None else call.result.get("state")
        return state if isinstance(state, str) else None

    _table: dict[str, Callable[[ScenarioAgent, Request, Json], None]] = {
        "authenticate": _log_in,
        "auth/login": _log_in,
        "auth/logout": _log_out,
        "auth/status": _login_status,
        "session/new": _new,
        "session/load": _load,
        "session/resume": _load,
        "session/list": _list,
        "session/status": _status,
        "session/close": _forget,
        "session/delete": _forget,
        "session/set_mode": _set_option,
        "session/set_config_option": _set_option,
        "session/prompt": _prompt,
        "providers/list": _providers,
        "providers/set": _refused,
        "providers/disable": _refused,
    }
