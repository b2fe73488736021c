"""The agent that a client under test believes to talk to: serves what it offers, no more."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from typing import Any, TypeAlias

from msgspec import Struct, field

from accord.text.lenient_json import is_array, is_object
from accord_conformance.client import fixtures
from accord_conformance.client.client_rules import Watch
from accord_conformance.client.state_probe import Claim, Not, Window, claim, looked
from accord_conformance.harness.raw_connection import Line, Silence
from accord_conformance.harness.scenario import NotExercised
from accord_conformance.judges.base import Seen
from accord_conformance.traffic.connection_state import SETUPS
from accord_conformance.traffic.frame import Frame
from accord_conformance.traffic.message import Call, Note

__all__ = ("PAUSE_S", "Play", "Posed", "Posing", "Prompted", "Start")

Json: TypeAlias = dict[str, Any]

PAUSE_S = 0.1  # in which something wrong would show before `initialize` is answered


class Posed(Struct, eq=False):
    """A session of the client's; `said` is replayed when it is loaded."""

    id: str
    cwd: str
    roots: list[str] = field(default_factory=list[str])
    mode: str = "kind"
    said: list[Json] = field(default_factory=list[Json])
    cancels: int = 0
    begun: asyncio.Event = field(default_factory=asyncio.Event)  # what its beginning shows is told

    @property
    def all_roots(self) -> list[str]:
        """The directories in which it may use files."""
        return [self.cwd, *self.roots]


class Prompted(Struct, eq=False):
    """A prompt that is being worked on; `text` is what the client's user wrote."""

    session: Posed
    text: str
    cancels: int  # of the session, when it came


# Begins work that somebody else waits for, and ends.
Start: TypeAlias = Callable[[Coroutine[Any, Any, None]], object]
Play: TypeAlias = Callable[[Prompted], Awaitable[None]]


class Posing:
    """One connection with a client under test; `play` works on its prompts,
    in tasks that `start` begins.

    `versions` are those that are spoken; `answer` is a version to answer `initialize` with that no
    client can speak, to see that it leaves; with `login` nothing is served before one.
    """

    def __init__(
        self,
        line: Line,
        watch: Watch,
        play: Play,
        start: Start,
        *,
        versions: tuple[int, ...] = (1, 2),
        answer: int | None = None,
        login: bool = False,
        pause_s: float = PAUSE_S,
    ) -> None:
        self.line = line
        self.watch = watch
        self.sessions: dict[str, Posed] = {}
        self.answers_probes = True
        self._play = play
        self._versions = versions
        self._answer = answer
        self.pause_s = pause_s
        self._asks_for_login = login
        self._logged_in = not login
        self._numbers = itertools.count(1)
        self._windows: dict[str, Window] = {}
        self._listings = 0  # that were begun
        self._statuses = 0  # that were asked for
        self._start = start
        line.serve = self._serve
        line.heard = self._heard

    @property
    def version(self) -> int:
        """The version that is spoken, 1 until one is."""
        return self.line.observer.talk.version or 1

    # Telling.

    def update(self, session: Posed, kind: str, /, **fields: Any) -> Frame:
        """Send a `session/update`; return it."""
        told = {"sessionUpdate": kind, **fields}
        self.line.note("session/update", {"sessionId": session.id, "update": told})
        return self.last_frame

    def say(self, session: Posed, words: str) -> None:
        """Say something to the user, as a message of its own."""
        content = fixtures.text(words + "\n\n")
        ident = f"said-{next(self._numbers)}"
        told = {"sessionUpdate": "agent_message_chunk", "messageId": ident, "content": content}
        session.said.append(told)
        self.line.note("session/update", {"sessionId": session.id, "update": told})

    @property
    def last_frame(self) -> Frame:
        """What was sent or received last."""
        return self.line.observer.talk.frames[-1]

    async def alive(self) -> bool:
        """Tell whether the client still answers, twice: what it was sent before, it has read."""
        for _ in range(2):
            if not self.answers_probes:
                try:
                    await self.line.until(lambda: self.line.hung_up, "end", within_s=self.pause_s)
                except Silence:
                    continue
                return False
            call = self.line.ask(fixtures.ABSENT_METHOD, {})
            try:
                await self.line.reply(call)
            except Silence:
                return False
        return not self.line.hung_up

    async def responds(self) -> bool:
        """Return whether the client answers, and stays for a moment after that."""
        if not await self.alive():
            return False
        await self.pause()
        return not self.line.hung_up

    # Serving.

    def _serve(self, call: Call) -> None:
        params: Json = call.params if is_object(call.params) else {}
        self.watch.called(call, params)
        if not isinstance(params.get("sessionId", ""), str):
            self.line.refuse(call, -32602, "Invalid params: sessionId is a string")
            return
        if call.method == "initialize":
            self._start(self._initialize(call, params))
        elif self.line.observer.talk.initialized is None:
            self.line.refuse(call, -32600, "Not initialized yet")
        elif call.method in SETUPS and not self._logged_in:
            self.watch.login_asked(call)
            self.line.refuse(call, -32000, "Log in first")
        elif (serve := self._table.get(call.method)) is not None:
            serve(self, call, params)
        else:
            self.line.refuse(call, -32601, "Method not found", {"method": call.method})

    def _heard(self, note: Note) -> None:
        session = self.sessions.get(note.session_id or "")
        if note.method == "session/cancel" and session is not None:
            session.cancels += 1

    async def _initialize(self, call: Call, params: Json) -> None:
        line, asked = self.line, params.get("protocolVersion")
        if not isinstance(asked, int):
            line.refuse(call, -32602, "Expected a version")
            return
        if self._answer is not None:
            line.answer(call, {**fixtures.handshake(1), "protocolVersion": self._answer})
            await self.watch.left(line)
            return
        again = line.observer.talk.initialized is not None
        version = asked if asked in self._versions else max(self._versions)
        if not again:
            await self._early(asked)
        if line.hung_up:
            return
        line.answer(call, fixtures.handshake(version, login=self._asks_for_login))
        self.watch.initialized(call)

    async def _early(self, asked: int) -> None:
        """Send what may come before `initialize` is answered."""
        line = self.line
        line.note("$/cancel_request", {"requestId": "nothing"})
        cancel = self.last_frame
        await self.pause()
        self.watch.judge(
            "R-REQCAN-14",
            not line.hung_up,
            cancel,
            expected="a client that goes on after `$/cancel_request` before `initialize` is over",
            got="it hung up",
        )
        if asked < 2 or line.hung_up:
            return
        early = line.ask(fixtures.ABSENT_METHOD, {"early": True}, ident="early")
        await self.pause()
        self.watch.held(early, line)

    async def pause(self) -> None:
        """Wait for a moment, in which something wrong would show."""
        try:
            await self.line.until(lambda: self.line.hung_up, "end", within_s=self.pause_s)
        except Silence:
            return

    # Logging in.

    def _log_in(self, call: Call, params: Json) -> None:
        self.watch.login_tried(call, params.get("methodId"))
        if params.get("methodId") == fixtures.LOGIN:
            self._logged_in = True
            self.line.answer(call, {})
        else:
            self.line.refuse(call, -32602, "There is no such way to log in")

    def _log_out(self, call: Call, _: Json) -> None:
        self._logged_in = not self._asks_for_login
        self.line.answer(call, {})

    # Sessions.

    def _open(self, ident: str, params: Json) -> Posed:
        roots = params.get("additionalDirectories")
        roots = [root for root in roots if isinstance(root, str)] if is_array(roots) else []
        old = self.sessions.get(ident)
        session = Posed(ident, str(params.get("cwd")), roots)
        if old is not None:
            session.said, session.begun = old.said, old.begun
        self.sessions[ident] = session
        return session

    def _new(self, call: Call, params: Json) -> None:
        session = self._open(f"check-{next(self._numbers)}", params)
        self.watch.opened(session.id, call, params)
        self._start(self._begin(call, session))

    async def _begin(self, call: Call, session: Posed) -> None:
        """Answer, with an update before and updates behind."""
        try:
            if not self.line.hung_up:
                await self._begin_with_updates(call, session)
        finally:
            session.begun.set()

    async def _begin_with_updates(self, call: Call, session: Posed) -> None:
        sent: list[Seen] = [
            self.update(session, "session_info_update", title="Check of this client")
        ]
        if self.version == 2:
            sent += [self.update(session, "state_update", state="running")]
        self.line.answer(
            call, {"sessionId": session.id, **fixtures.setup(self.version, session.mode)}
        )
        self.update(
            session, "available_commands_update", availableCommands=fixtures.commands(self.version)
        )
        await self._first_probe()
        if self.version == 2 and not self.line.hung_up:
            await self._look(session, [*sent, call], claim("R-SESS-28", "", state=Not(("idle",))))
            self.update(session, "state_update", state="idle")

    async def _look(self, session: Posed, sent: list[Seen], *claims: Claim) -> None:
        """Judge what the client holds of a session, where it tells."""
        if self.answers_probes and not self.line.hung_up:
            with suppress(NotExercised, Silence):
                await self._window(session).claims(sent, *claims)

    def _window(self, session: Posed) -> Window:
        if session.id not in self._windows:
            window = Window(self.line, session.id, self.watch.judge, self.pause_s)
            self._windows[session.id] = window
        return self._windows[session.id]

    async def _first_probe(self) -> None:
        """Find out whether unknown requests are answered, by which all else is asked."""
        if not self.answers_probes:
            return
        call = self.line.ask(fixtures.ABSENT_METHOD, {})
        try:
            await self.line.reply(call)
        except Silence:
            self.answers_probes = False
            if not self.line.hung_up:
                self.watch.judge(
                    "R-EXT-05",
                    False,
                    call,
                    expected="an answer to a custom request",
                    got="none",
                )

    def _load(self, call: Call, params: Json) -> None:
        ident = params.get("sessionId")
        if not isinstance(ident, str) or ident not in self.sessions:
            self.line.refuse(call, -32002, "Unknown session", {"sessionId": ident})
            return
        session = self._open(ident, params)
        replays = call.method == "session/load" or is_object(params.get("replayFrom"))
        if replays:
            rewritten = fixtures.REWRITTEN if self.version == 2 else []
            for told in [*session.said, *rewritten]:
                self.line.note("session/update", {"sessionId": ident, "update": told})
        if self.version == 2:
            self.update(session, "state_update", state="idle")
        self.line.answer(call, fixtures.setup(self.version, session.mode))
        if replays and self.version == 2:
            whole = [fixtures.text("C"), fixtures.text("D")]
            replayed = claim("R-SESS-17", "messages", fixtures.REPLAYED, content=whole)
            self._start(self._look(session, [call], replayed))

    def _list(self, call: Call, params: Json) -> None:
        self._listings += params.get("cursor") is None
        # What the first listing says of further directories, the others do not.
        more: Json = {"additionalDirectories": [fixtures.ELSEWHERE]} if self._listings == 1 else {}
        infos: list[Json] = [
            {"sessionId": one.id, "cwd": one.cwd, **more} for one in self.sessions.values()
        ]
        where = params.get("cwd")
        infos = [info for info in infos if where in (None, info["cwd"])]
        # Three pages, the cursor of the third being one that is easily taken for none.
        last = "3" if self.version == 1 else ""
        match params.get("cursor"):
            case None:
                page: Json = {"sessions": infos[:1], "nextCursor": "2"}
            case "2":
                page = {"sessions": infos[1:2], "nextCursor": last}
            case cursor if cursor == last:
                page = {"sessions": infos[2:]}
            case _:
                self.line.refuse(call, -32602, "Not a cursor of ours")
                return
        self.line.answer(call, page)
        for info in page["sessions"] if "nextCursor" not in page else ():
            said = [fixtures.ELSEWHERE] if more else None
            listed = claim("R-LIST-09", "sessions", info["sessionId"], additionalDirectories=said)
            self._start(self._look(self.sessions[info["sessionId"]], [call], listed))

    def _status(self, call: Call, params: Json) -> None:
        session = self.sessions.get(params.get("sessionId", ""))
        if session is None:
            self.line.refuse(call, -32002, "Unknown session", {"sessionId": None})
            return
        self._statuses += 1
        if self._statuses % 2:
            said: Json = {"status": "open"}
            if self.version == 2:
                said["state"] = {"state": "running"}
            self.line.answer(call, said)
            known = claim("R-STATUS-07", "statuses", session.id, state=Not(("idle",)))
            self._start(self._look(session, [call], known))
            return
        # Of a kind that nobody knows, and without a state.
        self.line.answer(call, {"status": "accord_later"})
        saved = claim("R-STATUS-05", "statuses", session.id, status="saved")
        unknown = claim("R-STATUS-07", "statuses", session.id, state=Not(("idle",)))
        self._start(self._look(session, [call], saved, unknown))

    def _login_status(self, call: Call, _: Json) -> None:
        self.line.answer(call, {"state": "authenticated" if self._logged_in else "unauthenticated"})

    def _forget(self, call: Call, params: Json) -> None:
        if call.method == "session/delete":
            self.sessions.pop(params.get("sessionId", ""), None)
        self.line.answer(call, {})

    def _set_option(self, call: Call, params: Json) -> None:
        session = self.sessions.get(params.get("sessionId", ""))
        value: Any = params.get("value", params.get("modeId"))
        known = params.get("configId", "mode") == "mode"
        if session is None or not known or not (value == "kind" or value == "strict"):
            self.line.refuse(call, -32602, "No such option or value")
            return
        session.mode = value
        if call.method == "session/set_mode":
            self.line.answer(call, {})
        else:
            options = fixtures.options(self.version, session.mode)
            self.line.answer(call, {"configOptions": options})

    def _providers(self, call: Call, _: Json) -> None:
        offered = {"providerId": "main", "supported": ["openai", "accord-unheard-of", "_accord"]}
        current = {"apiType": "accord-unheard-of", "baseUrl": "https://example.com"}
        self.line.answer(call, {"providers": [{**offered, "required": True, "current": current}]})
        self._start(self._bears_providers(call))

    async def _bears_providers(self, call: Call) -> None:
        alive = await self.alive()
        expected = "a client that goes on after protocols that it does not know"
        got = "it hung up" if self.line.hung_up else "it answers nothing any more"
        self.watch.judge("R-PROV-11", alive, call, expected=expected, got=got)

    def _refused(self, call: Call, _: Json) -> None:
        self.line.refuse(call, -32602, "It cannot be changed")

    # Prompts.

    def _prompt(self, call: Call, params: Json) -> None:
        session = self.sessions.get(params.get("sessionId", ""))
        if session is None:
            self.line.refuse(call, -32002, "Unknown session")
            return
        blocks = params.get("prompt")
        blocks = blocks if is_array(blocks) else []
        texts = [block.get("text") for block in blocks if is_object(block)]
        words = "\n".join(one for one in texts if isinstance(one, str))
        self._start(self._turn(call, Prompted(session, words, session.cancels), blocks))

    async def _turn(self, call: Call, prompted: Prompted, blocks: list[Any]) -> None:
        session, line = prompted.session, self.line
        await session.begun.wait()
        if line.hung_up:
            return
        if self.version == 2:
            ident = f"prompt-{next(self._numbers)}"
            line.answer(call, {"messageId": ident})
            echo = {"sessionUpdate": "user_message", "messageId": ident, "content": blocks}
            session.said.append(echo)
            line.note("session/update", {"sessionId": session.id, "update": echo})
            # A client that takes the answer for the end would leave now.
            await self.pause()
            self.watch.waits_for_idle(line, call)
            if not line.hung_up:
                await self._idle_update(session)
            self.update(session, "state_update", state="running")
        await self._play(prompted)
        reason = "end_turn" if session.cancels == prompted.cancels else "cancelled"
        if self.version == 2:
            self.update(session, "state_update", state="idle", stopReason=reason)
        else:
            line.answer(call, {"stopReason": reason})

    async def _idle_update(self, session: Posed) -> None:
        state = await self._state_of(session)
        fields = {"toolCallId": "idle", "title": "While nothing runs", "status": "completed"}
        sent = self.update(session, "tool_call_update", **fields)
        alive = await self.alive()
        if alive and state is not None:
            await self._look(session, [sent], claim("R-TOOL-11", "", state=state))
        got = "it hung up" if self.line.hung_up else "it answers nothing any more"
        expected = "a client that goes on after an update while the session is idle"
        self.watch.judge("R-PROMPT-18", alive, sent, expected=expected, got=got)

    async def _state_of(self, session: Posed) -> str | None:
        """Return what the client holds for the session's state, where it tells."""
        if not self.answers_probes:
            return None
        try:
            call = await looked(self.line, session.id)
        except (NotExercised, Silence):
            return None
        state = None if call is None else call.result.get("state")
        return state if isinstance(state, str) else None

    _table: dict[str, Callable[[Posing, Call, Json], None]] = {
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
