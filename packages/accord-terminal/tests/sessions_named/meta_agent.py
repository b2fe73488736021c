"""An agent that sends `_meta` with each update, in the version of its argument.

Its text is the `_meta` of the request that has opened the session, if that had one.
"""

from __future__ import annotations

import json
import sys
from typing import Any

from json_lines import refuse, send, update

VERSION = int(sys.argv[1])
INFO = {"name": "meta", "version": "1"}
UPDATES: list[dict[str, Any]] = [
    {
        "sessionUpdate": "agent_message_chunk",
        "messageId": "m1",
        "content": {"type": "text", "text": "Hello."},
        "_meta": {"example.org/of": "a message"},
    },
    {
        "sessionUpdate": "tool_call" if VERSION == 1 else "tool_call_update",
        "toolCallId": "t1",
        "title": "A call",
        "status": "completed",
        "_meta": {"example.org/of": "a tool call"},
    },
]


for line in sys.stdin:
    call = json.loads(line)
    match call.get("method"):
        case "initialize" if VERSION == 1:
            send(id=call["id"], result={"protocolVersion": 1, "agentInfo": INFO})
        case "initialize":
            capabilities: dict[str, Any] = {"session": {}}
            result = {"protocolVersion": 2, "info": INFO, "capabilities": capabilities}
            send(id=call["id"], result=result)
        case "session/new":
            if "_meta" in call["params"]:
                UPDATES[0]["content"]["text"] = json.dumps(call["params"]["_meta"])
            send(id=call["id"], result={"sessionId": "one"})
        case "session/prompt":
            if VERSION == 2:
                send(id=call["id"], result={"messageId": "p1"})
            for value in UPDATES:
                update("one", value)
            if VERSION == 1:
                send(id=call["id"], result={"stopReason": "end_turn"})
            else:
                state = {"sessionUpdate": "state_update", "state": "idle"}
                update("one", {**state, "stopReason": "end_turn"})
        case _:
            refuse(call)
