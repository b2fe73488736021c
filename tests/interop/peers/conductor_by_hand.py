"""A conductor written without Accord: DIALECT PROXY... AGENT, each a command in one word.

It speaks one dialect with all proxies, acp or rust, and starts them at once.
"""

import json
import shlex
import subprocess
import sys
import threading
from typing import IO, Any

NAMES = {
    "acp": ("proxy/initialize", "proxy/successor"),
    "rust": ("_proxy/initialize", "_proxy/successor"),
}
CANCEL = "$/cancel_request"
Message = dict[str, Any]


class Component:
    """A program of the chain, or the client, with the ids of the connection to it."""

    def __init__(self, write: IO[bytes]) -> None:
        self.write = write
        self.sent = 0
        self.pending: dict[int, tuple[Component, Any]] = {}
        self.passed: dict[Any, tuple[Component, int]] = {}  # id that it used: where it went

    def send(self, message: Message) -> None:
        text = json.dumps({"jsonrpc": "2.0", **message}, ensure_ascii=False)
        try:
            self.write.write(text.encode() + b"\n")
            self.write.flush()
        except BrokenPipeError:
            pass


class Conductor:
    """Routes the messages of all components, one at a time."""

    def __init__(self, dialect: str, commands: list[str]) -> None:
        self.dialect = dialect
        self.initialize, self.successor = NAMES[dialect]
        self.lock = threading.Lock()
        self.programs = [
            subprocess.Popen(shlex.split(command), stdin=subprocess.PIPE, stdout=subprocess.PIPE)
            for command in commands
        ]
        inputs = [program.stdin for program in self.programs]
        self.chain = [Component(write) for write in (sys.stdout.buffer, *inputs) if write]

    def run(self) -> int:
        for place, program in enumerate(self.programs, 1):
            assert program.stdout
            read = threading.Thread(target=self.read, args=(place, program.stdout), daemon=True)
            read.start()
        self.read(0, sys.stdin.buffer)
        for program in self.programs:
            assert program.stdin
            program.stdin.close()
        return max(program.wait() for program in self.programs)

    def read(self, place: int, lines: IO[bytes]) -> None:
        for line in lines:
            with self.lock:
                self.route(place, json.loads(line))

    def is_proxy(self, place: int) -> bool:
        return 0 < place < len(self.chain) - 1

    def route(self, place: int, message: Message) -> None:
        source, method, params = self.chain[place], message.get("method"), message.get("params")
        if method is None:
            asker, its = source.pending.pop(message.pop("id"))
            del asker.passed[its]
            asker.send({"id": its, **message})
        elif method == self.successor and self.is_proxy(place):
            inner: Message = {key: params[key] for key in ("method", "params") if key in params}
            if inner["method"] == CANCEL:
                self.cancel(source, inner["params"])
            elif inner["method"] == "initialize" and self.is_proxy(place + 1):
                self.forward(source, message, place + 1, inner | {"method": self.initialize})
            else:
                self.forward(source, message, place + 1, inner)
        elif method == CANCEL:
            self.cancel(source, params)
        elif place == 0:
            first = self.initialize if method == "initialize" and self.is_proxy(1) else method
            self.forward(source, message, 1, {**message, "method": first})
        elif self.is_proxy(place - 1):
            inner = {key: message[key] for key in ("method", "params") if key in message}
            self.forward(source, message, place - 1, {"method": self.successor, "params": inner})
        else:
            self.forward(source, message, place - 1, message)

    def forward(self, source: Component, received: Message, place: int, message: Message) -> None:
        target = self.chain[place]
        if "id" in received:
            target.sent += 1
            target.pending[target.sent] = (source, received["id"])
            source.passed[received["id"]] = (target, target.sent)
            message = {**message, "id": target.sent}
        target.send(message)

    def cancel(self, source: Component, params: Message) -> None:
        target, its = source.passed.get(params["requestId"], (None, None))
        if target is None:
            return
        cancel: Message = {"method": CANCEL, "params": {"requestId": its}}
        # The Rust SDK wraps it, if the request that it cancels was wrapped.
        wrapped = self.chain.index(target) < self.chain.index(source)
        if self.dialect == "rust" and wrapped and self.is_proxy(self.chain.index(target)):
            cancel = {"method": self.successor, "params": cancel}
        target.send(cancel)


if __name__ == "__main__":
    sys.exit(Conductor(sys.argv[1], sys.argv[2:]).run())
