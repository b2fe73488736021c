"""An agent that fails in one way: `python misbehaving.py WAY`."""

from __future__ import annotations

import json
import sys
import threading

INITIALIZED = {
    "protocolVersion": 1,
    "agentCapabilities": {"loadSession": True},
    "authMethods": [{"id": "key", "name": "With a\x1b[2J key"}],
    "agentInfo": {"name": "gemini-cli", "title": "Gemini CLI", "version": "0.61.0"},
}


def answer(request: dict[str, object], **fields: object) -> None:
    print(json.dumps({"jsonrpc": "2.0", "id": request["id"], **fields}), flush=True)


def main(way: str) -> None:
    if way == "dies":
        sys.exit("no key\x1b[31m found")
    if way == "crashes":
        sys.stderr.write("at main.js:3\n\nError: Cannot find module 'x'\n\nNode.js v22.1.0\n")
        sys.exit(1)
    if way == "hangs":
        threading.Event().wait()
    if way == "garbage":
        print("\x00\x1b[2J garbage\n" * 50, flush=True)
        threading.Event().wait()
    if way == "noisy":
        print("Welcome to the agent!", flush=True)
    for line in sys.stdin:
        request = json.loads(line)
        match request.get("method"):
            case "initialize":
                meta = {"_meta": {"steering": {"supported": True}}} if way == "login" else {}
                answer(request, result={**INITIALIZED, **meta})
            case "session/new" if way == "login":
                answer(request, error={"code": -32000, "message": "Log in first"})
            case "session/new" if way == "refuses":
                answer(request, error={"code": -32603, "message": "no model"})
            case "session/new" if way == "leaves":
                sys.exit(3)
            case "session/new" if way != "silent":
                answer(request, result={"sessionId": "s"})


if __name__ == "__main__":
    main(sys.argv[1])
