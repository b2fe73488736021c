"""A model endpoint for recordings; it prints its URL.

It has the APIs of OpenAI (chat and responses), Anthropic and Gemini, with and without streaming.
The last text of the user decides:

- `Write the file NAME.` calls the agent's own tool for files, or else its shell.
- `Count slowly.` says numbers until the client hangs up.
- Everything else, and what follows a tool call, is a short text in several chunks.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple

CONTENT = "Written by a recording.\n"
HELLO = "Hello! I am a model that **always** says the same."
DONE = "The file is written."
MAX_NUMBERS = 200
SLOW_S, FAST_S = 0.1, 0.005
WRITE_TOOLS = ("write", "Write", "write_file", "create_file", "write_to_file")
SHELL_TOOLS = ("shell", "exec_command", "shell_command", "bash", "Bash", "run_shell_command")
PATH_KEYS = ("file_path", "filePath", "path", "filename")
TEXT_KEYS = ("content", "contents", "file_text", "text")


class Call(NamedTuple):
    """A call of one of the agent's tools."""

    name: str
    arguments: dict[str, Any]


class Tool(NamedTuple):
    """A tool of the agent, and the schema of its parameters."""

    name: str
    schema: dict[str, Any]


def decide(text: str, has_result: bool, tools: list[Tool]) -> Call | Iterator[str]:
    """Return the call, or the parts of the text."""
    if has_result:
        return words(DONE)
    if "Count slowly" in text:
        return numbers()
    if (match := re.search(r"Write the file (\S+)\.", text)) is not None:
        call = call_for(match[1], {tool.name: tool for tool in tools})
        if call is not None:
            return call
    return words(HELLO)


def words(text: str) -> Iterator[str]:
    for word in re.findall(r"\S+\s*", text):
        time.sleep(FAST_S)
        yield word


def numbers() -> Iterator[str]:
    for number in range(MAX_NUMBERS):
        time.sleep(SLOW_S)
        yield f"{number} "


def call_for(name: str, tools: dict[str, Tool]) -> Call | None:
    for known in WRITE_TOOLS:
        if known in tools:
            values: dict[str, Any] = dict.fromkeys(PATH_KEYS, name)
            values |= dict.fromkeys(TEXT_KEYS, CONTENT)
            return Call(known, filled(tools[known].schema, values))
    for known in SHELL_TOOLS:
        if known in tools:
            line = f"echo '{CONTENT.strip()}' > {name}"
            schema = tools[known].schema
            command = schema.get("properties", {}).get("command", {})
            words_of = ["bash", "-lc", line] if command.get("type") == "array" else line
            values = {"command": words_of, "cmd": line, "description": "Write a file"}
            return Call(known, filled(schema, values))
    return None


def filled(schema: dict[str, Any], values: dict[str, Any]) -> dict[str, Any]:
    """Return arguments for a schema: the given values, and something for other required ones."""
    found = {key: values[key] for key in schema.get("properties", {}) if key in values}
    for key in schema.get("required", ()):
        if key not in found:
            kind = schema["properties"][key].get("type")
            found[key] = {"integer": 1, "number": 1, "boolean": False, "array": []}.get(kind, "x")
    return found


def text_of(content: Any) -> str:
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        return "\n".join(map(text_of, content))
    return text_of(content.get("text", "")) if isinstance(content, dict) else ""


class Handler(BaseHTTPRequestHandler):
    """Answers one request."""

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        pass

    def do_GET(self) -> None:
        models = [{"id": name, "object": "model"} for name in ("fake-model", "gpt-5")]
        self.send_json({"object": "list", "data": models})

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers.get("Content-Length") or 0)) or "{}")
        path = self.path.partition("?")[0]
        try:
            if path.endswith("/chat/completions"):
                self.send_chat(asked)
            elif path.endswith("/responses"):
                self.send_response_items(asked)
            elif path.endswith("/messages"):
                self.send_message(asked)
            elif "generateContent" in path or "streamGenerateContent" in path:
                self.send_candidates(asked, is_stream="stream" in path)
            else:
                self.send_json({"input_tokens": 10, "totalTokens": 10})
        except (BrokenPipeError, ConnectionResetError):
            pass  # the agent was cancelled

    # OpenAI

    def send_chat(self, asked: dict[str, Any]) -> None:
        messages = asked["messages"]
        last = max(i for i, one in enumerate(messages) if one["role"] == "user")
        has_result = any(one["role"] == "tool" for one in messages[last:])
        tools = [
            Tool(one["function"]["name"], one["function"].get("parameters") or {})
            for one in asked.get("tools") or ()
        ]
        decided = decide(text_of(messages[last]["content"]), has_result, tools)
        usage = {"prompt_tokens": 100, "completion_tokens": 20, "total_tokens": 120}
        head = {"id": "c-1", "created": 1, "model": asked["model"]}
        if isinstance(decided, Call):
            function = {"name": decided.name, "arguments": json.dumps(decided.arguments)}
            calls = [{"index": 0, "id": "call-1", "type": "function", "function": function}]
            deltas: Iterator[dict[str, Any]] = iter([{"role": "assistant", "tool_calls": calls}])
            reason = "tool_calls"
        else:
            deltas = ({"role": "assistant", "content": part} for part in decided)
            reason = "stop"
        if not asked.get("stream"):
            message: dict[str, Any] = {"role": "assistant", "content": ""}
            for delta in deltas:
                message["content"] += delta.get("content", "")
                message |= {key: delta[key] for key in ("tool_calls",) if key in delta}
            choice = {"index": 0, "message": message, "finish_reason": reason}
            self.send_json(
                {**head, "object": "chat.completion", "choices": [choice], "usage": usage}
            )
            return
        head["object"] = "chat.completion.chunk"
        self.begin_stream()
        for delta in deltas:
            self.send_event(
                {**head, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]}
            )
        self.send_event({**head, "choices": [{"index": 0, "delta": {}, "finish_reason": reason}]})
        self.send_event({**head, "choices": [], "usage": usage})
        self.wfile.write(b"data: [DONE]\n\n")

    def send_response_items(self, asked: dict[str, Any]) -> None:
        given = asked.get("input", [])
        items = [{"role": "user", "content": given}] if isinstance(given, str) else given
        last = max((i for i, one in enumerate(items) if one.get("role") == "user"), default=0)
        has_result = any(str(one.get("type")).endswith("_output") for one in items[last:])
        tools = [
            Tool(one.get("name") or one.get("type"), one.get("parameters") or {})
            for one in asked.get("tools") or ()
        ]
        text = text_of(items[last].get("content")) if items else ""
        decided = decide(text, has_result, tools)
        head = {"id": "r-1", "object": "response", "created_at": 1, "model": asked.get("model")}
        usage = {
            "input_tokens": 100,
            "input_tokens_details": {"cached_tokens": 0},
            "output_tokens": 20,
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": 120,
        }
        self.begin_stream()
        self.send_typed("response.created", response={**head, "status": "in_progress"})
        item: dict[str, Any]
        if isinstance(decided, Call):
            item = {"id": "f-1", "type": "function_call", "call_id": "call-1"}
            item |= {"name": decided.name, "arguments": json.dumps(decided.arguments)}
            self.send_typed("response.output_item.added", output_index=0, item=item)
        else:
            item = {"id": "m-1", "type": "message", "role": "assistant", "content": []}
            self.send_typed("response.output_item.added", output_index=0, item=item)
            said = ""
            for part in decided:
                said += part
                self.send_typed(
                    "response.output_text.delta",
                    item_id="m-1",
                    output_index=0,
                    content_index=0,
                    delta=part,
                )
            item["content"] = [{"type": "output_text", "text": said, "annotations": []}]
        self.send_typed("response.output_item.done", output_index=0, item=item)
        done = {**head, "status": "completed", "output": [item], "usage": usage}
        self.send_typed("response.completed", response=done)

    # Anthropic

    def send_message(self, asked: dict[str, Any]) -> None:
        messages = asked["messages"]
        last = max((i for i, one in enumerate(messages) if one["role"] == "assistant"), default=-1)
        new = [block for one in messages[last + 1 :] for block in blocks_of(one)]
        has_result = any(block.get("type") == "tool_result" for block in new)
        tools = [
            Tool(one["name"], one.get("input_schema") or {}) for one in asked.get("tools") or ()
        ]
        text = "\n".join(block.get("text", "") for block in new if block.get("type") == "text")
        decided = decide(text, has_result, tools)
        usage = {"input_tokens": 100, "output_tokens": 20}
        message = {"id": "m-1", "type": "message", "role": "assistant", "model": asked["model"]}
        message |= {"stop_sequence": None, "usage": usage}
        if not asked.get("stream"):
            if isinstance(decided, Call):
                block = call_block(decided) | {"input": decided.arguments}
            else:
                block = {"type": "text", "text": "".join(decided)}
            reason = "tool_use" if isinstance(decided, Call) else "end_turn"
            self.send_json({**message, "content": [block], "stop_reason": reason})
            return
        self.begin_stream()
        self.send_typed("message_start", message={**message, "content": [], "stop_reason": None})
        if isinstance(decided, Call):
            reason = "tool_use"
            self.send_typed("content_block_start", index=0, content_block=call_block(decided))
            text = json.dumps(decided.arguments)
            delta = {"type": "input_json_delta", "partial_json": text}
            self.send_typed("content_block_delta", index=0, delta=delta)
        else:
            reason = "end_turn"
            block = {"type": "text", "text": ""}
            self.send_typed("content_block_start", index=0, content_block=block)
            for part in decided:
                delta = {"type": "text_delta", "text": part}
                self.send_typed("content_block_delta", index=0, delta=delta)
        self.send_typed("content_block_stop", index=0)
        ended = {"stop_reason": reason, "stop_sequence": None}
        self.send_typed("message_delta", delta=ended, usage=usage)
        self.send_typed("message_stop")

    # Gemini

    def send_candidates(self, asked: dict[str, Any], *, is_stream: bool) -> None:
        contents = asked.get("contents") or [{"parts": []}]
        parts = contents[-1].get("parts", [])
        has_result = any("functionResponse" in part for part in parts)
        tools = [
            Tool(one["name"], one.get("parametersJsonSchema") or one.get("parameters") or {})
            for group in asked.get("tools") or ()
            for one in group.get("functionDeclarations", ())
        ]
        decided = decide("\n".join(part.get("text", "") for part in parts), has_result, tools)
        schema = (asked.get("generationConfig") or {}).get("responseJsonSchema")
        if schema is not None:
            decided = iter([json.dumps(filled(schema, {}))])
        if isinstance(decided, Call):
            call = {"name": decided.name, "args": decided.arguments}
            found: Iterator[dict[str, Any]] = iter([{"functionCall": call}])
        else:
            found = ({"text": part} for part in decided)
        if not is_stream:
            self.send_json(candidate(list(found), "STOP"))
            return
        self.begin_stream()
        for part in found:
            self.send_event(candidate([part], None))
        self.send_event(candidate([{"text": ""}], "STOP"))

    # HTTP

    def send_json(self, value: Any) -> None:
        data = json.dumps(value).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def begin_stream(self) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.end_headers()

    def send_typed(self, kind: str, **fields: Any) -> None:
        self.wfile.write(f"event: {kind}\n".encode())
        self.send_event({"type": kind, **fields})

    def send_event(self, value: Any) -> None:
        self.wfile.write(b"data: " + json.dumps(value).encode() + b"\n\n")
        self.wfile.flush()


def blocks_of(message: dict[str, Any]) -> list[dict[str, Any]]:
    content = message["content"]
    return [{"type": "text", "text": content}] if isinstance(content, str) else content


def call_block(call: Call) -> dict[str, Any]:
    return {"type": "tool_use", "id": "call-1", "name": call.name, "input": {}}


def candidate(parts: list[dict[str, Any]], reason: str | None) -> dict[str, Any]:
    one: dict[str, Any] = {"content": {"role": "model", "parts": parts}, "index": 0}
    if reason is not None:
        one["finishReason"] = reason
    usage = {"promptTokenCount": 100, "candidatesTokenCount": 20, "totalTokenCount": 120}
    return {"candidates": [one], "usageMetadata": usage}


if __name__ == "__main__":
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    print(f"http://127.0.0.1:{server.server_port}", flush=True)
    server.serve_forever()
