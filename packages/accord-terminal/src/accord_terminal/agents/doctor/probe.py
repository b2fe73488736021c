"""Starts one agent, asks what it is and whether it wants a login, and stops it; time is bounded."""

from __future__ import annotations

import asyncio
import re
import tempfile
import time
from collections import deque
from typing import Any

import msgspec
from msgspec import Struct

from accord.client.connect import ConnectedAgent, connect
from accord.errors import AccordError, AuthRequired, RequestError
from accord.rules.quirks import quirks_of, tolerates
from accord.text.secrets import redacted_argv, redacted_text
from accord.transports.process import process
from accord.transports.registry import is_url
from accord_terminal.toolkit.agent_names import NamedAgent
from accord_terminal.toolkit.safe_text import one_line

_STOP_TIMES_S = (0.5, 0.5, 1.0)
_MAX_LINES = 5
_REASON = re.compile(r"^\w*(?:Error|Exception)\b.*:")
_OFFERED = (
    "load_session",
    "resume_session",
    "list_sessions",
    "fork_session",
    "close_session",
    "delete_session",
    "logout",
)
_CONTENT = ("image", "audio", "resource")


class Login(Struct, frozen=True):
    """A login that the agent offers."""

    id: str
    name: str
    terminal: bool


class FoundQuirk(Struct, frozen=True):
    """A row of the table of quirks: known of this agent, or seen now."""

    id: str
    does: str
    response: str
    seen: bool


class Probe(Struct, kw_only=True):
    """What is known of an agent. `error` says why it does not work."""

    name: str
    source: str
    command: list[str]
    error: str | None = None
    title: str = ""  # as the agent calls itself
    info_name: str = ""
    version: str = ""
    protocol: int | None = None
    initialize_s: float | None = None  # from the start of the process to its answer
    session_s: float | None = None  # from the request to the answer of `session/new`
    login: str | None = None  # "required", or "not required" (or already logged in)
    logins: list[Login] = []
    offers: list[str] = []
    capabilities: Any = None
    noise: list[str] = []  # lines on stdout that are not JSON
    stderr: list[str] = []
    quirks: list[FoundQuirk] = []

    @property
    def works(self) -> bool:
        """Whether it can be used, perhaps after a login."""
        return self.error is None


async def probe(agent: NamedAgent, limit_s: float) -> Probe:
    """Return what an agent says within the time limit; never raises for what agents do."""
    found = Probe(name=agent.name, source=agent.source, command=redacted_argv(agent.argv))
    noise: deque[str] = deque(maxlen=_MAX_LINES)
    stderr: deque[str] = deque(maxlen=50)
    limit = asyncio.timeout(limit_s)
    try:
        async with limit:
            await _ask(agent, found, limit_s, noise, stderr)
    except TimeoutError:
        if not limit.expired():
            found.error = "it did not respond in time"
        elif found.initialize_s is None:
            found.error = f"it did not respond to `initialize` within {limit_s:g} s"
        else:
            found.error = f"it did not respond to `session/new` within {limit_s:g} s"
    except (AccordError, OSError, ValueError) as error:
        found.error = one_line(redacted_text(str(error)), 500)
    found.noise = [one_line(redacted_text(line), 200) for line in noise]
    said = [one_line(redacted_text(line), 200) for line in stderr if line.strip()]
    found.stderr = said[-_MAX_LINES:]
    reasons = [line for line in said if _REASON.search(line)]
    failed = found.error is not None and found.initialize_s is None
    # The last line, which is in the error already, is often the version of node.
    if failed and reasons and reasons[-1] not in (found.error or ""):
        found.error = f"{found.error}; {reasons[-1]}"
    _add_quirks(found)
    return found


async def _ask(
    agent: NamedAgent, found: Probe, limit_s: float, noise: deque[str], stderr: deque[str]
) -> None:
    begun = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="accord-doctor-", ignore_cleanup_errors=True) as folder:
        command = (
            agent.argv[0]
            if is_url(agent.argv[0])
            else process(
                *agent.argv,
                cwd=folder,
                env=agent.entry.env,
                on_stdout_noise=noise.append,
                on_stderr=stderr.append,
                stop_times_s=_STOP_TIMES_S,
            )
        )
        versions = (1, 2) if agent.entry.protocol is None else (agent.entry.protocol,)
        async with connect(
            command, versions=versions, terminal_login=True, initialize_timeout_s=limit_s
        ) as connected:
            found.initialize_s = round(time.monotonic() - begun, 3)
            _describe(found, connected)
            begun = time.monotonic()
            try:
                session = await connected.new_session(folder)
            except AuthRequired:
                found.login = "required"
            except RequestError as error:
                found.login = "unknown"
                found.error = f"it rejected `session/new`: {one_line(str(error), 300)}"
            else:
                found.login = "not required"
                found.session_s = round(time.monotonic() - begun, 3)
                if connected.supports("delete_session"):
                    await connected.delete_session(session.id)


def _describe(found: Probe, connected: ConnectedAgent) -> None:
    """Note what the answer to `initialize` says."""
    info = connected.info
    found.info_name = one_line(info.name, 80)
    found.title = one_line(info.title or info.name, 80)
    found.version = one_line(info.version or "", 40)
    found.protocol = connected.version
    found.logins = [
        Login(one_line(method.id, 60), one_line(method.name, 80), method.terminal)
        for method in connected.auth_methods
    ]
    found.offers = [name for name in _OFFERED if connected.supports(name)]
    found.offers += [kind for kind in _CONTENT if connected.supports_content(kind)]
    said = msgspec.to_builtins(connected.remote.initialized)
    found.capabilities = said.get("agentCapabilities", said.get("capabilities"))


@tolerates("noise-on-stdout")
def _add_quirks(found: Probe) -> None:
    seen = {"noise-on-stdout"} if found.noise else set[str]()
    found.quirks = [
        FoundQuirk(row.id, row.does, row.response, row.id in seen)
        for row in quirks_of(found.info_name, seen)
    ]
