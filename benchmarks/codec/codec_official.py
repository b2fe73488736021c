"""The codec of PyPI `agent-client-protocol`: the same calls that its connection makes."""

from __future__ import annotations

import json
from typing import Any

from acp import schema
from acp.utils import serialize_params
from pydantic import BaseModel
from timing import Item, main

PARAMS: dict[str, type[BaseModel]] = {
    "initialize": schema.InitializeRequest,
    "session/new": schema.NewSessionRequest,
    "session/prompt": schema.PromptRequest,
    "session/cancel": schema.CancelNotification,
    "session/update": schema.SessionNotification,
    "session/request_permission": schema.RequestPermissionRequest,
    "fs/read_text_file": schema.ReadTextFileRequest,
    "fs/write_text_file": schema.WriteTextFileRequest,
    "terminal/create": schema.CreateTerminalRequest,
    "terminal/output": schema.TerminalOutputRequest,
    "terminal/wait_for_exit": schema.WaitForTerminalExitRequest,
    "terminal/release": schema.ReleaseTerminalRequest,
}
RESULTS: dict[str, type[BaseModel]] = {
    "initialize": schema.InitializeResponse,
    "session/new": schema.NewSessionResponse,
    "session/prompt": schema.PromptResponse,
    "session/request_permission": schema.RequestPermissionResponse,
    "fs/read_text_file": schema.ReadTextFileResponse,
    "fs/write_text_file": schema.WriteTextFileResponse,
    "terminal/create": schema.CreateTerminalResponse,
    "terminal/output": schema.TerminalOutputResponse,
    "terminal/wait_for_exit": schema.WaitForTerminalExitResponse,
    "terminal/release": schema.ReleaseTerminalResponse,
}
FIELDS = {
    model: [name for name in model.model_fields if name != "field_meta"]
    for model in PARAMS.values()
}


def decode(items: list[Item]) -> None:
    for kind, method, line in items:
        message = json.loads(line.strip())
        if kind == "result":
            RESULTS[method].model_validate(message["result"])
        else:
            model = PARAMS[method]
            params = model.model_validate(message["params"])
            # Handlers get the fields as keyword arguments.
            _ = {name: getattr(params, name) for name in FIELDS[model]}


def value(item: Item) -> BaseModel:
    kind, method, line = item
    message = json.loads(line)
    if kind == "result":
        return RESULTS[method].model_validate(message["result"])
    return PARAMS[method].model_validate(message["params"])


def encode(items: list[tuple[str, str, Any]]) -> None:
    for kind, method, value in items:
        message: dict[str, Any]
        if kind == "result":
            result = value.model_dump(
                mode="json", by_alias=True, exclude_none=True, exclude_unset=True
            )
            message = {"jsonrpc": "2.0", "id": 1, "result": result}
        elif kind == "note":
            message = {"jsonrpc": "2.0", "method": method, "params": serialize_params(value)}
        else:
            params = serialize_params(value)
            message = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        (json.dumps(message, separators=(",", ":")) + "\n").encode("utf-8")


main(decode, value, encode)
