"""A proxy written by hand, without Accord: it forwards bytes, in each dialect.

Run as a program, it reads from stdin and writes to stdout; its argument names the dialect.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable

# (method of initialize, of wrapped requests, of wrapped notifications)
NAMES = {
    "acp": ("proxy/initialize", "proxy/successor", "proxy/successor"),
    "rust": ("_proxy/initialize", "_proxy/successor", "_proxy/successor"),
    "thinkwell": ("initialize", "_proxy/successor/request", "_proxy/successor/notification"),
}
FIELD = re.compile(r'\s*"((?:[^"\\]|\\.)*)"\s*:\s*')
SPACE = re.compile(r"\s*,?\s*")

Fields = dict[str, str]


def fields_of(text: str) -> Fields:
    """Return the members of an object as texts."""
    found: Fields = {}
    at, decoder = 1, json.JSONDecoder(parse_float=str, parse_int=str)
    while (name := FIELD.match(text, at)) is not None:
        _, at = decoder.raw_decode(text, name.end())
        found[name[1]] = text[name.end() : at]
        separator = SPACE.match(text, at)
        at = separator.end() if separator else at
    return found


class BaseProxy:
    """Forwards everything as it is; doubles override one step each."""

    def __init__(self, write: Callable[[str], None], dialect: str = "acp") -> None:
        self._write = write
        self.names = NAMES[dialect]
        self.dialect = dialect
        self.last_id = 0
        self.waiting: dict[str, tuple[str, bool]] = {}  # our id: the peer's id, and whether wrapped
        self.forwarded: dict[str, str] = {}  # the peer's id: ours
        self.initializing = ""  # the id of the request that initializes this proxy
        self.is_proxy = False

    def receive(self, text: str) -> None:
        """Handle one message."""
        fields = fields_of(text)
        if "method" not in fields:
            self.respond(fields)
            return
        method = json.loads(fields["method"])
        is_wrapped = method in self.names[1:]
        if is_wrapped:
            inner = fields_of(fields["params"])
            fields = {
                "method": inner["method"],
                **self.inner_params(fields, inner),
                **ident(fields),
            }
            method = json.loads(fields["method"])
        if method == "$/cancel_request":
            self.cancel(fields)
        elif method == self.names[0] and not is_wrapped and not self.is_proxy:
            self.initialize(fields)
        else:
            self.forward(fields, method, towards_client=is_wrapped)

    def inner_params(self, outer: Fields, inner: Fields) -> Fields:
        return {"params": inner["params"]} if "params" in inner else {}

    # Steps.

    def initialize(self, fields: Fields) -> None:
        params = json.loads(fields.get("params", "{}"))
        self.is_proxy = self.dialect != "thinkwell" or bool(params.get("_meta", {}).get("proxy"))
        if not self.is_proxy:
            self.fail(fields["id"], -32600, "This is a proxy")
            return
        self.initializing = fields["id"]
        self.forward({**fields, "method": '"initialize"'}, "initialize", towards_client=False)

    def forward(self, fields: Fields, method: str, *, towards_client: bool) -> None:
        if not self.is_proxy:
            if "id" in fields:
                self.fail(fields["id"], -32601, "Method not found")
            return
        out: Fields = {}
        if "id" in fields:
            out["id"] = self.new_id()
            self.waiting[out["id"]] = (fields["id"], not towards_client)
            self.forwarded[fields["id"]] = out["id"]
        self.send_on({**fields, **out}, method, towards_client=towards_client)

    def send_on(self, fields: Fields, method: str, *, towards_client: bool) -> None:
        sent = {key: fields[key] for key in ("method", "params") if key in fields}
        if not towards_client:
            name = self.names[1 if "id" in fields else 2]
            sent = {"method": json.dumps(name), "params": joined(sent)}
        self.send({**ident(fields), **sent})

    def respond(self, fields: Fields) -> None:
        theirs, _ = self.waiting.pop(fields["id"])
        self.forwarded.pop(theirs, None)
        if theirs == self.initializing:
            fields = self.derive(fields)
            self.initializing = ""
        self.send({**fields, "id": theirs})

    def derive(self, fields: Fields) -> Fields:
        """Return the response to the request that initializes this proxy."""
        return fields

    def cancel(self, fields: Fields) -> None:
        asked = fields_of(fields["params"])["requestId"]
        if asked in self.forwarded:
            self.send_cancel(self.forwarded[asked])

    def send_cancel(self, own: str) -> None:
        self.send({"method": '"$/cancel_request"', "params": f'{{"requestId":{own}}}'})

    # Messages.

    def new_id(self) -> str:
        self.last_id += 1
        return f'"own-{self.last_id}"'

    def fail(self, request: str, code: int, message: str) -> None:
        self.send({"id": request, "error": json.dumps({"code": code, "message": message})})

    def send(self, fields: Fields) -> None:
        self._write(joined({"jsonrpc": '"2.0"', **fields}))


class AddingProxy(BaseProxy):
    """Adds an MCP server to each session, and answers its messages."""

    added = 0

    def forward(self, fields: Fields, method: str, *, towards_client: bool) -> None:
        if method == "session/new" and "accord-check-clients-server" in fields["params"]:
            params = json.loads(fields["params"])
            self.added += 1
            server = {"type": "acp", "name": "added", "serverId": self.server_id()}
            params["mcpServers"].append(server)
            fields = {**fields, "params": json.dumps(params)}
        elif method == "mcp/message" and '"added-' in fields["params"]:
            self.answer(fields["id"], json.loads(fields["params"])["method"])
            return
        super().forward(fields, method, towards_client=towards_client)

    def server_id(self) -> str:
        return f"added-{self.added}"

    def answer(self, request: str, method: str) -> None:
        if method == "tools/list":
            outcome: object = {"result": {"tools": []}}
        else:
            outcome = {"error": {"code": -32601, "message": "Method not found"}}
        self.send({"id": request, "result": json.dumps(outcome)})


def ident(fields: Fields) -> Fields:
    return {"id": fields["id"]} if "id" in fields else {}


def joined(fields: Fields) -> str:
    return "{" + ",".join(f'"{name}":{text}' for name, text in fields.items()) + "}"


def main() -> None:
    def write(text: str) -> None:
        sys.stdout.buffer.write(text.encode() + b"\n")
        sys.stdout.buffer.flush()

    proxy = BaseProxy(write, *sys.argv[1:2])
    for line in sys.stdin.buffer:
        proxy.receive(line.decode())


if __name__ == "__main__":
    main()
