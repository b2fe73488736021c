"""Many callers of one `accord gateway` for a long time: right, wrong, and those that leave.

    python benchmarks/soak_gateway.py [--seconds 60] [--sessions 200] [--seed N] [--save FILE]

The gateway is a process, its agent is the script agent with faults (`agents/agent_soak.py`). Each
caller speaks one protocol at a time, over sockets of its own, and knows the answer that it must
get: a random word. Afterwards nothing of what the gateway has used may be left.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import signal
import statistics
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import h11
import machine
from bridging.processes import Processes
from msgspec import Struct
from msgspec.structs import replace

AGENT = Path(__file__).parent / "agents" / "agent_soak.py"
TOKEN = "the-token-of-the-soak"
NAME = Path(sys.executable).stem  # of the agent, whose command it begins
CALLERS = 50
AGENTS = 60
TURNS = 16  # so few that callers are refused now and then
WAIT_S = 120.0  # for an answer: more is a failure
FORGET_S = 5.0  # of the gateway, instead of a minute
ANSWER_S = 60.0  # instead of ten minutes
IDLE_S = 6
OVER = 16 * 1024 * 1024 + 1
LOOKUP = {"type": "object", "properties": {"term": {"type": "string"}}}
_MCP = {"Accept": "application/json, text/event-stream"}
_A2A = {"A2A-Version": "1.0"}
_ENDED = [f"TASK_STATE_{one}" for one in ("COMPLETED", "FAILED", "CANCELED", "REJECTED")]


# The gateway, with an ear for the soak.


def gateway(argv: list[str]) -> None:
    """Run `accord gateway`; on SIGUSR2, write to SOAK_SEEN what it has in memory."""
    import ctypes
    import gc

    from accord_bridges.gateways import command, turns

    made: list[Any] = []
    module: Any = command
    make = module.gateway

    def kept(agents: Any, access: Any, settings: Any, **options: Any) -> Any:
        made.append(make(agents, access, replace(settings, answer_s=ANSWER_S), **options))
        return made[0]

    def look(*_: object) -> None:
        gc.collect()
        ctypes.CDLL(None).malloc_trim(0)
        # Sessions of MCP that callers do not end have tasks for half an hour: they are bounded.
        names = [task.get_name().rstrip("0123456789-") for task in asyncio.all_tasks()]
        tasks = Counter(name for name in names if not name.startswith("mcp.server."))
        sessions: Any = made[0].sessions
        found = {
            "objects": len(gc.get_objects()),
            "tasks": dict(tasks),
            "turns": sessions.running_turns,
            "waiting": len(sessions.waiting),
            "open": len(sessions._open),
            "agents": len(sessions._agents),
            "slots": sessions.slots._value,
        }
        if os.environ.get("SOAK_TYPES"):
            found["types"] = dict(
                Counter(type(one).__qualname__ for one in gc.get_objects()).most_common(60)
            )
        file = Path(os.environ["SOAK_SEEN"])
        file.with_suffix(".new").write_text(json.dumps(found))
        file.with_suffix(".new").rename(file)

    module.gateway = kept
    turns._FORGET_S = FORGET_S
    signal.signal(signal.SIGUSR2, look)
    command.command.main(argv, prog_name="accord gateway", standalone_mode=True)


class Seen(Struct):
    """What the gateway and its processes use."""

    memory_mb: float
    files: int
    threads: int
    processes: int
    objects: int
    tasks: Mapping[str, int]
    turns: int
    waiting: int
    open: int
    agents: int
    slots: int
    types: Mapping[str, int] = {}


class Gateway:
    """A gateway that runs."""

    def __init__(self, folder: Path, *options: str, warm: int = 2) -> None:
        import socket

        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port: int = free.getsockname()[1]
        self.folder = folder
        self.processes = Processes("soak", folder)
        self._seen = folder / "seen.json"
        (folder / "run").mkdir(mode=0o700, parents=True)
        command = [sys.executable, __file__, "--gateway", "--port", str(self.port), "--cwd"]
        command += [str(folder), "--warm", str(warm), "--idle", str(IDLE_S), *options]
        self.processes.start(
            [*command, "--", sys.executable, str(AGENT)],
            self.port,
            ACCORD_STATE=str(folder / "state"),
            ACCORD_TOKEN=TOKEN,
            XDG_RUNTIME_DIR=str(folder / "run"),
            SOAK_SEEN=str(self._seen),
            SOAK_STORE=str(folder / "agent.db"),
        )
        self.warm = warm
        self.pid: int = self.processes._started[-1].pid

    def log(self) -> str:
        """Return what it has written."""
        return (self.folder / "0.log").read_text(errors="replace")

    async def look(self) -> Seen:
        """Return what it uses now."""
        self._seen.unlink(missing_ok=True)
        os.kill(self.pid, signal.SIGUSR2)
        until = time.monotonic() + 60
        while not self._seen.exists():
            if time.monotonic() > until:
                raise RuntimeError("The gateway does not even react to a signal")
            await asyncio.sleep(0.05)
        proc = Path(f"/proc/{self.pid}")
        return Seen(
            memory_mb=machine.memory_mb(self.pid),
            files=len([*(proc / "fd").iterdir()]),
            threads=len([*(proc / "task").iterdir()]),
            processes=len(self.processes.pids),
            **json.loads(self._seen.read_text()),
        )

    async def rest(self, timeout_s: float = 120.0) -> Seen:
        """Wait until no session is open, and return what is left."""
        until = time.monotonic() + timeout_s
        last: tuple[int, ...] = ()
        while True:
            seen = await self.look()
            now = (seen.files, sum(seen.tasks.values()), seen.open, seen.turns, seen.processes)
            if (seen.open == seen.turns == 0 and now == last) or time.monotonic() > until:
                return seen
            last = now
            await asyncio.sleep(4)


# HTTP, as callers can get it wrong.


class Left(Exception):
    """The caller has disconnected, as it wanted."""


class Wrong(Exception):
    """The gateway has answered what it must not."""


class Reply(Struct):
    """A response."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def events(self) -> list[Any]:
        """The JSON of its server-sent events, or itself if it is JSON."""
        if not self.headers.get("content-type", "").startswith("text/event-stream"):
            return [json.loads(self.body)]
        lines = self.body.replace(b"\r\n", b"\n").split(b"\n")
        data = [line[6:] for line in lines if line.startswith(b"data: ")]
        found = [json.loads(one) for one in data if one not in (b"[DONE]", b"")]
        if not found:
            raise Wrong(f"no events: {self}")
        return found


class Refused(Exception):
    """A response that is an error."""

    def __init__(self, reply: Reply, form: str) -> None:
        super().__init__(f"{reply.status} {reply.body[:300]!r}")
        self.reply = reply
        try:
            error = reply.events[-1]
            text = {
                "openai": lambda: error["error"]["message"] and error["error"]["type"],
                "mcp": lambda: error["error"]["message"] and error["jsonrpc"],
                "a2a": lambda: error["error"]["message"] and error["error"]["code"],
                "ag-ui": lambda: error["type"] == "RUN_ERROR" and error["message"],
            }[form]()
        except (KeyError, TypeError, ValueError, IndexError):
            text = None
        if not text:
            raise Wrong(f"an error in another form: {self}")
        if reply.status in (429, 503) and not reply.headers.get("retry-after"):
            raise Wrong(f"no Retry-After: {self}")


async def send(
    port: int,
    path: str,
    body: bytes,
    headers: Mapping[str, str],
    *,
    method: str = "POST",
    cut: Callable[[], float] | None = None,
    cut_bytes: int | None = None,
) -> Reply:
    """Send a request. With `cut_bytes`, or after `cut()` seconds, leave it; raises `Left`."""
    connection = h11.Connection(h11.CLIENT)
    incoming, outgoing = await asyncio.open_connection("127.0.0.1", port, limit=1 << 20)
    head: dict[str, str] = {
        "Host": f"127.0.0.1:{port}",
        "Authorization": f"Bearer {TOKEN}",
        "Content-Type": "application/json",
        "Content-Length": str(len(body)),
        "Connection": "close",
        **headers,
    }
    sent = connection.send(h11.Request(method=method, target=path, headers=[*head.items()])) or b""
    sent += connection.send(h11.Data(data=body)) or b""
    connection.send(h11.EndOfMessage())
    try:
        if cut_bytes is not None:
            outgoing.write(sent[:cut_bytes])
            await outgoing.drain()
            raise Left
        outgoing.write(sent)
        response: Any = None
        parts: list[bytes] = []
        limit = WAIT_S if cut is None else cut()
        try:
            async with asyncio.timeout(limit):
                while True:
                    event = connection.next_event()
                    if event is h11.NEED_DATA:
                        data = await incoming.read(1 << 18)
                        connection.receive_data(data)
                    elif isinstance(event, h11.Response):
                        response = event
                    elif isinstance(event, h11.Data):
                        parts.append(bytes(event.data))
                    elif isinstance(event, h11.EndOfMessage | h11.ConnectionClosed):
                        break
        except TimeoutError:
            if cut is not None:
                raise Left from None
            raise Wrong(f"no answer within {WAIT_S:.0f} s") from None
        except h11.RemoteProtocolError as error:
            raise Wrong(f"the response breaks off: {error}, {b''.join(parts)[-200:]!r}") from None
        if response is None:
            raise Wrong("the connection was closed without a response")
        found = {name.decode(): value.decode() for name, value in response.headers}
        return Reply(response.status_code, found, b"".join(parts))
    finally:
        outgoing.transport.abort() if cut or cut_bytes is not None else outgoing.close()


# The protocols.


class Answer(Struct):
    """What a request has come to: text, or something that the caller must do."""

    text: str
    ask: Any = None


class Speaker:
    """A caller in one protocol, with one session; `cuts` are options of `send` for one request."""

    form = "openai"
    name = ""
    tools = True
    asks = True

    def __init__(self, port: int, rng: random.Random) -> None:
        self.port = port
        self.rng = rng
        self.session: str | None = None
        self.cuts: dict[str, Any] = {}
        self.names: dict[str, str] = {}  # of artifacts, by id

    async def post(self, path: str, value: Any, **headers: str) -> Reply:
        """Send a value; raises `Refused` for an error."""
        reply = await send(self.port, path, json.dumps(value).encode(), headers, **self.cuts)
        if reply.status >= 400:
            raise Refused(reply, self.form)
        return reply

    def path(self) -> str:
        """Return where the requests go."""
        raise NotImplementedError

    async def ask(self, prompt: str, *, lookup: bool = False, decides: bool = False) -> Answer:
        """Say something."""
        raise NotImplementedError

    async def give(self, asked: Any, result: str) -> Answer:
        """Return the result of a tool, or the decision about a permission."""
        raise NotImplementedError


def _functions(nested: bool) -> list[Any]:
    found: list[Any] = [
        {"name": "lookup", "description": "Looks up.", "parameters": LOOKUP},
        {"name": "acp_permission"},
    ]
    if nested:
        return [{"type": "function", "function": one} for one in found]
    return [{"type": "function", **one} for one in found]


class Chat(Speaker):
    """Chat completions."""

    name = "chat"
    streams = False

    def path(self) -> str:
        return "/v1/chat/completions"

    async def ask(self, prompt: str, *, lookup: bool = False, decides: bool = False) -> Answer:
        self.said: list[Any] = [{"role": "user", "content": prompt}]
        self.functions = _functions(True) if lookup or decides else None
        headers = {} if self.session is None else {"Acp-Session-Id": self.session}
        return await self._send(headers)

    async def _send(self, headers: Mapping[str, str]) -> Answer:
        body: dict[str, Any] = {"model": NAME, "messages": self.said, "stream": self.streams}
        if self.functions:
            body["tools"] = self.functions
        reply = await self.post(self.path(), body, **headers)
        self.session = reply.headers.get("acp-session-id", self.session)
        text, calls = "", []
        for event in reply.events:
            if "error" in event:
                raise Refused(reply, self.form)
            for choice in event["choices"]:
                said = choice.get("delta") or choice.get("message") or {}
                text += said.get("content") or ""
                calls += said.get("tool_calls") or []
        return Answer(text, calls[0] if calls else None)

    async def give(self, asked: Any, result: str) -> Answer:
        self.said += [
            {"role": "assistant", "content": None, "tool_calls": [asked]},
            {"role": "tool", "tool_call_id": asked["id"], "content": result},
        ]
        return await self._send({})


class ChatStream(Chat):
    """Chat completions, streamed."""

    name = "chat, streamed"
    streams = True


class Responses(Speaker):
    """Responses."""

    name = "responses"
    streams = False

    def path(self) -> str:
        return "/v1/responses"

    async def ask(self, prompt: str, *, lookup: bool = False, decides: bool = False) -> Answer:
        self.functions = _functions(False) if lookup or decides else None
        return await self._send(prompt)

    async def _send(self, given: Any) -> Answer:
        body: dict[str, Any] = {"model": NAME, "input": given, "stream": self.streams}
        if self.functions:
            body["tools"] = self.functions
        if self.session is not None:
            body["previous_response_id"] = self.session
        reply = await self.post(self.path(), body)
        event = reply.events[-1]
        found = event.get("response", event)
        if event.get("type") == "error" or found.get("status") == "failed":
            raise Refused(
                Reply(
                    200,
                    {},
                    json.dumps(
                        {"error": {"type": "failed", **(found.get("error") or event)}}
                    ).encode(),
                ),
                self.form,
            )
        self.session = found["id"]
        text, call = "", None
        for item in found["output"]:
            if item["type"] == "message":
                text += "".join(part["text"] for part in item["content"])
            elif item["type"] == "function_call":
                call = item
        return Answer(text, call)

    async def give(self, asked: Any, result: str) -> Answer:
        output = {"type": "function_call_output", "call_id": asked["call_id"], "output": result}
        return await self._send([output])


class ResponsesStream(Responses):
    """Responses, streamed."""

    name = "responses, streamed"
    streams = True


class Mcp(Speaker):
    """The tool `ask` of MCP."""

    form = name = "mcp"
    tools = asks = False
    transport: str | None = None

    def path(self) -> str:
        return "/mcp"

    async def _open(self) -> None:
        cuts, self.cuts = self.cuts, {}
        hello = {
            "protocolVersion": "2025-06-18",
            "capabilities": {},
            "clientInfo": {"name": "soak", "version": "1"},
        }
        begin = {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": hello}
        reply = await self.post(self.path(), begin, **_MCP)
        self.transport = reply.headers["mcp-session-id"]
        started = {"jsonrpc": "2.0", "method": "notifications/initialized"}
        await self.post(self.path(), started, **_MCP, **{"Mcp-Session-Id": self.transport})
        self.cuts = cuts

    async def ask(self, prompt: str, *, lookup: bool = False, decides: bool = False) -> Answer:
        if self.transport is None:
            await self._open()
        where = {"agent": NAME} if self.session is None else {"session": self.session}
        params = {"name": "ask", "arguments": {"prompt": prompt, **where}}
        number = self.rng.getrandbits(48)  # an earlier one, which was left, may still be open
        call = {"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": params}
        reply = await self.post(
            self.path(), call, **_MCP, **{"Mcp-Session-Id": self.transport or ""}
        )
        event = reply.events[-1]
        if "error" in event:
            raise Refused(reply, self.form)
        result = event["result"]
        found = result.get("structuredContent") or {}
        self.session = found.get("session", self.session)
        if result.get("isError"):
            error = {"message": result["content"][0]["text"]}
            body = json.dumps({"jsonrpc": "2.0", "error": error}).encode()
            raise Refused(Reply(200, {}, body), self.form)
        return Answer(found["text"])

    async def close(self) -> None:
        """End the session of the transport."""
        if self.transport is not None:
            await send(
                self.port,
                self.path(),
                b"",
                {**_MCP, "Mcp-Session-Id": self.transport},
                method="DELETE",
            )


class A2a(Speaker):
    """A2A."""

    form = "a2a"
    name = "a2a"
    tools = False
    method = "SendMessage"

    def path(self) -> str:
        return f"/a2a/{NAME}"

    async def ask(self, prompt: str, *, lookup: bool = False, decides: bool = False) -> Answer:
        if self.session is None:
            self.session = f"context-{self.rng.getrandbits(64):x}"
        return await self._send(prompt, {"contextId": self.session})

    async def cancel(self) -> None:
        """Cancel the tasks of the context, which do not end with their caller."""
        if self.session is None:
            return
        where = {"contextId": self.session}
        for task in (await self._call("ListTasks", where)).get("tasks") or ():
            if task["status"]["state"] not in _ENDED:
                with suppress(Refused):  # it has ended
                    await self._call("CancelTask", {"id": task["id"]})

    async def _call(self, method: str, params: Any) -> Any:
        body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        reply = await self.post(self.path(), body, **_A2A)
        if "error" in reply.events[-1]:
            raise Refused(reply, self.form)
        return reply.events[-1]["result"]

    async def _send(self, text: str, place: Mapping[str, str]) -> Answer:
        message = {
            "messageId": f"{self.rng.getrandbits(64):x}",
            "role": "ROLE_USER",
            "parts": [{"text": text}],
            **place,
        }
        body = {"jsonrpc": "2.0", "id": 1, "method": self.method, "params": {"message": message}}
        reply = await self.post(self.path(), body, **_A2A)
        said: dict[str, str] = defaultdict(str)
        state, task, why = "", "", ""
        for event in reply.events:
            if "error" in event:
                raise Refused(reply, self.form)
            for one in event["result"].values():
                task = one.get("taskId") or one.get("id") or task
                self.session = one.get("contextId", self.session)
                state = one.get("status", {}).get("state", state)
                if parts := one.get("status", {}).get("message", {}).get("parts"):
                    why = json.dumps(parts)
                artifacts = one.get("artifacts") or ([one["artifact"]] if "artifact" in one else [])
                for artifact in artifacts:
                    words = "".join(part.get("text", "") for part in artifact["parts"])
                    before = said[artifact["artifactId"]] if one.get("append") else ""
                    name = artifact.get("name") or self.names.get(artifact["artifactId"], "")
                    self.names[artifact["artifactId"]] = name
                    said[artifact["artifactId"]] = before + words
        if state == "TASK_STATE_FAILED":
            body = json.dumps({"error": {"code": 1, "message": why}})
            raise Refused(Reply(200, {}, body.encode()), self.form)
        text = "".join(one for key, one in said.items() if self.names[key] == "response")
        asked = {"taskId": task} if state == "TASK_STATE_INPUT_REQUIRED" else None
        return Answer(text, asked)

    async def give(self, asked: Any, result: str) -> Answer:
        return await self._send(result, asked)


class A2aStream(A2a):
    """A2A, streamed."""

    name = "a2a, streamed"
    method = "SendStreamingMessage"


class AgUi(Speaker):
    """AG-UI."""

    form = name = "ag-ui"

    def path(self) -> str:
        return f"/ag-ui/{NAME}"

    async def ask(self, prompt: str, *, lookup: bool = False, decides: bool = False) -> Answer:
        if self.session is None:
            self.session = f"thread-{self.rng.getrandbits(64):x}"
        tool = {"name": "lookup", "description": "Looks up.", "parameters": LOOKUP}
        self.offered = [tool] if lookup else []
        word = f"{self.rng.getrandbits(64):x}"
        return await self._send([{"id": word, "role": "user", "content": prompt}])

    async def _send(self, messages: list[Any], **more: Any) -> Answer:
        body = {
            "threadId": self.session,
            "runId": f"{self.rng.getrandbits(64):x}",
            "protocolVersion": "1.0",
            "messages": messages,
            "tools": self.offered,
            "context": [],
            "state": {},
            "forwardedProps": {},
            **more,
        }
        reply = await self.post(self.path(), body, Accept="text/event-stream")
        events = reply.events
        if events[-1]["type"] == "RUN_ERROR":
            raise Refused(reply, self.form)
        if events[-1]["type"] != "RUN_FINISHED":
            raise Wrong(f"a run without an end: {events[-1]}")
        text = "".join(one["delta"] for one in events if one["type"] == "TEXT_MESSAGE_CONTENT")
        outcome = events[-1]["outcome"]
        for call in outcome.get("pendingToolCallIds") or ():
            return Answer(text, call)
        for one in outcome.get("interrupts") or ():
            return Answer(text, one)
        return Answer(text)

    async def give(self, asked: Any, result: str) -> Answer:
        if isinstance(asked, str):
            word = f"{self.rng.getrandbits(64):x}"
            return await self._send(
                [{"id": word, "role": "tool", "toolCallId": asked, "content": result}]
            )
        entry = {"interruptId": asked["id"], "status": "resolved", "payload": {"approved": True}}
        return await self._send([], resume=[entry])


SPEAKERS: Sequence[type[Speaker]] = (
    Chat,
    ChatStream,
    Responses,
    ResponsesStream,
    Mcp,
    A2a,
    A2aStream,
    AgUi,
)


# What callers do.


class Tally:
    """The requests of a run: what they were, how they ended, and how long they took."""

    def __init__(self) -> None:
        self.counts: dict[tuple[str, str], Counter[str]] = defaultdict(Counter)
        self.times: dict[tuple[str, str], list[float]] = defaultdict(list)
        self.wrong: list[str] = []
        self.chunks = 0

    @property
    def total(self) -> int:
        """The number of requests."""
        return sum(sum(one.values()) for one in self.counts.values())

    async def run(self, speaker: Speaker, kind: str, done: Any) -> None:
        """Do a request, whose coroutine returns how it ended."""
        key = (speaker.name, kind)
        began = time.monotonic()
        try:
            async with asyncio.timeout(3 * WAIT_S):
                how = await done
        except Refused as refused:
            how = "wrong"
            if refused.reply.status == 429 or "try again later" in str(refused):
                how = "429"
            else:
                self._note(key, speaker, f"refused: {refused}")
        except Left:
            how = "left"
        except Exception as error:  # the soak goes on, and fails in the end
            how = "wrong"
            self._note(key, speaker, f"{type(error).__name__}: {error}")
        if how == "right":
            self.times[key].append(time.monotonic() - began)
        self.counts[key][how] += 1

    def _note(self, key: tuple[str, str], speaker: Speaker, text: str) -> None:
        text = f"{', '.join(key)}, {speaker.session}: {text}"
        self.wrong.append(text)
        print(f"{time.strftime('%H:%M:%S')} WRONG {text}", file=sys.stderr, flush=True)


class Caller:
    """One of the callers; it changes its protocol and its session now and then."""

    def __init__(self, gate: Gateway, tally: Tally, seed: str) -> None:
        self.gate = gate
        self.tally = tally
        self.rng = random.Random(seed)

    def word(self) -> str:
        """Return a word that nobody else has."""
        return f"w{self.rng.getrandbits(80):020x}"

    async def life(self, until: float) -> None:
        """Send requests until a time."""
        while time.monotonic() < until:
            speaker = self.rng.choice(SPEAKERS)(self.gate.port, self.rng)
            for _ in range(self.rng.randint(10, 100)):
                if time.monotonic() >= until:
                    break
                await self.step(speaker)
            if isinstance(speaker, Mcp):
                with suppress(Wrong, OSError):
                    await speaker.close()

    async def step(self, speaker: Speaker) -> None:
        """Send one request of any kind."""
        kinds: dict[str, tuple[float, Callable[[Speaker], Any]]] = {
            "echo": (60, self.echo),
            "stream": (16, self.stream),
            "tool": (4 if speaker.tools else 0, self.tool),
            "permission": (5 if speaker.asks else 0, self.permission),
            "leaves": (12, self.leaves),
            "leaves a question": (2 if speaker.asks else 0, self.leaves_question),
            "malformed": (8, self.malformed),
            "oversized": (0.3, self.oversized),
            "at once": (1.5, self.at_once),
            "agent dies": (1.5, self.dies),
            "agent hangs": (0.7, self.hangs),
            "agent floods": (0.7, self.floods),
            "agent's nonsense": (1, self.nonsense),
        }
        weights = [weight for weight, _ in kinds.values()]
        [kind] = self.rng.choices([*kinds], weights)
        await self.tally.run(speaker, kind, kinds[kind][1](speaker))

    async def echo(self, speaker: Speaker) -> str:
        """Get a word back."""
        word = self.word()
        return _same(await speaker.ask(f"echo {word}"), word)

    async def stream(self, speaker: Speaker) -> str:
        """Get a word back in many chunks."""
        word, count = self.word(), self.rng.choice((10, 100, 500))
        answer = await speaker.ask(f"stream {count} {word}")
        self.tally.chunks += count
        return _same(answer, " ".join([word] * count))

    async def tool(self, speaker: Speaker) -> str:
        """Run a tool for the agent."""
        word, result = self.word(), self.word()
        answer = await speaker.ask(f"call {word}", lookup=True)
        # A call of AG-UI is its id only: its arguments were in the events.
        if answer.ask is None or word not in json.dumps(answer.ask) + word * (
            speaker.form == "ag-ui"
        ):
            raise Wrong(f"expected a call with {word}, got {answer}")
        return _same(await speaker.give(answer.ask, result), f"found {result}")

    async def permission(self, speaker: Speaker) -> str:
        """Allow an action."""
        answer = await speaker.ask("permission", decides=True)
        if answer.ask is None:
            raise Wrong(f"expected a permission request, got {answer}")
        return _same(await speaker.give(answer.ask, "allow_once"), "1 of 1 allowed.")

    async def leaves_question(self, speaker: Speaker) -> str:
        """Do not answer a question, and say something else."""
        answer = await speaker.ask("permission", decides=True)
        if answer.ask is None:
            raise Wrong(f"expected a permission request, got {answer}")
        if isinstance(speaker, AgUi):
            word = f"{self.rng.getrandbits(64):x}"
            entry = {"interruptId": answer.ask["id"], "status": "cancelled"}
            said = {"id": word, "role": "user", "content": f"echo {word}"}
            await speaker._send([said], resume=[entry])
            return "right"
        if isinstance(speaker, A2a):
            await speaker.cancel()
        return await self.echo(speaker)

    async def leaves(self, speaker: Speaker) -> str:
        """Disconnect at any point, and then use the session again."""
        rng = self.rng
        if rng.random() < 0.3:
            speaker.cuts = {"cut_bytes": int(rng.random() * 600)}
        else:
            pause = rng.choice((0.0, 0.01, 0.1, 0.5, 1.5)) * rng.random()
            speaker.cuts = {"cut": lambda: pause}
        prompt = rng.choice(("wait 30", f"stream 2000 {self.word()}", "permission"))
        try:
            await speaker.ask(prompt, decides=rng.random() < 0.5, lookup=rng.random() < 0.1)
        except Left:
            pass
        finally:
            speaker.cuts = {}
        if isinstance(speaker, A2a):
            await speaker.cancel()
        if isinstance(speaker, AgUi | Responses):  # may wait for an answer; is not the last one
            speaker.session = None
        elif rng.random() < 0.5:
            await self.echo(speaker)
        return "left"

    async def malformed(self, speaker: Speaker) -> str:
        """Send what no caller should."""
        rng = self.rng
        headers: dict[str, str] = {**_MCP, **_A2A}
        body = rng.choice(
            (
                b"{",
                b"",
                b"[]",
                b"null",
                b'{"model": 5}',
                b"\xff\xfe",
                b"[" * 10_000,
                b'{"jsonrpc": "2.0", "id": 1, "method": "nothing"}',
                b'{"messages": [], "model": "x"}',
                json.dumps({"model": NAME, "messages": [{"role": "user"}], "input": 5}).encode(),
                json.dumps(
                    {"model": NAME, "messages": [{"role": "tool", "tool_call_id": "x"}]}
                ).encode(),
            )
        )
        if rng.random() < 0.2:
            headers["Authorization"] = "Bearer wrong"
        elif rng.random() < 0.1:
            headers["Acp-Session-Id"] = "s-0123456789abcdef"
            body = b'{"model": "%s", "messages": [{"role": "user", "content": "echo x"}]}' % (
                NAME.encode()
            )
        return await self._refused(speaker, body, headers, (400, 401, 404, 405, 406, 409, 415, 422))

    async def oversized(self, speaker: Speaker) -> str:
        """Send more than is allowed."""
        return await self._refused(speaker, b" " * OVER, {**_MCP, **_A2A}, (413,))

    async def _refused(
        self, speaker: Speaker, body: bytes, headers: Mapping[str, str], statuses: Sequence[int]
    ) -> str:
        reply = await send(speaker.port, speaker.path(), body, headers)
        events = reply.events if reply.body else [{}]
        is_error = reply.status in statuses
        if speaker.form == "a2a" and reply.status == 200:  # of JSON-RPC
            is_error = "error" in events[-1]
        if reply.status == 429:
            raise Refused(reply, speaker.form)
        if not is_error:
            raise Wrong(f"{body[:80]!r} got {reply.status} {reply.body[:200]!r}")
        Refused(reply, speaker.form)
        return "right"

    async def at_once(self, speaker: Speaker) -> str:
        """Send more requests to a session than may wait there."""
        if speaker.session is None or not isinstance(speaker, Chat | Mcp):
            return await self.echo(speaker)
        words = [self.word() for _ in range(20)]
        before = speaker.session

        async def one(word: str) -> None:
            other = type(speaker)(speaker.port, self.rng)
            other.session = before
            await self.tally.run(other, "at once, each", self._one(other, word))

        await asyncio.gather(*map(one, words))
        return "right"

    async def _one(self, speaker: Speaker, word: str) -> str:
        try:
            return _same(await speaker.ask(f"echo {word}"), word)
        finally:
            if isinstance(speaker, Mcp):
                await speaker.close()

    async def dies(self, speaker: Speaker) -> str:
        """Get an error from an agent that dies, and an answer from the next one."""
        await self._fails(speaker, "die")
        return await self.echo(speaker)

    async def _fails(self, speaker: Speaker, prompt: str) -> None:
        try:
            answer = await speaker.ask(prompt)
        except Refused as refused:
            if refused.reply.status not in (200, 502):
                raise
        else:
            raise Wrong(f"expected an error, got {answer}")
        if isinstance(speaker, Responses):
            speaker.session = None

    async def hangs(self, speaker: Speaker) -> str:
        """Leave an agent that does not react, and ask again."""
        speaker.cuts = {"cut": lambda: 1.0 + self.rng.random()}
        try:
            await speaker.ask("hang")
        except Left:
            pass
        finally:
            speaker.cuts = {}
        if isinstance(speaker, A2a):
            await speaker.cancel()
        if isinstance(speaker, Responses) or self.rng.random() < 0.3:
            speaker.session = None
            return "left"
        try:
            return await self.echo(speaker)
        except Refused as refused:  # its agent had to be killed
            if refused.reply.status not in (200, 502, 504):
                raise
            return await self.echo(speaker)

    async def floods(self, speaker: Speaker) -> str:
        """Read 1 MB, or leave while it comes."""
        if self.rng.random() < 0.5:
            answer = await speaker.ask("flood 10000")
            self.tally.chunks += 10_000
            return _same(answer, "x" * 1_000_000)
        speaker.cuts = {"cut": lambda: self.rng.random()}
        try:
            await speaker.ask("flood 10000")
        finally:
            speaker.cuts = {}
            if isinstance(speaker, A2a):
                await speaker.cancel()
            speaker.session = None
        return "left"

    async def nonsense(self, speaker: Speaker) -> str:
        """Use an agent that writes what is no message, or a lot on stderr."""
        word = self.word()
        prompt = self.rng.choice(("nonsense", "noise"))
        try:
            return _same(await speaker.ask(f"{prompt} {word}"), word)
        except Refused as refused:
            if prompt == "noise" or refused.reply.status not in (200, 502):
                raise
        if isinstance(speaker, Responses):
            speaker.session = None
        return await self.echo(speaker)


def _same(answer: Answer, text: str) -> str:
    if answer.text.strip() != text:
        raise Wrong(f"expected {text[:100]!r}, got {answer.text[:200]!r}, {answer.ask}")
    return "right"


# The runs.


async def mixed(folder: Path, seconds: float, seed: int) -> tuple[str, list[str]]:
    """Let callers do everything; return a report and what is wrong."""
    gate = Gateway(folder, "--turns", str(TURNS), "--agents", str(AGENTS))
    wrong: list[str] = []
    try:
        warm_up, tally = Tally(), Tally()
        looks: list[tuple[str, Seen]] = []
        for name, each, share in (("after warm-up", warm_up, 0.2), ("at the end", tally, 0.8)):
            until = time.monotonic() + seconds * share
            callers = [Caller(gate, each, f"{seed} {name} {n}") for n in range(CALLERS)]
            await asyncio.gather(*(one.life(until) for one in callers))
            looks.append((name, await gate.rest()))
        health = await send(gate.port, "/health", b"", {}, method="GET")
        if (health.status, health.body) != (200, b"ok\n"):
            wrong.append(f"/health: {health}")
        wrong += flat(gate, looks[0][1], looks[1][1])
        wrong += [*await end(gate), *warm_up.wrong, *tally.wrong]
    finally:
        gate.processes.stop()
    rows = [
        [
            name,
            kind,
            *(f"{counts[how]:,}" if counts[how] else "" for how in HOWS),
            *times(tally.times[name, kind]),
        ]
        for (name, kind), counts in sorted(tally.counts.items())
    ]
    text = (
        f"## {CALLERS} callers at once for {seconds:.0f} s\n\n"
        f"{tally.total:,} requests and {tally.chunks:,} chunks after {warm_up.total:,} requests of"
        f" warm-up. `--turns {TURNS} --agents {AGENTS} --idle {IDLE_S} --warm 2`; seed {seed}.\n\n"
        + table(["protocol", "request", *HOWS, "median ms", "p95 ms"], rows)
        + "\n"
        + seen_table(looks)
    )
    return text, wrong


HOWS = ("right", "429", "left", "wrong")


def times(found: Sequence[float]) -> list[str]:
    """Return the median and the 95th percentile, in ms."""
    if len(found) < 2:
        return ["", ""]
    quantiles = statistics.quantiles(found, n=20)
    return [f"{statistics.median(found) * 1e3:,.0f}", f"{quantiles[-1] * 1e3:,.0f}"]


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a table in Markdown."""
    lines = ["| " + " | ".join(head) + " |", "|---" * 2 + "|--:" * (len(head) - 2) + "|"]
    return "\n".join([*lines, *("| " + " | ".join(row) + " |" for row in rows)]) + "\n"


def seen_table(looks: Sequence[tuple[str, Seen]]) -> str:
    """Return what the gateway uses, at rest."""
    rows = [
        [
            name,
            f"{one.memory_mb:.1f}",
            *(
                f"{n:,}"
                for n in (
                    one.objects,
                    one.files,
                    one.threads,
                    sum(one.tasks.values()),
                    one.processes,
                    one.open,
                    one.turns,
                )
            ),
        ]
        for name, one in looks
    ]
    head = ["the gateway at rest", "memory MiB", "objects", "files", "threads", "tasks"]
    return table([*head, "processes", "open sessions", "turns"], rows)


def flat(gate: Gateway, first: Seen, last: Seen) -> list[str]:
    """Return what has grown or is left."""
    wrong: list[str] = []
    if last.memory_mb > first.memory_mb * 1.1 + 4:
        wrong.append(f"memory: {first.memory_mb:.1f} MiB, then {last.memory_mb:.1f}")
    if last.files > first.files + 2:
        wrong.append(f"files: {first.files}, then {last.files}")
    if last.threads > first.threads + 2:
        wrong.append(f"threads: {first.threads}, then {last.threads}")
    wrong += (
        f"tasks {name!r}: {first.tasks.get(name, 0)}, then {count}"
        for name, count in last.tasks.items()
        if count > first.tasks.get(name, 0) + 1
    )
    if last.turns or last.waiting or last.open or last.slots != TURNS:
        wrong.append(f"left: {last.turns=} {last.waiting=} {last.open=} {last.slots=}")
    # The gateway, and an owner, an agent and a guardian of each warm session.
    if last.processes > 1 + 4 * gate.warm:
        wrong.append(f"processes: {last.processes}")
    return wrong


async def end(gate: Gateway) -> list[str]:
    """End the gateway; return what it leaves."""
    os.kill(gate.pid, signal.SIGTERM)
    until = time.monotonic() + 60
    # Another process ends.
    while gate.processes._started[-1].poll() is None and time.monotonic() < until:  # noqa: ASYNC110
        await asyncio.sleep(0.1)
    wrong: list[str] = []
    if (status := gate.processes._started[-1].poll()) != 0:
        wrong.append(f"the gateway has ended with {status}")
    while (left := gate.processes.pids) and time.monotonic() < until:  # noqa: ASYNC110
        await asyncio.sleep(0.5)
    for pid in left:
        with suppress(OSError):
            wrong.append(f"left behind: {pid} {command_of(pid)}")
    locked = locks(gate.folder)
    if locked:
        wrong.append(f"locked: {locked}")
    log = gate.log()
    if "Traceback" in log:
        wrong.append(f"a traceback: {log[log.index('Traceback') :][:3000]}")
    if "was never retrieved" in log or "was destroyed" in log:
        wrong.append(f"a lost task: {log[-3000:]}")
    return wrong


def command_of(pid: int) -> str:
    """Return the command of a process."""
    return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()[:200]


def locks(folder: Path) -> list[str]:
    """Return the sessions that have an owner."""
    os.environ["ACCORD_STATE"] = str(folder / "state")
    os.environ["XDG_RUNTIME_DIR"] = str(folder / "run")
    from accord_terminal.sessions.records import Store, has_owner

    return [record.id for record in Store() if has_owner(record.id)]


async def many(folder: Path, count: int, seed: int) -> tuple[str, list[str]]:
    """Let `count` sessions work at once with few agents, then many requests and chunks."""
    gate = Gateway(folder, "--turns", "64", "--agents", "16", warm=0)
    wrong: list[str] = []
    looks: list[tuple[str, Seen]] = []
    rows: list[list[str]] = []
    try:
        rng = random.Random(seed)
        speakers = [SPEAKERS[n % len(SPEAKERS)](gate.port, rng) for n in range(count)]

        async def say(speaker: Speaker, prompt: str, text: str, tally: Tally) -> None:
            async def one() -> str:
                return _same(await speaker.ask(prompt), text)

            await tally.run(speaker, "say", one())

        async def round_of(name: str, asked: Sequence[Speaker], chunks: int, rounds: int) -> None:
            tally = Tally()
            began = time.monotonic()

            async def each(speaker: Speaker) -> None:
                for _ in range(rounds):
                    word = f"w{rng.getrandbits(80):020x}"
                    text = " ".join([word] * chunks)
                    await say(speaker, f"stream {chunks} {word}", text, tally)

            await asyncio.gather(*map(each, asked))
            wrong.extend(tally.wrong)
            if busy := sum(one["429"] for one in tally.counts.values()):
                wrong.append(f"{name}: {busy} were refused by 429")
            took = time.monotonic() - began
            found = [took_s for one in tally.times.values() for took_s in one]
            right, errors = len(found), len(tally.wrong)
            cells = f"{right:,}", f"{chunks * right:,}", f"{busy + errors}", f"{took:.1f}"
            rows.append([name, f"{len(asked)}", *cells, *times(found)])
            looks.append((name, await gate.look()))
            print(f"{name}: {rows[-1]}", file=sys.stderr, flush=True)

        await round_of(f"{count} new sessions at once", speakers, 5, 1)
        await round_of("the same sessions again", speakers, 5, 1)
        few = speakers[:16]
        await round_of("warm-up of 16 sessions", few, 100, 20)
        before = looks[-1][1]
        await round_of("1,000 requests, 100,000 chunks", few, 100, 63)
        after = looks[-1][1]
        if after.memory_mb > before.memory_mb * 1.05 + 2:
            wrong.append(f"memory: {before.memory_mb:.1f} MiB, then {after.memory_mb:.1f}")
        looks.append(("at rest", await gate.rest()))
        wrong += await end(gate)
    finally:
        gate.processes.stop()
    head = ["", "sessions", "right", "chunks", "errors", "seconds", "median ms", "p95 ms"]
    text = f"## {count} sessions at once with `--agents 16`\n\n" + table(head, rows) + "\n"
    return text + seen_table(looks), wrong


def main() -> int:
    """Run the soak, and report."""
    if sys.argv[1:2] == ["--gateway"]:
        gateway(sys.argv[2:])
        return 0
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--sessions", type=int, default=0, help="then so many at once")
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--save", type=Path)
    options = parser.parse_args()
    parts = [f"# A soak of `accord gateway`\n\n{machine.description()}.\n"]
    wrong: list[str] = []
    with tempfile.TemporaryDirectory(prefix="soak-") as name:
        folder = Path(name)
        for run in ("mixed", "many"):
            if run == "mixed" and options.seconds:
                text, found = asyncio.run(mixed(folder / run, options.seconds, options.seed))
            elif run == "many" and options.sessions:
                text, found = asyncio.run(many(folder / run, options.sessions, options.seed))
            else:
                continue
            parts.append(text)
            wrong += found
    verdict = "Nothing was wrong." if not wrong else f"**{len(wrong)} were wrong**, such as:\n"
    parts.append("\n".join([f"## Result\n\n{verdict}", *(f"- {one}" for one in wrong[:20]), ""]))
    machine.report("\n".join(parts), "GATEWAY_SOAK", options.save)
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
