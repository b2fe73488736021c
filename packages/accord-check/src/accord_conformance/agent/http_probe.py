"""A conversation with a server of streamable HTTP, request by request."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from typing import Any, TypeAlias

from accord.text.lenient_json import is_object
from accord_conformance.agent.context import AgentContext
from accord_conformance.agent.scenario_client import CLIENT_INFO
from accord_conformance.harness import NotExercised
from accord_conformance.network import Address, OpenStream, RawClient, Reply

Json: TypeAlias = dict[str, Any]

_JSON = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}


def address_of(context: AgentContext) -> Address:
    """Return the address of the agent under test."""
    remote = context.remote
    ca_file = remote.options.ca_file
    return Address(remote.url, remote.options.token, None if ca_file is None else str(ca_file))


def initialize_message(version: int, ident: Any = 0) -> Json:
    """Return an `initialize` request without capabilities."""
    names = ("clientCapabilities", "clientInfo") if version == 1 else ("capabilities", "info")
    params = {"protocolVersion": version, names[0]: {}, names[1]: CLIENT_INFO}
    return {"jsonrpc": "2.0", "id": ident, "method": "initialize", "params": params}


class HttpProbe:
    """Sends the messages of one connection by HTTP; use it with `async with`.

    `streams` has the open streams by their session.
    """

    def __init__(self, context: AgentContext) -> None:
        self.context = context
        self.client = RawClient(address_of(context), within_s=context.settings.answer)
        self.connection_id: str | None = None
        self.streams: dict[str | None, OpenStream] = {}
        self._last_id = 0
        self._done: set[int] = set()  # requests of the agent that were answered

    async def __aenter__(self) -> HttpProbe:
        return self

    async def __aexit__(self, *_: object) -> None:
        if self.connection_id is not None:
            await self.client.request("DELETE", self.headers(), within_s=2)
        await self.client.aclose()

    def headers(self, session: str | None = None, **more: str) -> dict[str, str]:
        """Return the headers of the connection, and of a session."""
        found = {} if self.connection_id is None else {"Acp-Connection-Id": self.connection_id}
        if session is not None:
            found["Acp-Session-Id"] = session
        return {**found, **{name.replace("_", "-"): value for name, value in more.items()}}

    async def post(
        self,
        message: Json | bytes,
        session: str | None = None,
        *,
        headers: dict[str, str] | None = None,
    ) -> Reply:
        """Post a message, or any bytes."""
        body = message if isinstance(message, bytes) else json.dumps(message).encode()
        return await self.client.request(
            "POST", {**_JSON, **self.headers(session), **(headers or {})}, body
        )

    def request(self, method: str, params: Json | None = None) -> Json:
        """Return a request with a new id."""
        self._last_id += 1
        return {
            "jsonrpc": "2.0",
            "id": self._last_id,
            "method": method,
            "params": params or {},
        }

    async def initialize(self, *, log_in: bool = True) -> Reply:
        """Create a connection, open its stream and log in; raise `NotExercised` if that fails."""
        reply = await self.post(initialize_message(self.context.version))
        ident = reply.header("Acp-Connection-Id")
        if reply.status != 200 or ident is None:
            raise NotExercised(f"no connection was created: {reply.outcome}")
        self.connection_id = ident
        stream = await self.open_stream()
        if stream.status != 200:
            raise NotExercised(f"the connection has no stream: {stream.reply.outcome}")
        login = self.context.settings.login
        if login and log_in:
            method = "authenticate" if self.context.version == 1 else "auth/login"
            await self.call(method, {"methodId": login})
        return reply

    async def open_stream(self, session: str | None = None, **more: str) -> OpenStream:
        """Open a stream, and keep it if it is one."""
        stream = await self.client.open_stream(self.headers(session, **more))
        if stream.status == 200:
            self.streams[session] = stream
        return stream

    async def call(self, method: str, params: Json, session: str | None = None) -> Json:
        """Post a request; return its response from whatever stream, or raise `NotExercised`."""
        message = self.request(method, params)
        reply = await self.post(message, session)
        if not 200 <= reply.status < 300:
            raise NotExercised(f"{method} was refused: {reply.outcome}")
        found = await self.answer_to(message)
        if found is None:
            raise NotExercised(f"no response to {method}")
        return found[1]

    async def answer_to(self, message: Json) -> tuple[str | None, Json] | None:
        """Wait for the response to a request; return its stream and it, None if none came."""

        def find() -> list[tuple[str | None, Json]]:
            return [
                (session, one)
                for session, one in self.messages()
                if one.get("id") == message["id"] and "method" not in one
            ]

        await self.client.wait(lambda: bool(find()))
        return next(iter(find()), None)

    def messages(self) -> list[tuple[str | None, Json]]:
        """Return all messages of the agent, each with its stream."""
        return [
            (session, event.message)
            for session, stream in self.streams.items()
            for event in stream.events
            if event.message is not None
        ]

    async def new_session(self) -> str:
        """Create a session and open its stream; raise `NotExercised` if that fails."""
        params: Json = {"cwd": str(self.context.folder)}
        if self.context.version == 1:
            params["mcpServers"] = []
        answer = await self.call("session/new", params)
        result = answer.get("result")
        ident = result.get("sessionId") if is_object(result) else None
        if not isinstance(ident, str):
            raise NotExercised(f"no session was created: {answer.get('error')}")
        stream = await self.open_stream(ident)
        if stream.status != 200:
            raise NotExercised(f"the session has no stream: {stream.reply.outcome}")
        return ident

    async def prompt(
        self,
        session: str,
        purpose: str,
        on_request: Callable[[str | None, Json], Awaitable[None]] | None = None,
        *,
        header: str | None = None,
    ) -> tuple[str | None, Json]:
        """Run a turn; return the stream of the response and the response.

        `on_request` gets the agent's requests. Raise `NotExercised` if the turn does not end.
        """
        words = self.context.settings.prompt(purpose)
        if not words:
            raise NotExercised(f"the settings have no prompt for {purpose}")
        content = [{"type": "text", "text": words}]
        message = self.request("session/prompt", {"sessionId": session, "prompt": content})
        reply = await self.post(message, session if header is None else header)
        if reply.status != 202:
            raise NotExercised(f"the prompt was refused: {reply.outcome}")

        def is_over() -> bool:
            done = [one for _, one in self.messages() if _ends(one, message["id"], session)]
            return any("error" in one for one in done) or len(done) >= self.context.version

        while not is_over():
            waiting = [
                (stream, one)
                for stream, one in self.messages()
                if "method" in one and "id" in one and id(one) not in self._done
            ]
            for stream, one in waiting:
                self._done.add(id(one))
                await (on_request or self.refuse)(stream, one)
            if not waiting:
                before = len(self.messages())
                grew = await self.client.wait(
                    lambda before=before: len(self.messages()) > before,
                    self.context.settings.timeout,
                )
                if not grew:
                    raise NotExercised("the turn did not end")
        found = await self.answer_to(message)
        if found is None:
            raise NotExercised("no response to session/prompt")
        return found

    async def refuse(self, stream: str | None, call: Json) -> None:
        """Answer a request of the agent with an error."""
        error = {"code": -32601, "message": "Method not found"}
        await self.post({"jsonrpc": "2.0", "id": call["id"], "error": error}, stream)


def _ends(message: Json, ident: Any, session: str) -> bool:
    """Return whether a message is needed for the end of a turn: both in version 2."""
    if "method" not in message:
        return message.get("id") == ident
    params = message.get("params")
    update = params.get("update") if is_object(params) else None
    if not is_object(params) or not is_object(update) or params.get("sessionId") != session:
        return False
    is_state = update.get("sessionUpdate") == "state_update"
    return is_state and update.get("state") == "idle" and "stopReason" in update
