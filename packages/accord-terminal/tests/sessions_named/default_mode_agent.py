"""An agent that loads sessions in its default mode; a prompt is answered with the mode.

default_mode_agent.py 1|2 [MODE…]      its modes: the first is the default
default_mode_agent.py 1|2 - [MODE…]    it says nothing of its options when it loads a session
"""

from __future__ import annotations

import json
import sys
from typing import Any

from json_lines import refuse, send, update

is_silent = "-" in sys.argv
version, modes = int(sys.argv[1]), sys.argv[2 + is_silent :] or ["write", "read-only"]
values: dict[str, Any] = {"mode": modes[0], "thinking": True}


def setup() -> dict[str, Any]:
    choices = [{"value": mode, "name": mode.title()} for mode in modes]
    option = {"name": "Mode", "category": "mode", "currentValue": values["mode"]}
    switch = {"name": "Thinking", "type": "boolean", "currentValue": values["thinking"]}
    select = {**option, "type": "select", "options": choices}
    key = "id" if version == 1 else "configId"
    options = [{key: "mode", **select}, {key: "thinking", **switch}]
    if version == 2:
        return {"configOptions": options}
    shown = [{"id": mode, "name": mode.title()} for mode in modes]
    return {"modes": {"availableModes": shown, "currentModeId": values["mode"]}}


for line in sys.stdin:
    call = json.loads(line)
    params = call.get("params") or {}
    match call.get("method"):
        case "initialize" if version == 1:
            result: dict[str, Any] = {"protocolVersion": 1}
            result["agentCapabilities"] = {"loadSession": True}
            send(id=call["id"], result=result | {"agentInfo": {"name": "defaults", "version": "1"}})
        case "initialize":
            result = {"protocolVersion": 2, "info": {"name": "defaults", "version": "1"}}
            send(id=call["id"], result=result | {"capabilities": {"session": {"resume": {}}}})
        case "session/new":
            send(id=call["id"], result={"sessionId": "one", **setup()})
        case "session/load" | "session/resume":
            send(id=call["id"], result={} if is_silent else setup())
        case "session/set_mode":
            values["mode"] = params["modeId"]
            send(id=call["id"], result={})
        case "session/set_config_option":
            values[params["configId"]] = params["value"]
            send(id=call["id"], result=setup())
        case "session/prompt":
            thinking = ", thinking" if values["thinking"] else ""
            content = {"type": "text", "text": f"{values['mode']}{thinking}"}
            chunk = {"sessionUpdate": "agent_message_chunk", "content": content}
            if version == 1:
                update("one", chunk)
                send(id=call["id"], result={"stopReason": "end_turn"})
                continue
            send(id=call["id"], result={"messageId": f"p{call['id']}"})
            update("one", {"sessionUpdate": "state_update", "state": "running"})
            update("one", {**chunk, "messageId": f"m{call['id']}"})
            idle = {"sessionUpdate": "state_update", "state": "idle", "stopReason": "end_turn"}
            update("one", idle)
        case _:
            refuse(call)
