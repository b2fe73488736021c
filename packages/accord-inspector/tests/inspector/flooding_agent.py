"""An agent that streams fast, waits in the middle of a turn, or dies, for tests of the inspector.

The text of a prompt is a command: `stream N` sends N updates, `wait FILE` waits until the file
exists, `die` ends the process with status 3.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path

WAIT_S = 30.0


def send(**message: object) -> None:
    os.write(1, json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")


def update(session: str, text: str) -> bytes:
    chunk = {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": text}}
    params = {"sessionId": session, "update": chunk}
    message = {"jsonrpc": "2.0", "method": "session/update", "params": params}
    return json.dumps(message).encode() + b"\n"


def run(session: str, command: str, argument: str) -> None:
    if command == "stream":
        block = update(session, "word ") * 100
        for _ in range(int(argument) // 100):
            data = block
            while data:
                data = data[os.write(1, data) :]
    elif command == "wait":
        os.write(1, update(session, "before "))
        deadline = time.monotonic() + WAIT_S
        while not Path(argument).exists() and time.monotonic() < deadline:
            time.sleep(0.01)
        os.write(1, update(session, "after"))
    elif command == "die":
        sys.stderr.write("the agent dies\n")
        sys.exit(3)
    else:
        os.write(1, update(session, f"{command} {argument}"))


for line in sys.stdin:
    request = json.loads(line)
    method, params = request.get("method"), request.get("params", {})
    if method == "initialize":
        info = {"name": "flooding-agent", "version": "1"}
        send(id=request["id"], result={"protocolVersion": 1, "agentInfo": info})
    elif method == "session/new":
        send(id=request["id"], result={"sessionId": "s"})
    elif method == "session/prompt":
        words = params["prompt"][0]["text"].partition(" ")
        run(params["sessionId"], words[0], words[2])
        send(id=request["id"], result={"stopReason": "end_turn"})
    elif "id" in request and method is not None:
        error = {"code": -32601, "message": "Method not found"}
        send(id=request["id"], error=error)
