"""The Claude Agent SDK: Claude Code as an agent, with your options, tools, hooks and subagents.

Each session has a process of Claude Code, which `claude_process` starts and ends. Conversations are
kept by Claude Code, under an id that the session remembers. `claude_turn` shows what it does.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from typing import Any, ClassVar, get_args

from accord import AvailableCommand, EmbeddedResource, ImageContent, ResourceLink, Session
from accord.types.session import StopReason
from accord_bridges.bridge import BridgedAgent, Options, log
from accord_bridges.editor import editor_tools
from accord_bridges.frameworks.claude_process import (
    ClaudeProcess,
    Conversation,
    ConversationLost,
    ProcessEnded,
    options_for,
    started,
)
from accord_bridges.frameworks.claude_turn import ClaudeTurn
from accord_bridges.run import Run

try:
    from claude_agent_sdk import (
        ClaudeAgentOptions,
        ClaudeSDKClient,
        ClaudeSDKError,
        PermissionMode,
        PermissionResultDeny,
        create_sdk_mcp_server,
        tool,
    )
except ImportError as error:
    raise ImportError(
        f"{error}; this bridge needs claude-agent-sdk 0.2.188:"
        " pip install 'claude-agent-sdk>=0.2.188'"
    ) from error

_MODES: tuple[str, ...] = get_args(PermissionMode)
_EDITOR = "editor"  # the name of the server of the editor's tools
_MCP_S = 30.0  # that the client's MCP servers have to start


class ClaudeAgent(BridgedAgent):
    """Claude Code with the options of the SDK, one process for each session."""

    prompt_capabilities = frozenset({"image", "resource"})
    mcp_transports = frozenset({"stdio", "http", "sse"})
    reports = frozenset({"tokens", "cost"})
    knows_settings: ClassVar[frozenset[str]] = frozenset({"client"})
    steering = True
    system_prompt = frozenset({"append", "override"})

    def __init__(self, target: Any, options: Options | None = None) -> None:
        super().__init__(target, options)
        is_client = isinstance(target, ClaudeSDKClient)
        self._given: ClaudeAgentOptions = target.options if is_client else target
        self._make: Callable[[ClaudeAgentOptions], ClaudeSDKClient] = self.options.settings.get(
            "client", type(target) if is_client else ClaudeSDKClient
        )
        unknown = [mode for mode in self.options.modes if mode not in _MODES]
        if unknown:
            raise TypeError(
                f"modes={{{unknown[0]!r}: …}}: expected permission modes of Claude Code:"
                f" {', '.join(_MODES)}"
            )

    def default_name(self) -> str:
        """Return the name of the agent if no other is given."""
        return "Claude"

    async def begin_session(self, session: Session) -> None:
        """Start Claude Code while the user writes the first prompt."""
        session.data["conversation"] = Conversation(session)
        session.data["starting"] = asyncio.Lock()
        session.data["warm"] = asyncio.create_task(
            self._warm_up(session), name="accord bridge: start of Claude Code"
        )

    async def end_session(self, session: Session) -> None:
        """End the start of Claude Code."""
        warm: asyncio.Task[None] = session.data["warm"]
        warm.cancel()
        await asyncio.wait([warm])

    async def _warm_up(self, session: Session) -> None:
        with suppress(Exception):  # the first prompt says why
            claude = await self._process(session)
            await session.set_commands(self._commands(claude))

    def _commands(self, claude: ClaudeProcess) -> list[AvailableCommand]:
        own = {command.name: command for command in self._own_commands()}
        for each in claude.info.get("commands", ()):
            name = each.get("name")
            if name and not name.startswith("_") and name not in own:
                about = " ".join(str(each.get("description") or name).split())
                own[name] = AvailableCommand(name, about, each.get("argumentHint") or None)
        return list(own.values())

    def _own_commands(self) -> list[AvailableCommand]:
        return [
            AvailableCommand(name, " ".join((run.__doc__ or f"Run {name}").split()))
            for name, run in self.options.commands.items()
        ]

    async def _process(self, session: Session) -> ClaudeProcess:
        """Return the process of a session; start it if it has ended, or has other servers."""
        async with session.data["starting"]:
            return await self._running(session)

    async def _running(self, session: Session) -> ClaudeProcess:
        conversation: Conversation = session.data["conversation"]
        servers = tuple(session.mcp_servers)
        while True:
            try:
                claude = await self.keep(session, "claude", lambda: self._started(session, servers))
            except ConversationLost:
                conversation.renew()
                await session.show_notice(
                    "Claude Code has not kept this conversation: it does not know what was said",
                    severity="warning",
                )
                continue
            if not claude.ended and claude.servers == servers:
                return claude
            conversation.cost += claude.cost
            await self.drop(session, "claude")

    def _started(self, session: Session, servers: object) -> Any:
        async def can_use_tool(name: str, arguments: dict[str, Any], context: Any) -> Any:
            turn = session.data["claude"].turn
            if turn is None:
                return PermissionResultDeny(message="No prompt is worked on: ask the user first")
            return await turn.permit(name, arguments, context)

        more: dict[str, Any] = {}
        if self.options.models:
            more["model"] = str(session.option("model"))
        if self.options.modes:
            more["permission_mode"] = str(session.option("mode"))
        if self.options.editor_tools:
            more["servers"] = {_EDITOR: _editor_server(session)}
        options = options_for(
            self._given, session, session.data["conversation"], can_use_tool, **more
        )

        @asynccontextmanager
        async def start() -> AsyncGenerator[ClaudeProcess, None]:
            async with started(self._make, options, servers) as claude:
                session.data["claude"] = claude
                yield claude

        return start()

    async def set_option(self, session: Session, option_id: str, value: str | bool) -> None:
        """Tell Claude Code at once, also while it works; a mode holds for what it does next."""
        claude: ClaudeProcess | None = session.data.get("claude")
        if claude is not None and not claude.ended and claude.turn is not None:
            await _settle(claude, {option_id: str(value)})

    async def answer(self, run: Run) -> StopReason | None:
        """Give Claude Code the prompt and show what it does."""
        if self.options.editor_tools:
            tools = {each.__name__: each for each in editor_tools(run)}
            run.session.data["editor"] = tools
            run.shown_elsewhere.update(f"mcp__{_EDITOR}__{name}" for name in tools)
        for can_repeat in (True, False):
            claude = await self._process(run.session)
            turn = ClaudeTurn(run, claude, self.options.modes)
            try:
                return await self._turn(run, claude, turn)
            except (ClaudeSDKError, ProcessEnded):
                claude.ended = True
                if turn.has_begun or not can_repeat:
                    raise
                log.info("! Claude Code has ended between two turns: it is started again")
        raise AssertionError("the second time returns or raises")

    async def _turn(self, run: Run, claude: ClaudeProcess, turn: ClaudeTurn) -> StopReason | None:
        conversation: Conversation = run.session.data["conversation"]
        try:
            await _settle(claude, {"model": run.model, "mode": run.mode})
            await self._check_servers(run, claude)
            return await turn.work(_prompt(run))
        finally:
            claude.turn = None
            if conversation.has_begun:
                await asyncio.shield(run.remember(conversation.remembered(claude.cost)))

    async def _check_servers(self, run: Run, claude: ClaudeProcess) -> None:
        """Wait for the client's MCP servers, and tell the user of those that do not start."""
        names = {server.name for server in run.session.mcp_servers}
        told: set[str] = run.session.data.setdefault("told", set())
        if not names - told:
            return
        found: list[Mapping[str, Any]] = []
        with suppress(TimeoutError):
            async with asyncio.timeout(_MCP_S):
                while True:
                    status = await claude.client.get_mcp_status()
                    found = [s for s in status["mcpServers"] if s["name"] in names - told]
                    if not any(each["status"] == "pending" for each in found):
                        break
                    await asyncio.sleep(0.05)  # Claude Code does not tell when it changes
        for each in found:
            told.add(each["name"])
            if each["status"] != "connected":
                await run.turn.show_notice(
                    f"The MCP server {each['name']} is not used",
                    severity="warning",
                    description=each.get("error") or each["status"],
                )


async def _settle(claude: ClaudeProcess, wanted: Mapping[str, str | None]) -> None:
    """Tell the process the model and the mode that the user has chosen, if they are others."""
    model, mode = wanted.get("model"), wanted.get("mode")
    if model is not None and model != claude.model:
        await claude.client.set_model(model)
        claude.model = model
    if mode is not None and mode != claude.mode:
        await claude.client.set_permission_mode(mode)  # type: ignore[arg-type]
        claude.mode = mode


def _prompt(run: Run) -> str | list[dict[str, Any]]:
    """Return the prompt as the API of the model has it; text alone may be a slash command."""
    if all(isinstance(part, str | ResourceLink) for part in run.content):
        return run.text
    blocks: list[dict[str, Any]] = []
    for part in run.content:
        match part:
            case ImageContent():
                blocks.append(_data("image", part.data, part.mime_type))
            case EmbeddedResource(uri=uri, content=bytes() as data, mime_type="application/pdf"):
                blocks += [_text(f"[{uri}]({uri})"), _data("document", data, "application/pdf")]
            case EmbeddedResource(uri=uri, content=str() as text):
                blocks.append(_text(f"[{uri}]({uri})\n\n{text}"))
            case EmbeddedResource(uri=uri, content=content):
                blocks.append(_text(f"[{uri}]({uri}), {len(content):,} bytes, not text"))
            case ResourceLink(uri=uri, name=name):
                blocks.append(_text(f"[{name}]({uri})"))
            case _:
                blocks.append(_text(str(part)))
    return blocks


def _text(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


def _data(kind: str, data: bytes, mime_type: str) -> dict[str, Any]:
    from base64 import b64encode

    source = {"type": "base64", "media_type": mime_type, "data": b64encode(data).decode()}
    return {"type": kind, "source": source}


def _editor_server(session: Session) -> Any:
    """Return a server in this process with the tools for the editor's files and terminals."""
    text, number = {"type": "string"}, {"type": "integer"}
    specs: dict[str, tuple[str, dict[str, Any], list[str]]] = {
        "read_file": (
            "Read a text file of the project, with the unsaved changes of the editor.",
            {"path": text, "line": number, "limit": number}, ["path"],
        ),
        "write_file": (
            "Write the whole text of a file of the project, if the user allows it.",
            {"path": text, "text": text}, ["path", "text"],
        ),
        "run_command": (
            "Run a command line of the shell in the project, if the user allows it.",
            {"command": text}, ["command"],
        ),
    }  # fmt: skip

    def made(name: str) -> Any:
        about, properties, required = specs[name]
        schema = {"type": "object", "properties": properties, "required": required}

        @tool(name, about, schema)
        async def call(arguments: dict[str, Any]) -> dict[str, Any]:
            work: Callable[..., Awaitable[str]] = session.data["editor"][name]
            return {"content": [_text(await work(**arguments))]}

        return call

    return create_sdk_mcp_server(_EDITOR, tools=[made(name) for name in specs])
