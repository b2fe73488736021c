"""A conductor written by hand, without Accord. Nodes: 0 is the client, the last one the agent.

Run as a program, its arguments are the dialect and the command lines of the components.
"""

from __future__ import annotations

import asyncio
import json
import shlex
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[2]))

from conformance.chain.base_proxy import NAMES, Fields, fields_of, ident, joined

INITIALIZE = ("initialize", "proxy/initialize", "_proxy/initialize")


class BaseConductor:
    """Forwards everything between neighbours; doubles override one step each.

    `send` writes a message to a node, `spawn` starts all components, and `close` disconnects the
    client.
    """

    def __init__(
        self,
        agent: int,
        send: Callable[[int, str], None],
        spawn: Callable[..., None],
        close: Callable[[], None],
        dialect: str = "acp",
    ) -> None:
        self.agent = agent
        self.names = NAMES[dialect]
        self.dialect = dialect
        self.write = send
        self.spawn = spawn
        self.close = close
        self.last_id = 0
        self.waiting: dict[tuple[int, str], tuple[int, str]] = {}  # sent: received
        self.forwarded: dict[tuple[int, str], tuple[int, str]] = {}  # received: sent
        self.is_started = False
        self.first: tuple[int, str] | None = None  # the `initialize` of the client
        self.failure = ""
        self.open_methods: dict[str, str] = {}

    is_bounded = True  # stops reading when a node does

    def opened(self) -> None:
        """The client has connected."""

    def receive(self, node: int, text: str) -> None:
        """Handle one message of a node."""
        fields = fields_of(text)
        if "method" not in fields:
            self.respond(node, fields)
            return
        method = json.loads(fields["method"])
        wrapped = 0 < node < self.agent and method in self.names[1:]
        if wrapped:
            inner = fields_of(fields["params"])
            fields = {**ident(fields), **self.unwrapped(inner)}
            method = json.loads(fields["method"])
        if method == "$/cancel_request":
            self.cancel(node, fields)
        elif method == "proxy/initialize" and not wrapped:
            self.refuse(node, fields)
        elif node == 0 and method == "initialize":
            self.initialize(fields)
        elif node == 0 or wrapped:
            self.forward(node, node + 1, fields)
        else:
            self.forward(node, node - 1, fields)

    # Steps.

    def unwrapped(self, inner: Fields) -> Fields:
        return {name: inner[name] for name in ("method", "params") if name in inner}

    def refuse(self, node: int, fields: Fields) -> None:
        error = {"code": -32600, "message": "Only a conductor sends this"}
        self.send(node, {"id": fields["id"], "error": json.dumps(error)})

    def initialize(self, fields: Fields) -> None:
        if self.failure:
            self.send(0, {"id": fields["id"], "error": self.failure})
            return
        self.first = (0, fields["id"])
        self.start()
        self.forward(0, 1, fields)

    def start(self) -> None:
        if not self.is_started:
            self.is_started = True
            self.spawn()

    def forward(self, source: int, target: int, fields: Fields) -> None:
        out = {name: fields[name] for name in ("method", "params") if name in fields}
        if "id" in fields:
            out["id"] = self.new_id()
            self.waiting[target, out["id"]] = (source, fields["id"])
            self.forwarded[source, fields["id"]] = (target, out["id"])
        self.deliver(source, target, out)

    def deliver(self, source: int, target: int, out: Fields) -> None:
        """Send a message in the form that its receiver expects."""
        if source < target:
            if out["method"] == '"initialize"':
                out = self.initialization(target, out)
        elif target > 0:
            name = self.names[1 if "id" in out else 2]
            inner = {key: out[key] for key in ("method", "params") if key in out}
            out = {**ident(out), "method": json.dumps(name), "params": joined(inner)}
        self.send(target, out)

    def initialization(self, target: int, out: Fields) -> Fields:
        if target == self.agent:
            return out
        out = {**out, "method": json.dumps(self.names[0])}
        if self.dialect == "thinkwell":
            params = fields_of(out["params"])
            out["params"] = joined({**params, "_meta": '{"proxy":true}'})
        return out

    def respond(self, node: int, fields: Fields) -> None:
        source, theirs = self.waiting.pop((node, fields["id"]))
        self.forwarded.pop((source, theirs), None)
        if (source, theirs) == self.first and "error" in fields:
            self.failure = fields["error"]
        self.send(source, {**fields, "id": theirs})

    def cancel(self, node: int, fields: Fields) -> None:
        asked = fields_of(fields["params"])["requestId"]
        if (node, asked) in self.forwarded:
            target, own = self.forwarded[node, asked]
            self.send_cancel(target, own)

    def send_cancel(self, target: int, own: str) -> None:
        params = f'{{"requestId":{own}}}'
        self.send(target, {"method": '"$/cancel_request"', "params": params})

    def died(self, node: int) -> None:
        """Answer the open requests, and end the chain."""
        name = "agent" if node == self.agent else f"proxy {node}"
        error = {"code": -32603, "message": "It exited", "data": {"component": name}}
        for source, theirs in self.waiting.values():
            self.send(source, {"id": theirs, "error": json.dumps(error)})
        self.waiting.clear()
        self.close()

    # Messages.

    def new_id(self) -> str:
        self.last_id += 1
        return f'"c-{self.last_id}"'

    def send(self, node: int, fields: Fields) -> None:
        fields.pop("jsonrpc", None)
        self.write(node, joined({"jsonrpc": '"2.0"', **fields}))


async def serve(dialect: str, commands: Sequence[str]) -> None:
    """Run on stdin and stdout."""
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader(limit=2**19)
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    pipe, protocol = await loop.connect_write_pipe(asyncio.streams.FlowControlMixin, sys.stdout)
    out = asyncio.StreamWriter(pipe, protocol, None, loop)
    writers: dict[int, asyncio.StreamWriter] = {0: out}
    early: list[tuple[int, str]] = []
    processes: list[asyncio.subprocess.Process] = []
    tasks: list[asyncio.Task[None]] = []
    ended = asyncio.Event()

    def send(node: int, text: str) -> None:
        if node in writers:
            writers[node].write(text.encode() + b"\n")
        else:
            early.append((node, text))

    async def start(node: int, command: str) -> None:
        process = await asyncio.create_subprocess_exec(
            *shlex.split(command),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            limit=2**19,
        )
        assert process.stdin is not None
        assert process.stdout is not None
        processes.append(process)
        writers[node] = process.stdin
        for target, text in early:
            if target == node:
                send(node, text)
        await copy(node, process.stdout)

    def spawn() -> None:
        for node, command in enumerate(commands, 1):
            tasks.append(asyncio.create_task(start(node, command)))

    conductor = BaseConductor(len(commands), send, spawn, ended.set, dialect)

    async def copy(node: int, source: asyncio.StreamReader) -> None:
        while line := await source.readline():
            conductor.receive(node, line.decode().rstrip("\n"))
            for writer in list(writers.values()):
                await writer.drain()
        if node == 0:
            ended.set()
        elif not ended.is_set():
            conductor.died(node)

    tasks.append(asyncio.create_task(copy(0, reader)))
    await ended.wait()
    for node, writer in writers.items():
        if node:
            writer.close()  # a component reads what was written, and ends
    for process in processes:
        try:
            async with asyncio.timeout(2):
                await process.wait()
        except TimeoutError:
            process.kill()
            await process.wait()
    for task in tasks:
        task.cancel()


if __name__ == "__main__":
    asyncio.run(serve(sys.argv[1], sys.argv[2:]))
