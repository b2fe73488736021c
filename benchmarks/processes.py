"""Runs clients and agents as processes and takes what they measured."""

from __future__ import annotations

import json
import os
import select
import subprocess
import time
from typing import Any

from machine import cpu_s
from peers import Peer

START_TIMEOUT_S = 30.0
CLIENT_TIMEOUT_S = 240.0
READ_BYTES = 1 << 18

Params = dict[str, Any]
Result = dict[str, Any]


class Failed(Exception):
    """A measurement did not come to its end."""


def run_client(
    peer: Peer,
    experiment: str,
    params: Params,
    *,
    agent: tuple[str, ...] = (),
    core: int | None = None,
    extra: dict[str, str] | None = None,
) -> Result:
    """Run a peer's client against its own agent, or another; both on one `core` if given."""
    pinned = () if core is None else ("taskset", "-c", str(core))
    argv = [*pinned, *peer.client, experiment, json.dumps(params), *(agent or peer.agent)]
    return run(argv, peer.variables(extra))


def run(argv: list[str], environment: dict[str, str], stdin: bytes = b"") -> Result:
    """Return the JSON object that a program prints after `RESULT`."""
    try:
        done = subprocess.run(
            argv, input=stdin, env=environment, capture_output=True, timeout=CLIENT_TIMEOUT_S
        )
    except subprocess.TimeoutExpired:
        raise Failed(f"no result after {CLIENT_TIMEOUT_S:.0f} s") from None
    for line in reversed(done.stdout.splitlines()):
        if line.startswith(b"RESULT "):
            return json.loads(line[7:])
    errors = done.stderr.decode(errors="replace").strip()
    raise Failed(f"exit status {done.returncode}: {errors[-1500:]}")


def start_to_exit_ms(argv: list[str], environment: dict[str, str]) -> float:
    """Run a program without a terminal; return how long it took."""
    start = time.perf_counter()
    done = subprocess.run(
        argv,
        stdin=subprocess.DEVNULL,
        env=environment,
        capture_output=True,
        timeout=START_TIMEOUT_S,
        check=False,
    )
    elapsed = time.perf_counter() - start
    if done.returncode or b"hi" not in done.stdout:
        raise Failed(
            f"exit status {done.returncode}: {done.stderr.decode(errors='replace')[-1500:]}"
        )
    return elapsed * 1e3


class Server:
    """A peer's server as a process; `urls` by scheme."""

    def __init__(self, peer: Peer) -> None:
        self._process = subprocess.Popen(
            peer.server, stdout=subprocess.PIPE, env=peer.variables(), text=True
        )
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        self.urls = {url.partition(":")[0]: url for url in line.split()}
        if not self.urls:
            self._process.kill()
            raise Failed(f"the server ended with exit status {self._process.wait()}")

    def __enter__(self) -> Server:
        return self

    def __exit__(self, *exc: object) -> None:
        self._process.kill()
        self._process.wait()
        assert self._process.stdout is not None
        self._process.stdout.close()

    def agent(self, scheme: str) -> tuple[str, str]:
        """Return what a client of the benchmarks gets as its agent: a URL and a process id."""
        return self.urls[scheme], str(self._process.pid)


class Driver:
    """A client that blocks and does nothing but read and write: the agent alone is measured."""

    def __init__(self, peer: Peer) -> None:
        self.start = time.perf_counter()
        self.process = subprocess.Popen(
            peer.agent,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            bufsize=0,
            env=peer.variables(),
        )
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self._in, self._out = self.process.stdin.fileno(), self.process.stdout.fileno()
        self._buffer = b""
        self._id = 0

    def __enter__(self) -> Driver:
        return self

    def __exit__(self, *exc: object) -> None:
        self.process.kill()
        self.process.wait()
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.close()
        self.process.stdout.close()

    def initialize(self) -> None:
        capabilities = {"fs": {"readTextFile": True, "writeTextFile": True}, "terminal": True}
        self.call("initialize", protocolVersion=1, clientCapabilities=capabilities)

    def new_session(self) -> str:
        return self.call("session/new", cwd="/tmp", mcpServers=[])["sessionId"]

    def call(self, method: str, **params: Any) -> Result:
        """Ask and wait for the answer; nothing else may come."""
        self._send(method, params)
        while b"\n" not in self._buffer:
            self._buffer += self._read()
        line, _, self._buffer = self._buffer.partition(b"\n")
        message = json.loads(line)
        if "result" not in message:
            raise Failed(f"{method} was answered {line[:200]!r}")
        return message["result"]

    def drain_stream(self, session_id: str, count: int) -> Result:
        """Let the agent stream; count lines and look at none."""
        agent = self.process.pid
        cpu, start = cpu_s(agent), time.perf_counter()
        command = json.dumps({"do": "stream", "n": count})
        prompt = [{"type": "text", "text": command}]
        self._send("session/prompt", {"sessionId": session_id, "prompt": prompt})
        lines = 0
        while lines < count + 1:  # the last one is the answer
            lines += self._read().count(b"\n")
        elapsed = time.perf_counter() - start
        return {"per_s": count / elapsed, "agent_cpu_s": cpu_s(agent) - cpu}

    def _send(self, method: str, params: Params) -> None:
        self._id += 1
        request = {"jsonrpc": "2.0", "id": self._id, "method": method, "params": params}
        os.write(self._in, json.dumps(request).encode() + b"\n")

    def _read(self) -> bytes:
        if not select.select([self._out], [], [], START_TIMEOUT_S)[0]:
            raise Failed(f"silence for {START_TIMEOUT_S:.0f} s")
        data = os.read(self._out, READ_BYTES)
        if not data:
            raise Failed(f"the agent ended with exit status {self.process.wait()}")
        return data
