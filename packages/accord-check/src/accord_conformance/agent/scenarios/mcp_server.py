"""An MCP server on stdio without tools; a program that needs only Python."""

from __future__ import annotations

import json
import sys

_ANSWERS: dict[str, dict[str, list[str]]] = {
    "tools/list": {"tools": []},
    "resources/list": {"resources": []},
    "resources/templates/list": {"resourceTemplates": []},
    "prompts/list": {"prompts": []},
    "ping": {},
}


def _main() -> None:
    """Answer every request until stdin ends."""
    for line in sys.stdin:
        request = json.loads(line)
        if "id" not in request or "method" not in request:
            continue
        answer = {"jsonrpc": "2.0", "id": request["id"]}
        if request["method"] == "initialize":
            answer["result"] = {
                "protocolVersion": request["params"]["protocolVersion"],
                "capabilities": {"tools": {}},
                "serverInfo": {"name": "accord-check", "version": "1"},
            }
        elif request["method"] in _ANSWERS:
            answer["result"] = _ANSWERS[request["method"]]
        else:
            answer["error"] = {"code": -32601, "message": "Method not found"}
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    _main()
