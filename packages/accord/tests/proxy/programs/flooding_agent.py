"""An agent without Accord that answers prompts by many updates: `flooding_agent.py SENT COUNT`.

It writes how many it has sent to the file SENT when nobody has read for a second what it writes,
and when all are sent.
"""

from __future__ import annotations

import json
import os
import select
import sys
from pathlib import Path
from typing import Any

SENT, COUNT = Path(sys.argv[1]), int(sys.argv[2])
CHUNK = {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": 2000 * "x"}}


sent = 0


def report() -> None:
    new = SENT.with_suffix(".new")
    new.write_text(str(sent))
    new.replace(SENT)


def send(**message: Any) -> None:
    rest = json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n"
    while rest:
        if not select.select([], [1], [], 1)[1]:
            report()
            select.select([], [1], [])
        rest = rest[os.write(1, rest[: select.PIPE_BUF]) :]


for line in sys.stdin:
    request = json.loads(line)
    if request["method"] == "session/prompt":
        for number in range(COUNT):
            sent = number
            send(method="session/update", params={"sessionId": "s", "update": CHUNK})
        sent = COUNT
        report()
    send(id=request["id"], result={"protocolVersion": 1, "stopReason": "end_turn"})
