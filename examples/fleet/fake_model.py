"""A model for the example: no account, no network, and always the same answers.

It has the APIs of Anthropic (messages) and OpenAI (chat). The first part of the path says how good
it is: `/large` is always right, `/medium` errs at a fifth of the tasks, `/small` at a third.
Asked to write a file, it calls the agent's own tool for that.
"""

from __future__ import annotations

import json
import re
import threading
import zlib
from collections.abc import Generator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple

ERRS_AT = {"medium": 5, "small": 3}  # one task of so many
WRITE = re.compile(r"Write the word (\w+) into the file (\S+\.txt)\.")
FOLDER = re.compile(r"(?i)(?:directory|cwd)\W*?(/[^\s`'\"<>]+)")
NAME = re.compile(r"Task \d+\. Answer with the word (\w+)\.")
USAGE = (1000, 50)  # tokens of a request and of a response


class Answer(NamedTuple):
    """A text, or a call of one of the agent's tools."""

    text: str
    tool: str = ""
    arguments: dict[str, str] = {}  # never changed


def decide(
    quality: str, asked: str, folder: str, tools: dict[str, Any], *, has_result: bool
) -> Answer:
    """Return the answer to the last prompt; `tools` are schemas of parameters by name."""
    if match := NAME.search(asked):
        return Answer("I do not know." if errs(quality, match) else f"The word is {match[1]}.")
    if (match := WRITE.search(asked)) is None or has_result:
        return Answer("It is done.")
    word, path = match.groups()
    name = next((name for name in tools if name.lower() in ("write", "write_file", "create")), "")
    if not name:
        return Answer("I have no tool that writes files.")
    values: dict[str, str] = {}
    for key in tools[name].get("properties", {}):
        if "path" in key.lower() or key == "file":
            values[key] = f"{folder}/{path}" if folder else path
        elif key in ("content", "contents", "text"):
            values[key] = "something else\n" if errs(quality, match) else f"{word}\n"
    return Answer("", name, values)


def errs(quality: str, match: re.Match[str]) -> bool:
    """Return whether a model errs at a task: always or never, on all machines."""
    every = ERRS_AT.get(quality)
    return every is not None and zlib.crc32(f"{quality} {match[0]}".encode()) % every == 0


def text_of(content: Any) -> str:
    if isinstance(content, list):
        return "\n".join(text_of(block) for block in content)
    if isinstance(content, dict):
        return content.get("text") or ""
    return content or ""


class _Handler(BaseHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """Do not print requests."""

    def do_POST(self) -> None:
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        path = self.path.partition("?")[0]
        quality = path.split("/")[1]
        with suppress(ConnectionError):  # agents end requests that they no longer need
            if path.endswith("/chat/completions"):
                self._chat(request, quality)
            elif path.endswith("/messages"):
                self._messages(request, quality)
            else:
                self._json({"input_tokens": USAGE[0]})

    def _messages(self, request: dict[str, Any], quality: str) -> None:
        """Answer as Anthropic does."""
        blocks: list[dict[str, Any]] = []
        for message in request["messages"]:
            if message["role"] == "assistant":
                blocks = []
            elif isinstance(message["content"], str):
                blocks.append({"type": "text", "text": message["content"]})
            else:
                blocks += message["content"]
        asked = text_of([block for block in blocks if block["type"] == "text"])
        tools = {tool["name"]: tool.get("input_schema") or {} for tool in request.get("tools", ())}
        has_result = any(block["type"] == "tool_result" for block in blocks)
        folder = working_folder(text_of(request.get("system")) + text_of(blocks))
        answer = decide(quality, asked, folder, tools, has_result=has_result)
        stop = "tool_use" if answer.tool else "end_turn"
        usage = {"input_tokens": USAGE[0], "output_tokens": USAGE[1]}
        head = {"id": "m", "type": "message", "role": "assistant", "model": request["model"]}
        block: dict[str, Any] = {"type": "text", "text": answer.text}
        start, delta = block | {"text": ""}, {"type": "text_delta", "text": answer.text}
        if answer.tool:
            block = {"type": "tool_use", "id": "t1", "name": answer.tool, "input": answer.arguments}
            start = block | {"input": {}}
            text = json.dumps(answer.arguments)
            delta = {"type": "input_json_delta", "partial_json": text}
        if not request.get("stream"):
            self._json({**head, "content": [block], "stop_reason": stop, "usage": usage})
            return
        message = {**head, "content": [], "stop_reason": None, "usage": usage}
        for kind, fields in (
            ("message_start", {"message": message}),
            ("content_block_start", {"index": 0, "content_block": start}),
            ("content_block_delta", {"index": 0, "delta": delta}),
            ("content_block_stop", {"index": 0}),
            ("message_delta", {"delta": {"stop_reason": stop}, "usage": usage}),
            ("message_stop", {}),
        ):
            self._event({"type": kind, **fields}, kind)

    def _chat(self, request: dict[str, Any], quality: str) -> None:
        """Answer as OpenAI does."""
        messages = request["messages"]
        last = max(at for at, one in enumerate(messages) if one["role"] == "user")
        tools = {
            tool["function"]["name"]: tool["function"].get("parameters") or {}
            for tool in request.get("tools") or ()
        }
        answer = decide(
            quality,
            text_of(messages[last]["content"]),
            working_folder(text_of([text_of(one.get("content")) for one in messages])),
            tools,
            has_result=any(one["role"] == "tool" for one in messages[last:]),
        )
        usage = {"prompt_tokens": USAGE[0], "completion_tokens": USAGE[1]}
        usage["total_tokens"] = sum(USAGE)
        head = {"id": "c", "created": 1, "model": request["model"]}
        stop = "tool_calls" if answer.tool else "stop"
        said: dict[str, Any] = {"role": "assistant", "content": answer.text}
        if answer.tool:
            function = {"name": answer.tool, "arguments": json.dumps(answer.arguments)}
            said["tool_calls"] = [
                {"index": 0, "id": "t1", "type": "function", "function": function}
            ]
        if not request.get("stream"):
            choice = {"index": 0, "message": said, "finish_reason": stop}
            self._json({**head, "object": "chat.completion", "choices": [choice], "usage": usage})
            return
        head["object"] = "chat.completion.chunk"
        for delta, reason in ((said, None), ({}, stop)):
            choice = {"index": 0, "delta": delta, "finish_reason": reason}
            self._event({**head, "choices": [choice]})
        self._event({**head, "choices": [], "usage": usage})
        self.wfile.write(b"data: [DONE]\n\n")

    def _json(self, value: Any) -> None:
        data = json.dumps(value).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def _event(self, value: Any, kind: str = "") -> None:
        if not self._has_begun:
            self._has_begun = True
            self.send_response(200)
            self.send_header("Content-Type", "text/event-stream")
            self.end_headers()
        name = f"event: {kind}\n" if kind else ""
        self.wfile.write(f"{name}data: {json.dumps(value)}\n\n".encode())

    _has_begun = False  # a connection has one response


def working_folder(text: str) -> str:
    """Return the folder that the agent tells the model; some tools take whole paths only."""
    match = FOLDER.search(text)
    return "" if match is None else match[1].rstrip("/.")


@contextmanager
def fake_model() -> Generator[str]:
    """Serve the model in the block; yield its address."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
