"""Opens the session of `accord ask`, new or stored, and sets its model, mode and options."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from accord.errors import NotOffered, ResourceNotFound
from accord.types.session import SelectOption
from accord_terminal.toolkit.latest_session import remember_session, remembered_session
from accord_terminal.toolkit.safe_text import one_line

if TYPE_CHECKING:
    from accord.client.agent_adapter import SessionInfo
    from accord.client.connect import ConnectedAgent
    from accord.client.session import ClientSession
    from accord.types.mcp import McpServer
    from accord.types.session import SessionOption

__all__ = ("apply_session_options", "open_session", "option_of")

_ON = {"true": True, "on": True, "yes": True, "1": True}
_OFF = {"false": False, "off": False, "no": False, "0": False}
# For an agent that has only the demonstration model.
_NEEDS_KEY = (
    "; other models need the API key of their provider, such as OPENAI_API_KEY, "
    "in the agent's environment"
)


async def open_session(
    agent: ConnectedAgent,
    cwd: Path,
    *,
    session_id: str | None,
    latest: bool,
    mcp_servers: Sequence[McpServer] = (),
    meta: dict[str, Any] | None = None,
) -> ClientSession:
    """Open the session with this id, the latest one of the directory, or a new one."""
    if latest:
        session_id = await _latest_session_id(agent, cwd)
    if session_id is None:
        session = await agent.new_session(cwd, mcp_servers=mcp_servers, meta=meta)
    else:
        session = await _load_session(agent, cwd, session_id, mcp_servers, meta)
    remember_session(agent, cwd, session.id)
    return session


async def _latest_session_id(agent: ConnectedAgent, cwd: Path) -> str:
    if agent.supports("list_sessions"):
        sessions = [session async for session in agent.list_sessions(cwd)]
        if not sessions:
            raise click.UsageError(f"The agent has no session to continue in {cwd}")
        return max(sessions, key=_updated_at).id
    if not (agent.supports("load_session") or agent.supports("resume_session")):
        raise click.UsageError("The agent does not support stored sessions")
    session_id = remembered_session(agent, cwd)
    if session_id is None:
        raise click.UsageError(
            f"The agent cannot list its sessions, and no session was opened in {cwd} before: use "
            "--session ID"
        )
    return session_id


async def _load_session(
    agent: ConnectedAgent,
    cwd: Path,
    session_id: str,
    mcp_servers: Sequence[McpServer],
    meta: dict[str, Any] | None,
) -> ClientSession:
    try:
        return await agent.load_session(
            session_id, cwd, mcp_servers=mcp_servers, meta=meta, replay=False
        )
    except NotOffered:
        raise click.UsageError("The agent does not support stored sessions") from None
    except ResourceNotFound as exc:
        raise ResourceNotFound(f"The agent has no session {session_id!r}") from exc


async def apply_session_options(
    session: ClientSession, *, model: str | None, mode: str | None, options: Sequence[str]
) -> None:
    """Set the model, the mode and other options of a session.

    For an unknown option or value, raises `click.UsageError` that lists the valid ones.
    """
    if model is not None:
        option = option_of(session.transcript.options, "model")
        if option is None:
            raise click.UsageError("--model: the agent has no option for the model")
        await _set_option(session, option, model, "--model")
    if mode is not None:
        option = session.transcript.mode_option
        if option is None:
            raise click.UsageError("--mode: the agent has no modes")
        await _set_option(session, option, mode, "--mode")
    for assignment in options:
        name, _, value = assignment.partition("=")
        known = {option.id: option for option in session.transcript.options}
        if name not in known:
            raise click.UsageError(
                f"--option: expected one of {_join_names(known)}, got {name!r}"
                if known
                else "--option: the agent has no options"
            )
        await _set_option(session, known[name], value, f"--option {name}")


async def _set_option(
    session: ClientSession, option: SessionOption, given: str, where: str
) -> None:
    value: str | bool = given
    if isinstance(option, SelectOption):
        choices = {choice.value for choice in option.choices}
        if given not in choices:  # a name is accepted too, if it is unambiguous
            named = [choice.value for choice in option.choices if choice.name == given]
            if len(named) != 1:
                raise click.UsageError(
                    f"{where}: expected one of {_join_names(choices)}, got {given!r}"
                    + (_NEEDS_KEY if choices == {"demo"} else "")
                )
            value = named[0]
    else:
        switched = (_ON | _OFF).get(given.lower())
        if switched is None:
            raise click.UsageError(f"{where}: expected on or off, got {given!r}")
        value = switched
    if value != option.value:
        await session.set_option(option.id, value)


def option_of(options: Sequence[SessionOption], category: str) -> SessionOption | None:
    """Return the option of a category, else the one whose id is that of the category."""
    for name in ("category", "id"):
        for option in options:
            if getattr(option, name) == category:
                return option
    return None


def _join_names(names: Iterable[str]) -> str:
    return ", ".join(map(one_line, sorted(names)))


def _updated_at(session: SessionInfo) -> float:
    """Return when a session last changed; an unknown time counts as the earliest."""
    try:
        time = datetime.fromisoformat(session.updated_at or "")
    except ValueError:
        return float("-inf")
    return (time if time.tzinfo else time.replace(tzinfo=UTC)).timestamp()
