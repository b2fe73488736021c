"""A model endpoint for recordings; it prints its URL.

With a FILE it appends a JSON line for each request: what the user and the tools have said.

It has the APIs of OpenAI (chat and responses), Anthropic and Gemini, with and without streaming.
The last text of the user decides:

- `Write the file NAME.` calls the agent's own tool for files, or else its shell.
- `Run the command.` calls the agent's shell, which makes the file `ran.txt`.
- `Edit the file NAME.` reads the file and changes two lines of it, `OLD` to `NEW`, with the agent's
  own tools.
- `Count slowly.` says numbers until the client hangs up, `Count to N.` up to a number.
- `Sleep in a command.` calls the agent's shell for some seconds.
- `Say hello to NAME.` names it in the answer, and `Did I say hello?` says whether the agent has
  sent an earlier prompt along.
- Everything else, and what follows a tool call, is a short text in several chunks.
"""

from __future__ import annotations

import itertools
import json
import re
import sys
import time
from collections.abc import Iterable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Literal, NamedTuple

CONTENT = "Written by a recording.\n"
HELLO = "Hello! I am a model that **always** says the same."
DONE = "The file is written."
EDITED = "The file is edited."
YES = "Yes, you said hello."
NO = "No, you have just begun."
RAN = "The command has ended."
NO_TOOL = "I have no tool for that."
SHELL_LINE = "echo ran > ran.txt"
SLEEP_LINE = "sleep 4"
COMMAND = re.compile(
    r"(Say hello|Run the command|Write the file|Edit the file|Count slowly|Count to|"
    r"Sleep in a command|Did I say hello)\b"
)
CHANGED_LINES = (2, 26)
LINES = [f"Line {at + 1} of the {'draft' if at in CHANGED_LINES else 'notes'}." for at in range(30)]
OLD = "\n".join(LINES) + "\n"
NEW = OLD.replace("draft", "report")
MAX_NUMBERS = 200
SLOW_S, FAST_S = 0.1, 0.005
IDS = itertools.count(1)
READ_TOOLS = ("read", "Read", "view", "read_file", "ReadFile", "read_text_file", "file_read")
EDIT_TOOLS = ("edit", "Edit", "replace", "edit_file", "StrReplaceFile", "file_edit")
WRITE_TOOLS = ("write", "Write", "write_file", "create_file", "write_to_file", "WriteFile")
WRITE_TOOLS += ("fs_write", "fs.write", "file_editor")
SHELL_TOOLS = ("shell", "exec_command", "shell_command", "bash", "Bash", "run_shell_command")
SHELL_TOOLS += ("Shell", "terminal", "execute", "execute_command", "run_command")
PATCH_BLOCK = "patch block"  # not a tool: an agent that runs code blocks of the answer
CONFLICT = "<<<<<<< ORIGINAL"
PATH_KEYS = ("file_path", "filePath", "path", "filename")
TEXT_KEYS = ("content", "contents", "file_text", "text")
OLD_KEYS = ("old_string", "oldString", "oldText", "old_text", "old_str", "old")
NEW_KEYS = ("new_string", "newString", "newText", "new_text", "new_str", "new")


class Call(NamedTuple):
    """A call of one of the agent's tools."""

    name: str
    arguments: dict[str, Any]


class Tool(NamedTuple):
    """A tool of the agent, and the schema of its parameters."""

    name: str
    schema: dict[str, Any]


class Said(NamedTuple):
    """A text of the user, or the result of a tool."""

    by: Literal["user", "tool"]
    text: str = ""


def decide(conversation: list[Said], tools: list[Tool]) -> Call | Iterator[str]:
    """Return the call, or the parts of the text."""
    asked = [at for at, said in enumerate(conversation) if COMMAND.search(said.text)]
    at = asked[-1] if asked else -1
    results = sum(said.by == "tool" for said in conversation[at + 1 :])
    text = ""
    if asked:  # with a prompt whose turn was cancelled the next one may be one message: the last
        whole = conversation[at].text
        text = whole[[match.start() for match in COMMAND.finditer(whole)][-1] :]
    note(conversation)
    if "Count slowly" in text:
        return numbers()
    if (match := re.search(r"Count to (\d+)\.", text)) is not None:
        return numbers(int(match[1]))
    if "Did I say hello" in text:
        return words(YES if any("Say hello" in said.text for said in conversation[:at]) else NO)
    named = {tool.name: tool for tool in tools}
    if (match := re.search(r"Edit the file (\S+)\.", text)) is not None:
        if PATCH_BLOCK in named:
            return words(EDITED) if results else words(patch_block(match[1]))
        calls = list(edit_calls(match[1], named))
        if not calls:
            return no_tool(named)
        return calls[results] if results < len(calls) else words(EDITED)
    if "Sleep in a command" in text:
        if results:
            return words(RAN)
        if PATCH_BLOCK in named:
            return words(f"```shell\n{SLEEP_LINE}\n```")
        return shell_call(SLEEP_LINE, named) or no_tool(named)
    if results:
        return words(RAN if "Run the command" in text else DONE)
    if "Run the command" in text:
        if PATCH_BLOCK in named:
            return words(f"```shell\n{SHELL_LINE}\n```")
        return shell_call(SHELL_LINE, named) or no_tool(named)
    if (match := re.search(r"Write the file (\S+)\.", text)) is not None:
        if PATCH_BLOCK in named:
            return words(f"```save {match[1]}\n{CONTENT}```")
        return call_for(match[1], named) or no_tool(named)
    if (match := re.search(r"Say hello to (\w+)\.", text)) is not None:
        return words(f"Hello {match[1]}! Nice to meet you.")
    return words(HELLO)


def no_tool(named: Iterable[str]) -> Iterator[str]:
    return iter([f"{NO_TOOL} I have: {', '.join(named) or 'none'}."])


def words(text: str) -> Iterator[str]:
    for word in re.findall(r"\S+\s*", text):
        time.sleep(FAST_S)
        yield word


def note(conversation: list[Said]) -> None:
    """Append a request to the log."""
    if len(sys.argv) > 1:
        line = json.dumps([said.text or said.by for said in conversation])
        with Path(sys.argv[1]).open("a", encoding="utf-8") as log:
            log.write(line + "\n")


def numbers(count: int = MAX_NUMBERS) -> Iterator[str]:
    for number in range(count):
        time.sleep(SLOW_S)
        yield f"{number} "


def call_for(name: str, tools: dict[str, Tool]) -> Call | None:
    values: dict[str, Any] = dict.fromkeys(PATH_KEYS, name)
    values |= dict.fromkeys(TEXT_KEYS, CONTENT) | {"command": "create"}
    line = f"echo '{CONTENT.strip()}' > {name}"
    if "exec_command" in tools:  # Codex
        patch = f"*** Begin Patch\n*** Add File: {name}\n+{CONTENT.strip()}\n*** End Patch"
        line = f"apply_patch <<'EOF'\n{patch}\nEOF"
    return call_of(WRITE_TOOLS, tools, values) or shell_call(line, tools)


def edit_calls(name: str, tools: dict[str, Tool]) -> Iterator[Call]:
    """Yield the calls that read and change a file; none if no tool changes files."""
    first, last = CHANGED_LINES
    old, new = ("\n".join(text.split("\n")[first : last + 1]) for text in (OLD, NEW))
    values: dict[str, Any] = dict.fromkeys(PATH_KEYS, name)
    read = call_of(READ_TOOLS, tools, values)
    change = dict.fromkeys(OLD_KEYS, old) | dict.fromkeys(NEW_KEYS, new)
    values |= dict.fromkeys(TEXT_KEYS, NEW)
    values |= change | {"edit": {"old": old, "new": new}, "edits": [change], "instruction": "edit"}
    patch = "\n".join(patch_lines(name))
    call = (
        call_of(EDIT_TOOLS, tools, values)
        or call_of(WRITE_TOOLS, tools, values)
        or shell_call(f"apply_patch <<'EOF'\n{patch}\nEOF", tools)
    )
    if call is None:
        return
    if read is not None:
        yield read
    yield call


def patch_block(name: str) -> str:
    """Return the change as the text that gptme runs."""
    first, last = CHANGED_LINES
    old, new = ("\n".join(text.split("\n")[first : last + 1]) for text in (OLD, NEW))
    return f"```patch {name}\n{CONFLICT}\n{old}\n=======\n{new}\n>>>>>>> UPDATED\n```"


def patch_lines(name: str) -> Iterator[str]:
    """Yield the change as the patch that Codex reads."""
    yield from ("*** Begin Patch", f"*** Update File: {name}")
    old, new = OLD.split("\n"), NEW.split("\n")
    for at in CHANGED_LINES:
        yield from ("@@", f" {old[at - 1]}", f"-{old[at]}", f"+{new[at]}", f" {old[at + 1]}")
    yield "*** End Patch"


def call_of(names: Iterable[str], tools: dict[str, Tool], values: dict[str, Any]) -> Call | None:
    known = next((name for name in names if name in tools), None)
    return None if known is None else Call(known, filled(tools[known].schema, values))


def shell_call(line: str, tools: dict[str, Tool]) -> Call | None:
    for known in SHELL_TOOLS:
        if known in tools:
            schema = tools[known].schema
            command = schema.get("properties", {}).get("command", {})
            words_of = ["bash", "-lc", line] if command.get("type") == "array" else line
            values = {"command": words_of, "cmd": line, "description": "Run a command"}
            # Codex asks for permission to leave its sandbox.
            values |= {"sandbox_permissions": "require_escalated", "justification": "Run it?"}
            values["code"] = f"import subprocess; subprocess.run({line!r}, shell=True, check=True)"
            return Call(known, filled(schema, values))
    return None


def filled(schema: dict[str, Any], values: dict[str, Any]) -> dict[str, Any]:
    """Return arguments for a schema: the given values, and something for other required ones."""
    found = {key: values[key] for key in schema.get("properties", {}) if key in values}
    for key in schema.get("required", ()):
        if key not in found:
            kind = schema["properties"][key].get("type")
            choices = schema["properties"][key].get("enum")
            found[key] = (
                choices[0]
                if choices
                else {"integer": 1, "number": 1, "boolean": False, "array": []}.get(kind, "x")
            )
    return found


def text_of(content: Any) -> str:
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        return "\n".join(map(text_of, content))
    return text_of(content.get("text", "")) if isinstance(content, dict) else ""


def said_in_chat(messages: list[dict[str, Any]]) -> Iterator[Said]:
    """Yield what the user and the tools said; gptme sends results as texts of the system."""
    for at, message in enumerate(messages):
        text = text_of(message.get("content"))
        if message["role"] == "tool" or (at and message["role"] == "system"):
            yield Said("tool")
        elif message["role"] == "user":
            yield Said("tool") if text.startswith("<system>") else Said("user", text)


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
        said = list(said_in_chat(asked["messages"]))
        tools = [
            Tool(one["function"]["name"], one["function"].get("parameters") or {})
            for one in asked.get("tools") or ()
        ]
        if not tools and CONFLICT in text_of(asked["messages"][0]["content"]):
            tools = [Tool(PATCH_BLOCK, {})]
        decided = decide(said, tools)
        usage = {"prompt_tokens": 100, "completion_tokens": 20, "total_tokens": 120}
        head = {"id": f"c-{next(IDS)}", "created": 1, "model": asked["model"]}
        if isinstance(decided, Call):
            function = {"name": decided.name, "arguments": json.dumps(decided.arguments)}
            calls = [
                {"index": 0, "id": f"call-{next(IDS)}", "type": "function", "function": function}
            ]
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
        said = [
            Said("user", text_of(one.get("content"))) if one.get("role") == "user" else Said("tool")
            for one in items
            if one.get("role") == "user" or str(one.get("type")).endswith("_output")
        ]
        tools = [
            Tool(one.get("name") or one.get("type"), one.get("parameters") or {})
            for one in asked.get("tools") or ()
        ]
        decided = decide(said, tools)
        head = {
            "id": f"r-{next(IDS)}",
            "object": "response",
            "created_at": 1,
            "model": asked.get("model"),
        }
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
            item = {"id": f"f-{next(IDS)}", "type": "function_call", "call_id": f"call-{next(IDS)}"}
            item |= {"name": decided.name, "arguments": json.dumps(decided.arguments)}
            self.send_typed("response.output_item.added", output_index=0, item=item)
        else:
            item = {"id": f"m-{next(IDS)}", "type": "message", "role": "assistant", "content": []}
            self.send_typed("response.output_item.added", output_index=0, item=item)
            whole = ""
            for part in decided:
                whole += part
                self.send_typed(
                    "response.output_text.delta",
                    item_id=item["id"],
                    output_index=0,
                    content_index=0,
                    delta=part,
                )
            item["content"] = [{"type": "output_text", "text": whole, "annotations": []}]
        self.send_typed("response.output_item.done", output_index=0, item=item)
        done = {**head, "status": "completed", "output": [item], "usage": usage}
        self.send_typed("response.completed", response=done)

    # Anthropic

    def send_message(self, asked: dict[str, Any]) -> None:
        blocks = [
            block for one in asked["messages"] if one["role"] == "user" for block in blocks_of(one)
        ]
        said = [
            Said("tool") if block["type"] == "tool_result" else Said("user", text_of(block))
            for block in blocks
        ]
        tools = [
            Tool(one["name"], one.get("input_schema") or {}) for one in asked.get("tools") or ()
        ]
        decided = decide(said, tools)
        usage = {"input_tokens": 100, "output_tokens": 20}
        message = {
            "id": f"m-{next(IDS)}",
            "type": "message",
            "role": "assistant",
            "model": asked["model"],
        }
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
        said = [
            Said("tool") if "functionResponse" in part else Said("user", part.get("text", ""))
            for one in asked.get("contents") or ()
            if one.get("role") != "model"
            for part in one.get("parts", ())
        ]
        tools = [
            Tool(one["name"], one.get("parametersJsonSchema") or one.get("parameters") or {})
            for group in asked.get("tools") or ()
            for one in group.get("functionDeclarations", ())
        ]
        decided = decide(said, tools)
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
    return {"type": "tool_use", "id": f"call-{next(IDS)}", "name": call.name, "input": {}}


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
