"""What a scenario for agents gets: its connections, its folder, and the judging of what it saw.

`AgentContext` is made anew for each scenario. It judges responses by rule (`expect_success`,
`expect_error`, …), and reports a turn that did not do what its prompt asked for as not exercised.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any, Literal, TypeAlias, TypeGuard
from urllib.parse import urlsplit

from msgspec import Struct, field

from accord.errors import ConnectionLost, ConnectionRefused, TransportError
from accord.text.lenient_json import is_array, is_object
from accord.transports.base import Transport, opened
from accord.transports.registry import RemoteOptions, transport_for_url
from accord_conformance.agent.scenario_client import Json, ScenarioClient, SentPrompt
from accord_conformance.agent.settings import Settings
from accord_conformance.harness import LoginRequired, NoResponse, NotExercised, Scenario
from accord_conformance.judges.base import Evidence, make_finding
from accord_conformance.reports.report import Report
from accord_conformance.rules.manifest import Authority, requirements
from accord_conformance.traffic.message import Medium, Request, format_value

# The purposes of prompts: what a turn has to lead to, so that a scenario is exercised.

_MAX_FILES = 10_000
_MESSAGES = ("agent_message_chunk", "agent_message")


def missed_purpose(client: ScenarioClient, sent: SentPrompt) -> str:
    """Return what a turn did not lead to, and what it led to instead, or an empty text.

    A prompt that was refused, and one whose turn has not ended, are not judged here.
    """
    check = _PURPOSES.get(sent.purpose)
    if check is None or not sent.request.ok or not sent.is_over or check[1](client, sent):
        return ""
    return f"{check[0]}: {_instead(client, sent)}"


def _instead(client: ScenarioClient, sent: SentPrompt) -> str:
    """Describe the failures in a turn, or how it ended."""
    parts = [
        f"the tool call {format_value(tool.get('title') or ident)} failed"
        for ident, tool in _tool_calls(sent).items()
        if tool.get("status") == "failed"
    ]
    parts += [
        f"{call.method} of the agent got error {call.code}"
        for call in _requests(client, sent)
        if call.code is not None
    ]
    return "; ".join(dict.fromkeys(parts)) or f"the turn ended with {sent.stop_reason}"


def _says(_: ScenarioClient, sent: SentPrompt) -> bool:
    return bool(sent.updates(*_MESSAGES))


def _uses_a_tool(_: ScenarioClient, sent: SentPrompt) -> bool:
    return bool(_tool_calls(sent))


def _asks(client: ScenarioClient, sent: SentPrompt) -> bool:
    return any(one.method == "session/request_permission" for one in _requests(client, sent))


def _writes(client: ScenarioClient, sent: SentPrompt) -> bool:
    served = any(one.method == "fs/write_text_file" and one.ok for one in _requests(client, sent))
    written = (path for path in islice(client.folder.rglob("*"), _MAX_FILES) if path.is_file())
    return served or any(written) or any(_finished_on_a_file(sent))


def _finished_on_a_file(sent: SentPrompt) -> Iterator[bool]:
    """Yield whether each completed tool call names a file that exists, perhaps elsewhere."""
    for tool in _tool_calls(sent).values():
        if tool.get("status") == "completed":
            for path in _paths(tool):
                yield Path(path).is_file()


def _runs(client: ScenarioClient, sent: SentPrompt) -> bool:
    served = any(one.method == "terminal/create" and one.ok for one in _requests(client, sent))
    shown = sent.updates("terminal_update", "terminal_output_chunk")
    tools = _tool_calls(sent).values()
    return served or bool(shown) or any(tool.get("status") == "completed" for tool in tools)


# What a prompt for a purpose leads to, as it is missed. The other purposes are checked by the
# scenarios that have them.
_PURPOSES: dict[str, tuple[str, Callable[[ScenarioClient, SentPrompt], bool]]] = {
    "text": ("the agent sent no message", _says),
    "tool": ("the agent reported no tool call", _uses_a_tool),
    "permission": ("the agent did not request permission", _asks),
    "file_write": ("no file was written", _writes),
    "terminal": ("no command was run", _runs),
}


def _tool_calls(sent: SentPrompt) -> dict[str, Json]:
    """Return the tool calls of a turn by id, with all that was reported of them."""
    found: dict[str, Json] = {}
    for _, update in sent.updates("tool_call", "tool_call_update"):
        found.setdefault(str(update.get("toolCallId")), {}).update(update)
    return found


def _paths(tool: Json) -> Iterator[str]:
    named: list[Any] = []
    for key in ("locations", "content"):
        value = tool.get(key)
        named += value if is_array(value) else []
    for one in named:
        path = one.get("path") if is_object(one) else None
        if isinstance(path, str) and "\0" not in path:
            yield path


def _requests(client: ScenarioClient, sent: SentPrompt) -> list[Request]:
    """Return the agent's requests for the session since the prompt."""
    return [
        call
        for call in client.connection.requests
        if call.session_id == sent.session and call.frame.number > sent.request.frame.number
    ]


# An agent at a URL: how the kit connects to it.

_CONNECTION_ID = "Acp-Connection-Id"
# The token or the address is wrong, a proxy cannot reach the server, or it accepts no more.
_NOT_THE_SERVER = frozenset({401, 403, 404, 405, 407, 421, 426, 429, 501, 502, 503, 504})


class RemoteAgent(Struct, frozen=True):
    """The URL of an agent, its token, and the certificates to trust."""

    url: str
    options: RemoteOptions
    waited: set[str] = field(default_factory=set[str])  # the scenarios that waited for long

    @property
    def medium(self) -> Literal["websocket", "http"]:
        """WebSocket or streamable HTTP, by the scheme of the URL."""
        return "websocket" if urlsplit(self.url).scheme.lower() in ("ws", "wss") else "http"

    async def connect(self) -> Transport:
        """Return a transport to the agent; raise `ValueError` for a URL that must not be used."""
        return await opened(transport_for_url(self.url, self.options))


def is_refusal(error: Exception | None) -> TypeGuard[TransportError]:
    """Whether an HTTP server cannot be reached, or is not that of an agent for this client.

    `initialize` is the first request over HTTP. Other answers are the fault of the server.
    """
    if isinstance(error, ConnectionRefused):
        return 300 <= error.status < 400 or error.status in _NOT_THE_SERVER
    is_lost = isinstance(error, ConnectionLost)
    # Only an error in connecting has a cause.
    return isinstance(error, TransportError) and not is_lost and error.__cause__ is not None


def missing_in_answer(error: Exception | None) -> str | None:
    """Return what the HTTP response to `initialize` lacks, if the transport ended for it."""
    if _CONNECTION_ID in str(error):
        return f"the header {_CONNECTION_ID} in the response to `initialize`"
    if "did not answer initialize" in str(error):
        return "the JSON-RPC response to `initialize`"
    return None


# What scenarios get.

# Starts the agent; its output that is not a frame goes to the function.
Connect: TypeAlias = Callable[[Callable[[str], None]], Transport | Awaitable[Transport]]


_LOGIN_NEEDED = -32000


class AgentContext:
    """A running scenario; `client` is connected unless the scenario is isolated."""

    def __init__(
        self,
        scenario: Scenario[AgentContext],
        version: int,
        settings: Settings,
        folder: Path,
        *,
        report: Report,
        start: Callable[[str], Awaitable[ScenarioClient]],
        close: Callable[[str, ScenarioClient], Awaitable[None]],
        shared: ScenarioClient | None,
        remote: RemoteAgent | None = None,
    ) -> None:
        self.scenario = scenario
        self.version = version
        self.settings = settings
        self.folder = folder
        self._report = report
        self._start = start
        self._close = close
        self._shared = shared
        self._remote = remote
        self._opened: list[ScenarioClient] = []

    @property
    def client(self) -> ScenarioClient:
        """The client that scenarios share, initialized."""
        assert self._shared is not None, "an isolated scenario connects itself"
        return self._shared

    @property
    def medium(self) -> Medium:
        """What carries the messages."""
        return "stdio" if self._remote is None else self._remote.medium

    @property
    def remote(self) -> RemoteAgent:
        """The agent's address, in scenarios about the network."""
        assert self._remote is not None, "only for agents at a URL"
        return self._remote

    def wait_once(self) -> None:
        """Raise `NotExercised` if this scenario, which takes long, ran in another version."""
        if self.scenario.name in self.remote.waited:
            raise NotExercised("was exercised in the other version")
        self.remote.waited.add(self.scenario.name)

    async def connect(self) -> ScenarioClient:
        """Start another process of the agent, and send nothing yet."""
        client = await self._start(self.scenario.name)
        client.start_scenario(self.folder, self.scenario.name)
        self._opened.append(client)
        return client

    async def connect_initialized(self, **more: Any) -> ScenarioClient:
        """Start another process of the agent and initialize it, or raise `NotExercised`."""
        client = await self.connect()
        call = await client.initialize(**more)
        if not call.ok:
            raise NotExercised("the agent refused the handshake")
        return client

    def missed_purposes(self) -> str:
        """Return which turns did not lead to what their prompts are for, or an empty text."""
        clients = self._opened if self._shared is None else [self._shared, *self._opened]
        missed = [missed_purpose(client, sent) for client in clients for sent in client.turns]
        return "; ".join(dict.fromkeys(filter(None, missed)))

    async def aclose(self) -> None:
        """Stop the processes that the scenario started."""
        while self._opened:
            await self._close(self.scenario.name, self._opened.pop())

    def judge(
        self,
        rule: str,
        passed: bool,
        *seen: Evidence,
        expected: str = "",
        got: str = "",
        authority: Authority | None = None,
    ) -> None:
        """Add a finding about a rule, unless the rule is not of this version."""
        assert rule in self.scenario.rules, f"{self.scenario.name} does not name {rule}"
        if self.version not in requirements()[rule].versions:
            return
        self._report.add(
            make_finding(
                rule,
                passed,
                "agent",
                *seen,
                expected=expected,
                got=got,
                where=self.scenario.name,
                authority=authority,
            )
        )

    async def expect_response(
        self, rule: str, client: ScenarioClient, call: Request, expected: str
    ) -> bool:
        """Wait for the response to a request; a missing response breaks the rule.

        Raise `LoginRequired` if the response requires a login.
        """
        try:
            await client.connection.wait_for_response(call)
        except NoResponse as silence:
            self.judge(rule, False, call, expected=expected, got=str(silence))
            return False
        if call.code == _LOGIN_NEEDED:
            raise LoginRequired("the agent requires a login")
        return True

    async def expect_error(
        self,
        rule: str,
        client: ScenarioClient,
        call: Request,
        codes: tuple[int, ...],
        *,
        why: str,
        authority: Authority | None = None,
        code_authority: Authority | None = None,
    ) -> None:
        """Judge that a request gets an error, with one of these codes if any are given.

        `authority` is given if the protocol does not demand it in this case, `code_authority` if it
        demands an error but none of these codes.
        """
        named = " or ".join(str(code) for code in codes) or "an error"
        expected = f"{named} for {why}"
        if await self.expect_response(rule, client, call, expected):
            passed = not call.ok and (not codes or call.code in codes)
            got = call.outcome
            authority = authority if call.ok else authority or code_authority
            self.judge(rule, passed, call, expected=expected, got=got, authority=authority)

    async def expect_success(
        self,
        rule: str,
        client: ScenarioClient,
        call: Request,
        *,
        why: str,
        authority: Authority | None = None,
    ) -> bool:
        """Judge that a request gets a result; return whether it did."""
        expected = f"a result for {why}"
        if not await self.expect_response(rule, client, call, expected):
            return False
        got = call.outcome
        self.judge(rule, call.ok, call, expected=expected, got=got, authority=authority)
        return call.ok
