"""An agent that misbehaves as its argument says, written without Accord."""

from __future__ import annotations

import json
import os
import sys


def read() -> dict[str, object]:
    return json.loads(sys.stdin.readline())


def answer(message: dict[str, object], result: object) -> None:
    response = {"jsonrpc": "2.0", "id": message["id"], "result": result}
    sys.stdout.write(json.dumps(response) + "\n")
    sys.stdout.flush()


answer(read(), {"protocolVersion": 1, "agentCapabilities": {}})
asked = read()
match sys.argv[1]:
    case "dies":
        sys.stderr.write("the last words\n")
        sys.exit(3)
    case "is killed":
        os.kill(os.getpid(), 9)
    case "dies in a line":
        sys.stderr.write("the last words\n")
        sys.stdout.write('{"jsonrpc":"2.0","id":')
        sys.stdout.flush()
        os._exit(3)
    case "hangs up":
        os.close(1)
        read()
    case "floods stderr":
        for number in range(100_000):
            sys.stderr.write(f"line {number}\n")
        sys.stderr.flush()
        answer(asked, "done")
        read()
    case "prints":
        sys.stdout.write("Starting up...\n\x1b[31mwarning\x1b[0m\n")
        answer(asked, "done")
        read()
