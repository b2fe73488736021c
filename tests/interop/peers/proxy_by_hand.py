"""A proxy that changes nothing, written without Accord, in one dialect: acp, rust or thinkwell."""

import json
import sys
from typing import Any

INITIALIZE = {"acp": "proxy/initialize", "rust": "_proxy/initialize", "thinkwell": "initialize"}
SUCCESSOR = {
    "acp": ("proxy/successor", "proxy/successor"),
    "rust": ("_proxy/successor", "_proxy/successor"),
    "thinkwell": ("_proxy/successor/request", "_proxy/successor/notification"),
}
CANCEL = "$/cancel_request"
Message = dict[str, Any]


class Proxy:
    """Reads a line, writes a line; has its own ids on its only connection."""

    def __init__(self, dialect: str) -> None:
        self.dialect = dialect
        self.initialize = INITIALIZE[dialect]
        self.successor = SUCCESSOR[dialect]
        self.sent = 0
        self.pending: dict[str, tuple[Any, str]] = {}  # own id: the id it answers, the method
        self.passed: dict[Any, tuple[str, bool]] = {}  # received id: own id, wrapped when sent

    def receive(self, message: Message) -> Message | None:
        method, params, received = (message.get(key) for key in ("method", "params", "id"))
        if method is None:
            return self.answer(message)
        if method in self.successor:
            inner, params = params["method"], params.get("params")
            if inner == CANCEL:
                return self.cancel(params)
            return self.send(inner, params, received, wrap=False)
        if method == CANCEL:
            return self.cancel(params)
        if method == self.initialize and (self.dialect != "thinkwell" or is_for_proxy(params)):
            return self.send("initialize", params, received, wrap=True)
        if method == "initialize":
            return failed(received, -32600, "a proxy needs a conductor")
        return self.send(method, params, received, wrap=True)

    def send(self, method: str, params: Any, received: Any, *, wrap: bool) -> Message:
        message: Message = {"method": method}
        if params is not None:
            message["params"] = params
        if wrap:
            message = {"method": self.successor[received is None], "params": message}
        if received is None:
            return message
        self.sent += 1
        own = f"{self.dialect}-{self.sent}"
        self.pending[own] = (received, method)
        self.passed[received] = (own, wrap)
        return {"id": own, **message}

    def cancel(self, params: Message) -> Message | None:
        own, wrapped = self.passed.get(params["requestId"], (None, False))
        if own is None:
            return None
        cancel: Message = {"method": CANCEL, "params": {"requestId": own}}
        # The Rust SDK wraps it, as the request that it cancels.
        return {"method": self.successor[1], "params": cancel} if wrapped and self.rust else cancel

    @property
    def rust(self) -> bool:
        return self.dialect == "rust"

    def answer(self, message: Message) -> Message:
        received, method = self.pending.pop(message.pop("id"))
        del self.passed[received]
        if method == "initialize" and self.dialect == "thinkwell" and "result" in message:
            meta = message["result"].get("_meta") or {}
            message["result"]["_meta"] = {**meta, "proxy": True}
        return {"id": received, **message}


def is_for_proxy(params: Message) -> bool:
    return (params.get("_meta") or {}).get("proxy") is True


def failed(received: Any, code: int, message: str) -> Message:
    return {"id": received, "error": {"code": code, "message": message}}


def main(dialect: str) -> None:
    proxy = Proxy(dialect)
    for line in sys.stdin.buffer:
        if (message := proxy.receive(json.loads(line))) is not None:
            text = json.dumps({"jsonrpc": "2.0", **message}, ensure_ascii=False)
            sys.stdout.buffer.write(text.encode() + b"\n")
            sys.stdout.buffer.flush()


if __name__ == "__main__":
    main(sys.argv[1])
