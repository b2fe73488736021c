"""An agent with long titles, options and questions, whose first line is not a message."""

from __future__ import annotations

import json
import sys
from typing import Any

SESSION = {"id": ""}
WORDS = "Refactor the module that reads the settings of the workspace and of its folders "
DIFF = "\n".join(f"line {number} of a file that is long" for number in range(60))


def send(**message: Any) -> None:
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    sys.stdout.flush()


def update(**fields: Any) -> None:
    send(method="session/update", params={"sessionId": SESSION["id"], "update": fields})


def text(content: str) -> dict[str, Any]:
    return {"type": "text", "text": content}


def turn(asked: int) -> None:
    update(sessionUpdate="session_info_update", title=WORDS * 4)
    update(sessionUpdate="usage_update", used=900, size=1000, cost={"amount": 1, "currency": "EUR"})
    for number in range(12):
        update(sessionUpdate="agent_message_chunk", content=text(f"Step {number}: {WORDS}\n\n"))
    diff = {"type": "diff", "path": f"/w/{'deep/' * 20}file.py", "oldText": "", "newText": DIFF}
    for number in range(asked):
        call: dict[str, Any] = {
            "toolCallId": f"t{number}",
            "title": WORDS * 6,
            "kind": "edit",
            "status": "pending",
        }
        update(sessionUpdate="tool_call", **call)
        options = [
            {"optionId": kind, "name": f"{kind}: {WORDS}", "kind": kind}
            for kind in ("allow_once", "allow_always", "reject_once", "reject_always")
        ]
        params = {
            "sessionId": SESSION["id"],
            "toolCall": {**call, "content": [diff]},
            "options": options,
        }
        send(id=f"ask{number}", method="session/request_permission", params=params)


def main() -> None:
    sys.stdout.write("Starting, this line is not a message\n")
    waiting: Any = None
    asked = sessions = 0
    for line in sys.stdin:
        message = json.loads(line)
        match message.get("method"):
            case "initialize":
                info = {"name": "wordy", "version": "1"}
                result: dict[str, Any] = {"protocolVersion": 1, "agentInfo": info}
                send(id=message["id"], result=result)
            case "session/new":
                modes = [{"id": f"m{n}", "name": f"Mode {n}: {WORDS}"} for n in range(3)]
                state = {"currentModeId": "m0", "availableModes": modes}
                sessions += 1
                SESSION["id"] = f"wordy{sessions}"
                send(id=message["id"], result={"sessionId": SESSION["id"], "modes": state})
            case "session/prompt":
                waiting = message["id"]
                asked = int(message["params"]["prompt"][0]["text"])
                turn(asked)
            case _:
                asked -= 1
                if asked == 0:
                    send(id=waiting, result={"stopReason": "end_turn"})


if __name__ == "__main__":
    main()
