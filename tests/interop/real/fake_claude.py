"""A model endpoint with the APIs of Anthropic and OpenAI; prints its URL.

It calls the tool whose name ends with `lookup` once, and then repeats what the tool returned. Its
arguments can name another tool, and the JSON of what it is called with.
"""

from __future__ import annotations

import json
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

TOOL, ARGUMENTS = "lookup", {"term": "lane"}
if len(sys.argv) > 2:
    TOOL, ARGUMENTS = sys.argv[1], json.loads(sys.argv[2])
USAGE = {"input_tokens": 1, "output_tokens": 1}


class Handler(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if self.path.endswith("/chat/completions"):
            self.complete_chat(asked)
            return
        if not self.path.partition("?")[0].endswith("/messages"):
            self.send_json({"input_tokens": 1})  # the count of tokens
            return
        block, stop = answer_to(asked)
        message: dict[str, Any] = {
            "id": "m-1",
            "type": "message",
            "role": "assistant",
            "model": asked["model"],
            "content": [],
            "stop_reason": None,
            "stop_sequence": None,
            "usage": USAGE,
        }
        if not asked.get("stream"):
            self.send_json({**message, "content": [block], "stop_reason": stop})
            return
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.end_headers()
        started, delta = in_parts(block)
        self.send_event("message_start", message=message)
        self.send_event("content_block_start", index=0, content_block=started)
        self.send_event("content_block_delta", index=0, delta=delta)
        self.send_event("content_block_stop", index=0)
        ended = {"stop_reason": stop, "stop_sequence": None}
        self.send_event("message_delta", delta=ended, usage=USAGE)
        self.send_event("message_stop")

    def complete_chat(self, asked: dict[str, Any]) -> None:
        message, stop = chat_answer_to(asked)
        answer = {"id": "c-1", "created": 1, "model": asked["model"]}
        usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
        if not asked.get("stream"):
            choice = {"index": 0, "message": message, "finish_reason": stop}
            self.send_json(
                {**answer, "object": "chat.completion", "choices": [choice], "usage": usage}
            )
            return
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.end_headers()
        answer["object"] = "chat.completion.chunk"
        parts: list[dict[str, Any]] = [
            {"choices": [{"index": 0, "delta": message, "finish_reason": None}]},
            {"choices": [{"index": 0, "delta": {}, "finish_reason": stop}]},
            {"choices": [], "usage": usage},
        ]
        for part in parts:
            self.wfile.write(b"data: " + json.dumps({**answer, **part}).encode() + b"\n\n")
        self.wfile.write(b"data: [DONE]\n\n")

    def do_HEAD(self) -> None:
        self.send_response(200)
        self.end_headers()

    def send_json(self, value: Any) -> None:
        data = json.dumps(value).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def send_event(self, kind: str, **fields: Any) -> None:
        data = json.dumps({"type": kind, **fields})
        self.wfile.write(f"event: {kind}\ndata: {data}\n\n".encode())

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        pass


def answer_to(asked: dict[str, Any]) -> tuple[dict[str, Any], str]:
    """Return the content and the stop reason of the answer."""
    results = [
        block
        for message in asked["messages"]
        for block in message["content"]
        if isinstance(block, dict) and block["type"] == "tool_result"
    ]
    names = [tool["name"] for tool in asked.get("tools", []) if tool["name"].endswith(TOOL)]
    if names and not results:
        call = {"type": "tool_use", "id": "t-1", "name": names[0], "input": ARGUMENTS}
        return call, "tool_use"
    text = json.dumps(results[-1]["content"]) if results else "no tool"
    return {"type": "text", "text": text}, "end_turn"


def chat_answer_to(asked: dict[str, Any]) -> tuple[dict[str, Any], str]:
    """Return the message and the reason of its end, in the API of OpenAI."""
    results = [message for message in asked["messages"] if message["role"] == "tool"]
    functions = [tool["function"]["name"] for tool in asked.get("tools", [])]
    names = [name for name in functions if name.endswith(TOOL)]
    if names and not results:
        function = {"name": names[0], "arguments": json.dumps(ARGUMENTS)}
        call = {"index": 0, "id": "t-1", "type": "function", "function": function}
        return {"role": "assistant", "content": None, "tool_calls": [call]}, "tool_calls"
    text = json.dumps(results[-1]["content"]) if results else "no tool"
    return {"role": "assistant", "content": text}, "stop"


def in_parts(block: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the start and the rest of a block."""
    if block["type"] == "text":
        return {**block, "text": ""}, {"type": "text_delta", "text": block["text"]}
    rest = {"type": "input_json_delta", "partial_json": json.dumps(block["input"])}
    return {**block, "input": {}}, rest


if __name__ == "__main__":
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    print(f"http://127.0.0.1:{server.server_port}", flush=True)
    server.serve_forever()
