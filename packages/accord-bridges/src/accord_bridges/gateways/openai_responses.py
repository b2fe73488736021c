"""`/v1/responses`: agents behind the newer form of the OpenAI API.

Responses are stored, so that `previous_response_id` continues their session, also after a restart.
"""

from __future__ import annotations

import asyncio
import secrets
import sqlite3
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from accord.client.events import Text, Thought, ToolCall
from accord.text import lenient_json
from accord_bridges.gateways.alive import Alive
from accord_bridges.gateways.app import Request, Routes
from accord_bridges.gateways.openai_forms import (
    Content,
    Function,
    JsonOutput,
    Place,
    agent_and_model,
    answer_of,
    blocks_of,
    call_of,
    caller_tools,
    error_body,
    failure,
    json_answer,
    read,
    session_headers,
    text_of,
    tool_line,
    with_transcript,
)
from accord_bridges.gateways.turns import (
    AgentSessions,
    CallerCall,
    CallerQuestion,
    Conversation,
    Exchange,
    GatewayError,
    Happening,
)

_encode = msgspec.json.Encoder().encode
_INCOMPLETE = {
    "max_tokens": "max_output_tokens",
    "max_turn_requests": "max_output_tokens",
    "refusal": "content_filter",
}
_KEPT = 10_000  # stored responses


class _Item(Struct):
    type: str = "message"
    role: str = "user"
    content: Content = None
    call_id: str = ""
    output: Any = None


class _Tool(Struct):
    type: str
    name: str = ""
    description: str | None = None
    parameters: Mapping[str, Any] | None = None


class _TextOptions(Struct):
    format: Mapping[str, Any] | None = None


class _Create(Struct):
    model: str
    input: str | list[_Item] = ""
    instructions: str | None = None
    previous_response_id: str | None = None
    conversation: Any = None
    stream: bool | None = False
    background: bool | None = False
    store: bool | None = True
    tools: list[_Tool] | None = None
    tool_choice: Any = None
    text: _TextOptions | None = None
    metadata: Mapping[str, Any] | None = None


class OpenAiResponses:
    """Serves responses. With `show_tools`, answers name tool calls."""

    def __init__(self, sessions: AgentSessions, *, show_tools: bool = False) -> None:
        self._sessions = sessions
        self.show_tools = show_tools
        self.stored = _Stored(sessions.database, sessions.folder)
        self._running: dict[str, _Reply] = {}
        sessions.at_end.append(self._end)

    def routes(self) -> Routes:
        """Return the paths."""
        return Routes(
            error_body,
            {
                ("POST", "/v1/responses"): self._create,
                ("GET", "/v1/responses/*"): self._get,
                ("DELETE", "/v1/responses/*"): self._delete,
                ("POST", "/v1/responses/*/cancel"): self._cancel,
            },
        )

    async def _create(self, request: Request) -> None:
        body = read(request.body, _Create)
        agent, model = agent_and_model(self._sessions, body.model)
        output = JsonOutput.of(body.text.format if body.text else None, "text.format")
        items = [_Item(content=body.input)] if isinstance(body.input, str) else body.input
        exchange = self._returned(request, items)
        if exchange is None:
            exchange = await self._started(request, body, items, agent, model, output)
        reply = _Reply(self, request, body, exchange, output)
        self._running[reply.id] = reply
        try:
            if body.background:
                reply.save()
                reply.task = asyncio.create_task(reply.collect(), name="accord gateway response")
                await request.respond(reply.body("in_progress"))
            elif body.stream:
                async with request.until_gone(exchange.cancel):
                    await reply.stream()
            else:
                async with request.until_gone(exchange.cancel):
                    await reply.whole()
        finally:
            if reply.task is None:
                del self._running[reply.id]
            else:
                reply.task.add_done_callback(lambda _: self._running.pop(reply.id, None))

    async def _end(self) -> None:
        tasks = [reply.task for reply in self._running.values() if reply.task is not None]
        if tasks:  # their turns have ended
            await asyncio.wait(tasks)
        self.stored.close()

    def _returned(self, request: Request, items: Sequence[_Item]) -> Exchange | None:
        """Give the results of the caller's tools to the turns that wait; return the last one's."""
        first = len(items)
        while first and items[first - 1].type == "function_call_output":
            first -= 1
        found: list[tuple[Exchange, _Item]] = []
        for item in items[first:]:
            exchange = self._sessions.waiting_for(item.call_id, request.principal)
            if exchange is None:
                raise GatewayError(
                    f"The function call {item.call_id!r} is not open: its turn has ended."
                    " Continue the conversation with a message of the user",
                    status=409,
                    code="tool_call_not_open",
                    param="input",
                )
            found.append((exchange, item))
        for exchange, item in found:
            exchange.answer(item.call_id, answer_of(_content(item.output)))
        return found[-1][0] if found else None

    async def _started(
        self,
        request: Request,
        body: _Create,
        items: Sequence[_Item],
        agent: str,
        model: str | None,
        output: JsonOutput | None,
    ) -> Exchange:
        messages = [item for item in items if item.type == "message"]
        first_new = len(messages)
        while first_new and messages[first_new - 1].role == "user":
            first_new -= 1
        content = [
            block
            for number, item in enumerate(messages[first_new:], first_new)
            for block in blocks_of(item.content, f"input[{number}].content")
        ]
        before = [
            ("system" if item.role == "developer" else item.role, text.strip())
            for item in messages[:first_new]
            if (text := text_of(item.content))
        ]
        if body.instructions:
            before.insert(0, ("system", body.instructions))
        conversation = self._conversation(request, body)
        if conversation is None:
            cwd = Place.of(request, body.metadata).cwd
            conversation = await self._sessions.new(agent, request.principal, model=model, cwd=cwd)
            content = with_transcript(before, content)
        if output is not None:
            content = [*content, f"\n\n{output.request()}"]
        if not content:
            raise GatewayError("input: expected text of the user", param="input")
        functions = [
            Function(tool.name, tool.description, tool.parameters)
            for tool in body.tools or ()
            if tool.type == "function"
        ]
        tools, asks = caller_tools(functions, body.tool_choice)
        conversation.move_on()
        return conversation.start(content, tools=tools, asks=asks)

    def _conversation(self, request: Request, body: _Create) -> Conversation | None:
        """Return the conversation that a request continues."""
        if body.previous_response_id is not None:
            session, last = self.stored.session_of(
                body.previous_response_id, request.principal.name
            )
            if last != body.previous_response_id:
                raise GatewayError(
                    f"The session of {body.previous_response_id} has moved on: continue with"
                    f" previous_response_id={last!r}, or send the conversation as input",
                    status=409,
                    code="response_not_last",
                    param="previous_response_id",
                )
            return self._sessions.find(session, request.principal)
        given: Any = body.conversation
        if lenient_json.is_object(given):
            given = given.get("id")
        named = given or Place.of(request, body.metadata).session
        return None if named is None else self._sessions.find(str(named), request.principal)

    async def _get(self, request: Request) -> None:
        found = self.stored.get(request.path.rpartition("/")[2], request.principal.name)
        await request.respond(found)

    async def _delete(self, request: Request) -> None:
        response_id = request.path.rpartition("/")[2]
        self.stored.delete(response_id, request.principal.name)
        await request.respond({"id": response_id, "object": "response", "deleted": True})

    async def _cancel(self, request: Request) -> None:
        response_id = request.path.split("/")[-2]
        self.stored.get(response_id, request.principal.name)
        running = self._running.get(response_id)
        if running is not None:
            running.exchange.cancel()
            await running.ended.wait()
        await request.respond(self.stored.get(response_id, request.principal.name))


class _Reply:
    """One response: its items, and the events that report them."""

    def __init__(
        self,
        responses: OpenAiResponses,
        request: Request,
        body: _Create,
        exchange: Exchange,
        output: JsonOutput | None,
    ) -> None:
        self.id = f"resp_{secrets.token_hex(16)}"
        self.exchange = exchange
        self.task: asyncio.Task[None] | None = None
        self.ended = asyncio.Event()
        self._responses = responses
        self._request = request
        self._given = body
        self._output = output
        self._created = time.time()
        self._items: list[dict[str, Any]] = []
        self._calls = 0
        self._events: list[bytes] | None = None  # None: nobody reads them
        self._number = 0
        self._error: dict[str, Any] | None = None
        self._is_shown = False  # as one that is in progress

    # What is sent.

    async def whole(self) -> None:
        """Send one response when the turn has ended, or waits for the caller."""
        await self._collect()
        if (error := failure(self.exchange)) is not None:
            raise error
        await self._request.respond(
            self.body(), headers=session_headers(self.exchange.conversation)
        )

    async def collect(self) -> None:
        """Store the response when the turn has ended: the caller polls for it."""
        with suppress(GatewayError):  # the response has it
            await self._collect()

    async def stream(self) -> None:
        """Send events as they happen."""
        request = self._request
        self._events = []
        self.save()
        await request.start_events(session_headers(self.exchange.conversation))
        for kind in ("response.created", "response.in_progress"):
            self._emit(kind, response=self.body("in_progress"))
        await self._send()
        await self._collect()
        error = failure(self.exchange)
        if error is not None:
            self._error = error_body(error)["error"]
        body = self.body("failed" if error is not None else None)
        self._emit(f"response.{body['status']}", response=body)
        await self._send(more=False)

    async def _send(self, *, more: bool = True) -> None:
        if self._events:
            data = b"".join(self._events)
            self._events.clear()
            await self._request.send_events(data, more=more)

    def _emit(self, kind: str, **fields: Any) -> None:
        if self._events is None:
            return
        event = {"type": kind, "sequence_number": self._number, **fields}
        self._number += 1
        self._events += (b"event: ", kind.encode(), b"\ndata: ", _encode(event), b"\n\n")

    # What the agent does.

    async def _collect(self) -> None:
        try:
            text: list[str] = []
            async for found in self.exchange.happenings():
                for item in found:
                    self._take(item, text)
                await self._send()
            if self._output is not None and not self._calls and failure(self.exchange) is None:
                said = "".join(text)
                answer, self.exchange = await json_answer(
                    said, self._output, self.exchange, self._request
                )
                self._say(answer)
            self._close()
            await self._send()
            error = failure(self.exchange)
            if error is not None:
                self._error = error_body(error)["error"]
            self.save("failed" if error is not None else None)
        except BaseException as error:
            if self._is_shown:
                known = isinstance(error, GatewayError)
                shown = error if known else GatewayError("Internal error", status=500)
                self._error = error_body(shown)["error"]
                self.save("failed")
            raise
        finally:
            self.ended.set()

    def _take(self, item: Happening, text: list[str]) -> None:
        if type(item) is Text:
            text.append(item.text)
            if self._output is None:
                self._say(item.text)
        elif type(item) is Thought:
            self._think(item.text)
        elif isinstance(item, CallerCall | CallerQuestion):
            self._call(item)
        elif isinstance(item, ToolCall) and self._responses.show_tools:
            line = tool_line(item)
            if line and self._output is None:
                self._say(line)

    def _open(self, kind: str, **fields: Any) -> dict[str, Any]:
        """Return the last item if it is open and of this kind, else a new one."""
        last = self._items[-1] if self._items else None
        if last is not None and last["type"] == kind and last["status"] == "in_progress":
            return last
        self._close()
        item = {"id": f"{kind[:3]}_{secrets.token_hex(12)}", "type": kind, **fields}
        item["status"] = "in_progress"
        self._items.append(item)
        self._emit("response.output_item.added", output_index=len(self._items) - 1, item=item)
        return item

    def _place(self, item: dict[str, Any], index: str) -> dict[str, Any]:
        return {"item_id": item["id"], "output_index": len(self._items) - 1, index: 0}

    def _say(self, text: str) -> None:
        item = self._open("message", role="assistant", content=[])
        if not item["content"]:
            part: dict[str, Any] = {
                "type": "output_text",
                "text": "",
                "annotations": [],
                "logprobs": [],
            }
            place = self._place(item, "content_index")
            self._emit("response.content_part.added", **place, part=part)
            item["content"].append(part | {"text": []})
        item["content"][0]["text"].append(text)
        place = self._place(item, "content_index")
        self._emit("response.output_text.delta", **place, delta=text, logprobs=[])

    def _think(self, text: str) -> None:
        item = self._open("reasoning", summary=[])
        place = self._place(item, "summary_index")
        if not item["summary"]:
            part: dict[str, Any] = {"type": "summary_text", "text": ""}
            self._emit("response.reasoning_summary_part.added", **place, part=part)
            item["summary"].append(part | {"text": []})
        item["summary"][0]["text"].append(text)
        self._emit("response.reasoning_summary_text.delta", **place, delta=text)

    def _call(self, call: CallerCall | CallerQuestion) -> None:
        call_id, name, arguments = call_of(call)
        self._calls += 1
        item = self._open("function_call", call_id=call_id, name=name, arguments="")
        place = self._place(item, "content_index")
        del place["content_index"]
        self._emit("response.function_call_arguments.delta", **place, delta=arguments)
        item["arguments"] = arguments
        self._emit("response.function_call_arguments.done", **place, arguments=arguments, name=name)
        self._close()

    def _close(self) -> None:
        """End the last item."""
        if not self._items or self._items[-1]["status"] != "in_progress":
            return
        item = self._items[-1]
        item["status"] = "completed"
        parts: list[dict[str, Any]] = item.get("content") or item.get("summary") or []
        for part in parts:
            part["text"] = "".join(part["text"])
        if item["type"] == "message" and parts:
            place = self._place(item, "content_index")
            self._emit("response.output_text.done", **place, text=parts[0]["text"], logprobs=[])
            self._emit("response.content_part.done", **place, part=parts[0])
        elif item["type"] == "reasoning" and parts:
            place = self._place(item, "summary_index")
            self._emit("response.reasoning_summary_text.done", **place, text=parts[0]["text"])
            self._emit("response.reasoning_summary_part.done", **place, part=parts[0])
        self._emit("response.output_item.done", output_index=len(self._items) - 1, item=item)

    # The response as a whole.

    def body(self, status: str | None = None) -> dict[str, Any]:
        """Return the response."""
        exchange, given = self.exchange, self._given
        reason = _INCOMPLETE.get(exchange.stop_reason or "")
        if status is None:
            status = "completed" if reason is None else "incomplete"
            if exchange.stop_reason == "cancelled":
                status = "cancelled" if given.background else "incomplete"
        acp: dict[str, Any] = {"session_id": exchange.conversation.id}
        if exchange.stop_reason is not None:
            acp["stop_reason"] = exchange.stop_reason
        if exchange.rejected:
            acp["rejected"] = exchange.rejected
        done = status == "in_progress"
        used = None if done else exchange.usage
        return {
            "id": self.id,
            "object": "response",
            "created_at": self._created,
            "status": status,
            "background": bool(given.background),
            "error": self._error,
            "incomplete_details": None if reason is None or done else {"reason": reason},
            "instructions": given.instructions,
            "metadata": given.metadata or {},
            "model": given.model,
            "output": [] if done else self._items,
            "parallel_tool_calls": True,
            "previous_response_id": given.previous_response_id,
            "temperature": None,
            "text": {"format": {"type": "text"}},
            "tool_choice": given.tool_choice or "auto",
            "tools": [
                {"type": "function", "name": tool.name, "parameters": tool.parameters,
                 "strict": False}
                for tool in given.tools or () if tool.type == "function"
            ],
            "top_p": None,
            "usage": None if used is None else {
                "input_tokens": used.input,
                "input_tokens_details": {"cached_tokens": used.cached_read or 0},
                "output_tokens": used.output,
                "output_tokens_details": {"reasoning_tokens": used.thought or 0},
                "total_tokens": used.total,
            },
            "acp": acp,
        }  # fmt: skip

    def save(self, status: str | None = "in_progress") -> None:
        """Store the response as it is now."""
        self._is_shown = status == "in_progress"
        if self._given.store is False:
            body: dict[str, Any] | None = None
        else:
            body = self.body(status)
        self._responses.stored.put(
            self.id,
            self.exchange.conversation.id,
            self._request.principal.name,
            body,
            runs=self._is_shown,
        )


def _content(output: Any) -> Any:
    """Return the output of a function as content, or as the object that it is."""
    if isinstance(output, list):
        return msgspec.convert(output, Content, strict=False)
    return output


class _Stored:
    """The responses of the last time, and the last one of each session.

    A response that was in progress when its gateway died has failed.
    """

    def __init__(self, database: sqlite3.Connection, folder: Path) -> None:
        self._database = database
        self._alive = Alive(folder, "responses")
        database.executescript(
            "CREATE TABLE IF NOT EXISTS responses (number INTEGER PRIMARY KEY AUTOINCREMENT,"
            " id TEXT UNIQUE NOT NULL, session TEXT NOT NULL, principal TEXT NOT NULL, body BLOB);"
            "CREATE INDEX IF NOT EXISTS by_session ON responses (session, number);"
            "CREATE TABLE IF NOT EXISTS running_responses (id TEXT PRIMARY KEY,"
            " gateway TEXT NOT NULL);"
        )
        self._fail_interrupted()

    def _fail_interrupted(self) -> None:
        database = self._database
        running = database.execute("SELECT id, gateway FROM running_responses").fetchall()
        dead = self._alive.dead({gateway for _, gateway in running})
        for response_id, gateway in running:
            if gateway not in dead:
                continue
            row = database.execute(
                "SELECT body FROM responses WHERE id = ?", (response_id,)
            ).fetchone()
            if row is not None and row[0] is not None:
                body = msgspec.json.decode(row[0])
                text = (
                    "The gateway ended while this response was in progress. What the agent has done"
                    f" is in the session {body['acp']['session_id']}: continue with"
                    " previous_response_id"
                )
                error = GatewayError(text, status=500, code="server_error")
                body |= {"status": "failed", "error": error_body(error)["error"]}
                database.execute(
                    "UPDATE responses SET body = ? WHERE id = ?", (_encode(body), response_id)
                )
            database.execute("DELETE FROM running_responses WHERE id = ?", (response_id,))
        self._alive.forget(dead)

    def close(self) -> None:
        """Leave the responses to the next gateway."""
        self._alive.close()

    def put(
        self,
        response_id: str,
        session: str,
        principal: str,
        body: dict[str, Any] | None,
        *,
        runs: bool = False,
    ) -> None:
        """Store a response; one that `runs` changes until it is stored again."""
        data = None if body is None else _encode(body)
        self._database.execute(
            "INSERT INTO responses (id, session, principal, body) VALUES (?, ?, ?, ?)"
            " ON CONFLICT (id) DO UPDATE SET body = excluded.body",
            (response_id, session, principal, data),
        )
        if runs:
            self._database.execute(
                "INSERT OR REPLACE INTO running_responses VALUES (?, ?)",
                (response_id, self._alive.name),
            )
        else:
            self._database.execute("DELETE FROM running_responses WHERE id = ?", (response_id,))
        self._database.execute(
            "DELETE FROM responses WHERE number <= (SELECT max(number) FROM responses) - ?",
            (_KEPT,),
        )

    def session_of(self, response_id: str, principal: str) -> tuple[str, str]:
        """Return the session of a response, and the last response of that session."""
        row = self._row("session", response_id, principal)
        [last] = self._database.execute(
            "SELECT id FROM responses WHERE session = ? ORDER BY number DESC LIMIT 1", row
        ).fetchone()
        return row[0], last

    def get(self, response_id: str, principal: str) -> Any:
        """Return a stored response. Raises `GatewayError` if there is none."""
        [data] = self._row("body", response_id, principal)
        if data is None:
            raise _unknown(response_id)
        return msgspec.Raw(data)

    def delete(self, response_id: str, principal: str) -> None:
        """Remove a response; its session stays."""
        self._row("id", response_id, principal)
        self._database.execute("DELETE FROM responses WHERE id = ?", (response_id,))

    def _row(self, column: str, response_id: str, principal: str) -> Any:
        row = self._database.execute(
            f"SELECT {column} FROM responses WHERE id = ? AND principal = ?",
            (response_id, principal),
        ).fetchone()
        if row is None:
            raise _unknown(response_id)
        return row


def _unknown(response_id: str) -> GatewayError:
    return GatewayError(
        f"Unknown response {response_id[:80]!r}", status=404, code="response_not_found"
    )
