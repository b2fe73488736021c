"""A proxy written by hand, without Accord: `hand_proxy.py DIALECT [die-at METHOD]`.

It passes everything on, in one of the three dialects.
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any

NAMES = {
    "acp": ("proxy/initialize", "proxy/successor", "proxy/successor"),
    "rust": ("_proxy/initialize", "_proxy/successor", "_proxy/successor"),
    "thinkwell": ("initialize", "_proxy/successor/request", "_proxy/successor/notification"),
}
INITIALIZE, REQUEST, NOTIFICATION = NAMES[sys.argv[1]]
DIES_AT = sys.argv[3] if len(sys.argv) > 3 else None

initialize_id: Any = None
calls: dict[str, Any] = {}  # by the id sent: the id of the request that it answers


def send(message: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    sys.stdout.flush()


def pass_on(message: dict[str, Any], *, wrapped: bool) -> None:
    """Send a plain message to the successor, or a wrapped one to the client."""
    method, params = message["method"], message.get("params")
    is_request = "id" in message
    if method == "$/cancel_request":
        for ours, theirs in calls.items():
            if theirs == params["requestId"]:
                send({"method": method, "params": {"requestId": ours}})
        return
    body = {"method": method} if params is None else {"method": method, "params": params}
    if wrapped:
        body = {"method": REQUEST if is_request else NOTIFICATION, "params": body}
    if is_request:
        ours = f"{sys.argv[1]}-{len(calls)}-{os.getpid()}"
        calls[ours] = message["id"]
        body["id"] = ours
    send(body)


for line in sys.stdin:
    message = json.loads(line)
    method = message.get("method")
    if DIES_AT and DIES_AT in (method, message.get("params", {}).get("method")):
        print("these are my last words", file=sys.stderr, flush=True)
        os._exit(7)
    if method is None:
        answers = calls[message["id"]]
        if answers == initialize_id and INITIALIZE == "initialize":
            message["result"]["_meta"] = {"proxy": True}
        send({**message, "id": answers})
    elif method in (REQUEST, NOTIFICATION):
        inner = message["params"]
        pass_on({**inner, **({"id": message["id"]} if "id" in message else {})}, wrapped=False)
    elif method == INITIALIZE:
        params = message["params"]
        initialize_id = message["id"]
        if INITIALIZE == "initialize":
            assert params.pop("_meta")["proxy"] is True
        pass_on({**message, "method": "initialize"}, wrapped=True)
    elif method in ("initialize", "proxy/initialize", "_proxy/initialize"):
        send({"id": message["id"], "error": {"code": -32601, "message": "Method not found"}})
    else:
        pass_on(message, wrapped=True)
