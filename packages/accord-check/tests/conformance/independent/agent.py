"""A conforming agent, written from the list of rules only; `BREAK` makes it violate one."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import threading
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import shapes
from peer import (
    BREAK,
    CANCELLED,
    INVALID,
    LATER,
    LOGIN,
    NO_METHOD,
    NOT_FOUND,
    VARY,
    VERSION,
    Peer,
    Refused,
)
from turns import Turn

Json = Any
INFO = {"name": "independent", "title": "The independent agent", "version": "1.0"}
PAGE = 3
NEEDS_LOGIN = {"session/new", "session/load", "session/resume", "session/fork", "session/prompt"}


class Session:
    """A session: its history, options and current work."""

    def __init__(self, number: int, cwd: str, roots: list[str]) -> None:
        self.number = number
        self.id = f"session-{number}-{os.getpid()}"
        self.cwd = cwd
        self.roots = roots
        self.title: str | None = None
        self.updated = datetime.now(UTC).isoformat()
        self.active = True
        self.chosen: dict[str, Json] = {"model": "small", "mode": "ask", "verbose": False}
        self.history: list[dict[str, Json]] = []
        self.lock = threading.RLock()
        self.turn: Turn | None = None
        self.held: list[Turn] = []
        self.background: dict[str, threading.Event] = {}  # tool calls that run after their turn
        self.stoppable: dict[str, threading.Event] = {}  # tool calls that can be cancelled
        self.servers: list[subprocess.Popen[bytes]] = []

    def info(self) -> dict[str, Json]:
        found = {"sessionId": self.id, "cwd": self.cwd, "updatedAt": self.updated}
        if self.title is not None:
            found["title"] = self.title
        return found | ({"additionalDirectories": self.roots} if self.roots else {})

    def state(self) -> dict[str, Json]:
        state: dict[str, Json] = {"state": "idle" if self.turn is None else "running"}
        if self.turn is not None and self.turn.asking:
            state["state"] = "requires_action"
        return state | self.detached()

    def detached(self) -> dict[str, Json]:
        if "no-background" in VARY:
            return {}
        listed = [{"type": "tool_call", "toolCallId": name} for name in self.background]
        return {"background": listed}


class Agent:
    """Serves a client."""

    def __init__(self, read_line: Callable[[int], bytes], write: Callable[[bytes], int]) -> None:
        self.peer = Peer(read_line, write, self.request, self.note)
        self.sessions: dict[str, Session] = {}
        self.client: dict[str, Json] = {}  # its capabilities
        self.others_asked = False  # after `initialize`
        self.logged_in = True
        self.made = 0
        self.prompts: dict[Json, Turn] = {}

    @property
    def version(self) -> int:
        return self.peer.version

    def offers(self, *path: str) -> bool:
        """Return whether the client has the capability at this path."""
        found: Json = self.client
        for key in path:
            found = found.get(key) if isinstance(found, dict) else None
        return found is True if path[-1] in TRUE_FLAGS else isinstance(found, dict)

    def update(self, session: Session, kind: str, fields: dict[str, Json]) -> None:
        if "no-running" in BREAK and fields.get("state") == "running":
            return
        if "no-idle" in BREAK and fields.get("state") == "idle":
            return
        update = {"sessionUpdate": kind, **fields}
        self.peer.note("session/update", {"sessionId": session.id, "update": update})

    def say_state(self, session: Session, fields: dict[str, Json]) -> None:
        if self.version == 2:
            self.update(session, "state_update", {**fields, **session.detached()})

    # --- calls ---

    def request(self, request_id: Json, method: str, params: dict[str, Json]) -> Json:
        if method == "initialize":
            return self.initialize(params)
        if not self.version:
            raise Refused(INVALID, "Not initialized")
        self.others_asked = True
        handler = METHODS[self.version].get(method)
        is_broken = f"unserved:{method}" in BREAK
        if handler is None or is_broken or ("bare" in VARY and method in NOT_BARE):
            raise Refused(NO_METHOD, "Method not found")
        if method in NEEDS_LOGIN and not self.logged_in:
            raise Refused(LOGIN, "Authentication required")
        if method in ("session/prompt", "session/close", "session/delete"):
            return handler(self, params, request_id)
        result = handler(self, params)
        if "other-id" in BREAK and method == "session/list" and params:
            self.peer.answer(str(request_id), result)
            return LATER
        if "answers-twice" in BREAK and method == "session/list":
            self.peer.answer(request_id, result)
        return result

    def note(self, method: str, params: dict[str, Json]) -> None:
        if method == "session/cancel":
            session = self.sessions.get(params.get("sessionId", ""))
            if session is not None and session.active:
                self.cancel(session)
        elif method == "$/cancel_request" and "deaf" not in VARY:
            turn = self.prompts.get(params.get("requestId"))
            if turn is not None and type(turn.request_id) is type(params["requestId"]):
                with turn.session.lock:
                    if turn in turn.session.held:
                        turn.session.held.remove(turn)
                        self.drop(turn)
                    elif self.version == 1:
                        turn.withdrawn = True
                        turn.cancel()

    def initialize(self, params: dict[str, Json]) -> Json:
        asked = params.get("protocolVersion")
        if type(asked) is not int or not 0 <= asked <= 65535:
            raise shapes.wrong("Expected a number as protocolVersion")
        if self.version == 2 and (self.others_asked or asked < 2):
            raise Refused(INVALID, "Already initialized")
        if self.version == 1 and self.others_asked and asked != 1:
            raise Refused(INVALID, "Already initialized with version 1")
        if asked == 0:
            data = {"requested": 0, "supported": [1, 2]}
            raise Refused(VERSION, "Unsupported protocol version", data)
        info = params.get("info")
        if asked == 2 and not (
            isinstance(info, dict)
            and isinstance(info.get("name"), str)
            and isinstance(info.get("version"), str)
        ):
            raise shapes.wrong("Expected info")
        version = self.peer.version = min(asked, 2)
        offered = params.get("capabilities" if version == 2 else "clientCapabilities")
        self.client = offered if isinstance(offered, dict) else {}
        names = ("capabilities", "info") if version == 2 else ("agentCapabilities", "agentInfo")
        return {
            "protocolVersion": version,
            names[0]: shapes.capabilities(version),
            names[1]: INFO,
        } | ({} if "bare" in VARY else {"authMethods": [shapes.login_method(version)]})

    def login(self, params: dict[str, Json]) -> Json:
        if shapes.text(params, "methodId") != "token":
            raise shapes.wrong("Unknown login method")
        self.logged_in = True
        return {}

    def logout(self, params: dict[str, Json]) -> Json:
        self.logged_in = False
        return {}

    # --- sessions ---

    def session(self, params: dict[str, Json], *, active: bool = True) -> Session:
        name = shapes.text(params, "sessionId")
        session = self.sessions.get(name)
        if "any-session" in BREAK and session is None and active:
            session = self.open(str(Path.cwd()), [], [])
            session.id = name
        if session is None or (active and not session.active):
            raise Refused(NOT_FOUND, "No such session", {"sessionId": name})
        return session

    def open(self, cwd: str, roots: list[str], servers: list[dict[str, Json]]) -> Session:
        self.made += 1
        session = Session(self.made, cwd, roots)
        self.sessions[session.id] = session
        self.connect(session, servers)
        return session

    def connect(self, session: Session, servers: list[dict[str, Json]]) -> None:
        """Start the MCP servers and initialize them; skip one that does not start."""
        for server in servers:
            try:
                process = subprocess.Popen(
                    server["argv"],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.DEVNULL,
                    cwd=session.cwd,
                    env=os.environ | server["env"],
                )
            except (OSError, ValueError):
                continue
            session.servers.append(process)
            threading.Thread(target=greet, args=(process,), daemon=True).start()

    def setup(self, session: Session) -> dict[str, Json]:
        booleans = self.offers("session", "configOptions", "boolean")
        listed = shapes.options(session.chosen, self.version, booleans=booleans)
        if "bare" in VARY:
            return {}
        if self.version == 2:
            return {"configOptions": listed, "availableCommands": shapes.commands(2)}
        return {"configOptions": listed, "modes": shapes.modes(session.chosen)}

    def read_setup(self, params: dict[str, Json], *, servers: bool) -> Json:
        if params.get("systemPrompt") is not None:
            raise shapes.wrong("System prompts are not supported")
        return *shapes.roots(params), shapes.mcp_servers(params, self.version, needed=servers)

    def new(self, params: dict[str, Json]) -> Json:
        session = self.open(*self.read_setup(params, servers=True))
        if self.version == 1:
            listed = {"availableCommands": shapes.commands(1)}
            self.update(session, "available_commands_update", listed)
        return {"sessionId": session.id, **self.setup(session)}

    def fork(self, params: dict[str, Json]) -> Json:
        source = self.session(params, active=False)
        session = self.open(*self.read_setup(params, servers=False))
        session.history = list(source.history)
        session.chosen = dict(source.chosen)
        return {"sessionId": session.id, **self.setup(session)}

    def again(self, params: dict[str, Json], *, needed: bool = False) -> Session:
        """Attach to an existing session."""
        cwd, roots, servers = self.read_setup(params, servers=needed)
        session = self.session(params, active=False)
        if os.path.normpath(cwd) != os.path.normpath(session.cwd):
            raise shapes.wrong("The session has another working directory")
        session.active, session.roots = True, roots
        disconnect(session)
        self.connect(session, servers)
        return session

    def replay(self, session: Session) -> None:
        for update in list(session.history):
            self.peer.note("session/update", {"sessionId": session.id, "update": update})

    def load(self, params: dict[str, Json]) -> Json:
        session = self.again(params, needed=True)
        if "no-replay" not in BREAK:
            self.replay(session)
        return self.setup(session)

    def resume(self, params: dict[str, Json]) -> Json:
        cursor = params.get("replayFrom") if self.version == 2 else None
        known = isinstance(cursor, dict) and cursor.get("type") == "start"
        if cursor is not None and not known and "any-cursor" not in BREAK:
            raise shapes.wrong("Replay is possible from the start alone")
        session = self.again(params)
        with session.lock:
            if cursor is not None:
                self.replay(session)
            if self.version == 2:
                self.update(session, "state_update", session.state())
        return self.setup(session)

    def list(self, params: dict[str, Json]) -> Json:
        cwd, cursor = params.get("cwd"), params.get("cursor")
        found = sorted(self.sessions.values(), key=lambda session: -session.number)
        if cwd is not None and "lists-all" not in BREAK:
            wanted = os.path.normpath(shapes.absolute(cwd, "cwd"))
            found = [session for session in found if os.path.normpath(session.cwd) == wanted]
        if cursor is not None:
            if not isinstance(cursor, str) or not re.fullmatch(r"before-[0-9]{1,9}", cursor):
                raise shapes.wrong("Unknown cursor")
            before = int(cursor.removeprefix("before-"))
            found = [session for session in found if session.number < before]
        page = {"sessions": [session.info() for session in found[:PAGE]]}
        more = {"nextCursor": f"before-{found[PAGE - 1].number}"} if len(found) > PAGE else {}
        return page | more

    def close(self, params: dict[str, Json], request_id: Json) -> Json:
        return self.end(params, request_id, forget=False)

    def delete(self, params: dict[str, Json], request_id: Json) -> Json:
        return self.end(params, request_id, forget=True)

    def end(self, params: dict[str, Json], request_id: Json, *, forget: bool) -> Json:
        name = shapes.text(params, "sessionId")
        session = self.sessions.get(name)
        if session is None and "close-fails" in VARY and self.version == 1 and not forget:
            raise Refused(NOT_FOUND, "No such session", {"sessionId": name})
        if session is None:
            return {}
        if forget:
            del self.sessions[name]
        if not session.active:
            return {}
        session.active = False
        threading.Thread(target=self.wind_up, args=(session, request_id), daemon=True).start()
        return LATER

    def wind_up(self, session: Session, request_id: Json) -> None:
        turn = self.cancel(session)
        if turn is not None:
            turn.done.wait(10)
        for stop in list(session.background.values()):
            stop.set()
        for worker in [w for w in threading.enumerate() if w.name == session.id]:
            worker.join(10)
        disconnect(session)
        self.peer.answer(request_id, {})

    # --- choices ---

    def set_mode(self, params: dict[str, Json]) -> Json:
        mode, session = shapes.text(params, "modeId"), self.session(params)
        if mode not in shapes.MODES:
            raise shapes.wrong("Unknown mode")
        session.chosen["mode"] = mode
        listed = {"configOptions": self.setup(session)["configOptions"]}
        self.update(session, "config_option_update", listed)
        return {}

    def set_option(self, params: dict[str, Json]) -> Json:
        key, session = shapes.text(params, "configId"), self.session(params)
        kind, value = params.get("type"), params.get("value")
        values = {"model": shapes.MODELS, "mode": shapes.MODES}.get(key)
        if self.version == 2 and kind != ("id" if values else "boolean"):
            raise shapes.wrong("Unsupported type of value")
        if values is not None:
            sound = isinstance(value, str) and value in values and kind != "boolean"
        else:
            sound = key == "verbose" and isinstance(value, bool) and kind == "boolean"
        if not sound:
            raise shapes.wrong("Unknown option or value")
        session.chosen[key] = value
        if self.version == 1 and key == "mode":
            self.update(session, "current_mode_update", {"currentModeId": value})
        return {"configOptions": self.setup(session)["configOptions"]}

    # --- turns ---

    def prompt(self, params: dict[str, Json], request_id: Json) -> Json:
        session = self.session(params)
        turn = Turn(self, session, request_id, shapes.prompt(params, self.version), params)
        with session.lock:
            self.prompts[request_id] = turn
            if session.turn is None:
                session.turn = turn
                threading.Thread(target=self.work, args=(turn,), daemon=True).start()
            elif self.version == 1:
                del self.prompts[request_id]
                raise Refused(INVALID, "The session is busy")
            else:
                session.held.append(turn)
        return LATER

    def work(self, turn: Turn | None) -> None:
        session = turn.session if turn else None
        while turn is not None and session is not None:
            end = turn.run()
            with session.lock:
                self.prompts.pop(turn.request_id, None)
                session.turn = following = session.held.pop(0) if session.held else None
                end()  # a client that reads it can send the next prompt at once
            turn.done.set()
            turn = following

    def drop(self, turn: Turn) -> None:
        """Reject a queued prompt."""
        self.prompts.pop(turn.request_id, None)
        self.peer.refuse(turn.request_id, Refused(CANCELLED, "Cancelled before it began"))

    def cancel(self, session: Session) -> Turn | None:
        with session.lock:
            while session.held:
                self.drop(session.held.pop(0))
            if session.turn is not None:
                session.turn.cancel()
            return session.turn

    def cancel_tool(self, params: dict[str, Json]) -> Json:
        session, tool = self.session(params), shapes.text(params, "toolCallId")
        stop = session.stoppable.pop(tool, None)
        if stop is None:
            raise shapes.wrong("No such tool call can be cancelled")
        stop.set()
        return {}

    def cancel_terminal(self, params: dict[str, Json]) -> Json:
        self.session(params)
        shapes.text(params, "terminalId")
        raise shapes.wrong("No such terminal can be cancelled")

    def serve(self) -> None:
        """Serve until the client disconnects."""
        if "chatter" in BREAK:
            self.peer.write(b"Hello, I am an agent.\n")
        self.peer.run()
        for session in list(self.sessions.values()):
            disconnect(session)


def greet(process: subprocess.Popen[bytes]) -> None:
    """Initialize an MCP server, and list its tools."""
    first = (
        '{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18",'
        '"capabilities":{},"clientInfo":{"name":"independent","version":"1.0"}}}\n'
    )
    then = (
        '{"jsonrpc":"2.0","method":"notifications/initialized"}\n'
        '{"jsonrpc":"2.0","id":2,"method":"tools/list"}\n'
    )
    assert process.stdin
    assert process.stdout
    try:
        for lines in (first, then):
            process.stdin.write(lines.encode())
            process.stdin.flush()
            process.stdout.readline(65536)
    except (OSError, ValueError):
        return


def disconnect(session: Session) -> None:
    for process in session.servers:
        with process:  # which closes its pipes
            process.kill()
    session.servers.clear()


NOT_BARE = {
    *("authenticate", "logout", "auth/login", "auth/logout", "session/load", "session/fork"),
    *("session/delete", "session/set_mode", "session/set_config_option"),
}
TRUE_FLAGS = {"readTextFile", "writeTextFile", "terminal"}
SHARED = {
    "session/new": Agent.new,
    "session/resume": Agent.resume,
    "session/fork": Agent.fork,
    "session/list": Agent.list,
    "session/close": Agent.close,
    "session/delete": Agent.delete,
    "session/prompt": Agent.prompt,
    "session/set_config_option": Agent.set_option,
}
V1 = {
    "authenticate": Agent.login,
    "logout": Agent.logout,
    "session/load": Agent.load,
    "session/set_mode": Agent.set_mode,
}
V2 = {
    "auth/login": Agent.login,
    "auth/logout": Agent.logout,
    "tool_call/cancel": Agent.cancel_tool,
    "terminal/cancel": Agent.cancel_terminal,
}
METHODS: dict[int, dict[str, Any]] = {1: SHARED | V1, 2: SHARED | V2}

if __name__ == "__main__":
    Agent(sys.stdin.buffer.readline, partial(os.write, 1)).serve()
    os._exit(0)
