"""An agent of version 2 that sends what the prompt tells it: JSON, a list of [session, update]."""

from __future__ import annotations

import json
import sys

from json_lines import refuse, send, update

for line in sys.stdin:
    call = json.loads(line)
    match call.get("method"):
        case "initialize":
            result = {"protocolVersion": 2, "info": {"name": "told", "version": "1"}}
            send(id=call["id"], result={**result, "capabilities": {"session": {}}})
        case "session/new":
            send(id=call["id"], result={"sessionId": "one"})
        case "session/prompt":
            send(id=call["id"], result={"messageId": "p1"})
            for session_id, value in json.loads(call["params"]["prompt"][0]["text"]):
                update(session_id, value)
            idle = {"sessionUpdate": "state_update", "state": "idle", "stopReason": "end_turn"}
            update("one", idle)
        case _:
            refuse(call)
