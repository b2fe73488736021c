"""An agent that sends HTML, scripts, escape sequences and reordering characters in every field."""

from __future__ import annotations

import json
import sys
from typing import Any

HTML = "<img src=x onerror=\"document.title='owned'\"><script>document.title='owned'</script>"
EVIL = f"{HTML}\x1b[2J\x1b]0;owned\x07\u202eevil\u2066"
STYLE = '"><style>*{display:none}</style>'
MARKDOWN = (
    f"{EVIL}\n\n[click](javascript:document.title='owned') ![i](https://evil.example/p.png)\n\n"
    "[good](https://evil.example/) <iframe src='//evil.example'></iframe>\n\n"
    "## Permission request\n\n**Allow** everything &#x202e;live\n\n```<script>\n<b>\n```\n"
)


def send(**message: Any) -> None:
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    sys.stdout.flush()


def update(**fields: Any) -> None:
    send(method="session/update", params={"sessionId": f"s{EVIL}", "update": fields})


def text(content: str) -> dict[str, Any]:
    return {"type": "text", "text": content}


def turn(prompt_id: Any) -> None:
    update(sessionUpdate="session_info_update", title=f"Title {EVIL}")
    update(sessionUpdate="agent_thought_chunk", content=text(MARKDOWN))
    update(sessionUpdate="agent_message_chunk", content=text(MARKDOWN))
    link = {"type": "resource_link", "uri": "javascript:document.title='owned'", "name": EVIL}
    update(sessionUpdate="agent_message_chunk", content=link)
    image = {"type": "image", "mimeType": "image/svg+xml", "data": "PHN2Zz48L3N2Zz4="}
    update(sessionUpdate="agent_message_chunk", content=image)
    resource = {"uri": f"file:///{STYLE}", "text": EVIL, "mimeType": f"text/{STYLE}"}
    update(sessionUpdate="agent_message_chunk", content={"type": "resource", "resource": resource})
    diff = {"type": "diff", "path": f"/x/{EVIL}", "oldText": EVIL, "newText": f"{STYLE}\n{EVIL}"}
    update(
        sessionUpdate="tool_call",
        toolCallId=f"t{EVIL}",
        title=f"Tool {EVIL}",
        kind=f"{STYLE} kind",
        status=f"{STYLE} status",
        content=[diff, {"type": "content", "content": text(MARKDOWN)}],
        locations=[{"path": f"/y/{EVIL}", "line": 1}],
        rawInput={EVIL: EVIL},
        rawOutput=EVIL,
    )
    entry = {"content": EVIL, "status": STYLE, "priority": STYLE}
    update(sessionUpdate="plan", entries=[{**entry, "status": "pending", "priority": "high"}])
    command = {"name": f"cmd{STYLE}", "description": EVIL, "input": {"hint": EVIL}}
    update(sessionUpdate="available_commands_update", availableCommands=[command])
    update(sessionUpdate=f"unknown{STYLE}", evil=EVIL)
    cost = {"amount": 1.5, "currency": EVIL}
    update(sessionUpdate="usage_update", used=5, size=10, cost=cost)
    send(method=f"_evil/{EVIL}", params={EVIL: EVIL})
    sys.stderr.write(f"stderr {EVIL}\n")
    sys.stderr.flush()
    options = [
        {"optionId": "ok", "name": f"Name {EVIL}", "kind": "allow_once"},
        {"optionId": "no", "name": STYLE, "kind": "reject_once"},
    ]
    call = {"toolCallId": f"t{EVIL}", "title": f"Ask {EVIL}"}
    params = {"sessionId": f"s{EVIL}", "toolCall": call, "options": options}
    send(id="ask", method="session/request_permission", params=params)
    send(id=prompt_id, error={"code": -32000, "message": f"Failed {EVIL}", "data": {"why": EVIL}})


def main() -> None:
    for line in sys.stdin:
        message = json.loads(line)
        match message.get("method"):
            case "initialize":
                method = {"id": f"m{STYLE}", "name": f"Login {EVIL}", "description": EVIL}
                send(
                    id=message["id"],
                    result={
                        "protocolVersion": 1,
                        "agentInfo": {"name": f"a{EVIL}", "version": EVIL, "title": EVIL},
                        "authMethods": [method],
                        "agentCapabilities": {f"un{EVIL}": {EVIL: EVIL}, "_meta": {EVIL: EVIL}},
                    },
                )
            case "session/new":
                modes = [{"id": f"m{STYLE}", "name": f"Mode {EVIL}", "description": EVIL}]
                state = {"currentModeId": f"m{STYLE}", "availableModes": modes}
                result = {"sessionId": f"s{EVIL}", "modes": state}
                send(id=message["id"], result=result)
            case "session/prompt":
                turn(message["id"])
            case _:
                pass


if __name__ == "__main__":
    main()
