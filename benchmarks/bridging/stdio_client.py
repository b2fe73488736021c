"""A client of version 1 over pipes that decodes only what it must."""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import machine

_CHUNK = b'"agent_message_chunk"'


class StdioAgent:
    """An agent process; its stderr goes to a file."""

    def __init__(self, argv: Sequence[str], cwd: Path, env: Mapping[str, str]) -> None:
        self._log = (cwd / "agent.log").open("w+b")
        self._process = subprocess.Popen(
            argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._log, cwd=cwd, env=env
        )
        self._cwd = cwd
        self._rest = b""
        self._ids = 0

    def start(self) -> float:
        """Initialize; return the seconds that it took since the call."""
        began = time.perf_counter()
        self._call("initialize", {"protocolVersion": 1, "clientCapabilities": {}})
        return time.perf_counter() - began

    def new_session(self) -> str:
        """Open a session."""
        found, _ = self._call("session/new", {"cwd": str(self._cwd), "mcpServers": []})
        return str(found["sessionId"])

    def prompt(self, session_id: str, text: str) -> tuple[float, int]:
        """Run a turn; return the seconds and the number of chunks."""
        began = time.perf_counter()
        content = [{"type": "text", "text": text}]
        _, chunks = self._call("session/prompt", {"sessionId": session_id, "prompt": content})
        return time.perf_counter() - began, chunks

    def _call(self, method: str, params: Any) -> tuple[Any, int]:
        self._ids += 1
        message = {"jsonrpc": "2.0", "id": self._ids, "method": method, "params": params}
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(message).encode() + b"\n")
        self._process.stdin.flush()
        chunks = 0
        while True:
            data = os.read(self._process.stdout.fileno(), 1 << 18)
            if not data:
                raise RuntimeError(f"the agent has ended: {self._tail()}")
            whole, newline, self._rest = (self._rest + data).rpartition(b"\n")
            if not newline:
                continue
            chunks += whole.count(_CHUNK)
            for line in whole.split(b"\n"):
                if _CHUNK in line or b'"id"' not in line:
                    continue
                answer = json.loads(line)
                if answer.get("id") == self._ids and "method" not in answer:
                    if "error" in answer:
                        raise RuntimeError(f"{method}: {answer['error']}")
                    return answer["result"], chunks

    def cpu_s(self) -> float:
        """Return the processor time of the process so far."""
        return machine.cpu_s(self._process.pid)

    def _tail(self) -> str:
        self._log.seek(0)
        return self._log.read().decode(errors="replace")[-1000:]

    def close(self) -> None:
        """End the agent."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process.stdout.close()
        self._log.close()
