"""`accord session prompt`, and `accord ask -s NAME`: send a prompt and show its turn."""

from __future__ import annotations

import asyncio
import atexit
import gc
import json
import socket
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from msgspec import ValidationError, convert
from msgspec.structs import replace

from accord.errors import (
    AccordError,
    AuthRequired,
    ConnectionClosed,
    ConnectionLost,
    RequestCancelled,
    RequestError,
)
from accord.transports.base import Transport, TransportFactory
from accord.transports.process import LastLines
from accord.transports.stdio import PipeTransport
from accord_terminal.ask.options import CANCELLED, AskOptions, Statuses, read_prompt, retries_option
from accord_terminal.ask.run import AskProgram
from accord_terminal.ask.views import write_stderr
from accord_terminal.sessions.cli.options import (
    agent_option,
    approval_options,
    cwd_option,
    name_option,
    shows_wait,
)
from accord_terminal.sessions.journal import OthersAnswers
from accord_terminal.sessions.named import CALL, find_or_create, joined_session, lost_text
from accord_terminal.sessions.owners import reach_owner, transport_to
from accord_terminal.sessions.records import (
    FAILED,
    PERMISSION_DENIED,
    TIME_LIMIT,
    LoginRequired,
    OwnerError,
    Record,
    SessionsError,
    Store,
    existing_session,
    login_words,
    offer_login,
)

if TYPE_CHECKING:
    from accord.client.connect import ConnectedAgent
    from accord.client.handlers import Extension

# Lets `accord ask` talk to a persistent session: `-s NAME`, and `accord session prompt`.

_OUTPUT_S = 2.0  # for the owner to report the end of a failed turn


class _OwnerTransport(PipeTransport):
    """Talks to the owner; the error of a turn gets what the agent wrote.

    In version 1 the data of the error has it. In version 2 the error is the agent's own update,
    and the entry with the end of the turn follows.
    """

    def __init__(self, connected: socket.socket, protocol: int | None) -> None:
        fd = connected.detach()
        super().__init__(fd, fd)
        self._waits = protocol == 2
        self._has_started = False
        self._has_ended = asyncio.Event()
        self._written = LastLines()

    def receive_entry(self, entry: Mapping[str, Any]) -> None:
        """Take notice of an entry of the journal."""
        match entry.get("kind"):
            case "started":
                self._has_started = True
                self._has_ended.clear()
                self._written = LastLines()
            case "ended":
                self._written = LastLines(tuple(entry.get("stderr", ())))
                self._has_ended.set()
            case _:
                pass

    async def explain(self, error: BaseException) -> None:
        if not self._has_started or not isinstance(error, RequestError):
            return
        if self._waits:
            with suppress(TimeoutError):
                async with asyncio.timeout(_OUTPUT_S):
                    await self._has_ended.wait()
        written = self._written
        if not self._waits:
            with suppress(ValidationError):  # the error has other data
                written = convert(error.data, LastLines)
        if LastLines.of(error) != written:  # an error can be explained twice
            written.add_to(error)


class Held:
    """A persistent session as `accord ask` uses it; see `HeldSession`."""

    def __init__(
        self,
        name: str | None,
        cwd: Path,
        agent: str | None,
        *,
        create: bool,
        attached: bool = False,
    ) -> None:
        self._name = name
        self._cwd = cwd
        self._agent = agent
        self._create = create
        self._attached = attached
        self._interactive = False  # a user can be asked
        self._record: Record | None = None
        self._transport: _OwnerTransport | None = None
        self._options: AskOptions | None = None

    async def reach(self, options: AskOptions) -> tuple[AskOptions, TransportFactory]:
        """Find or start the owner of the session."""
        store = Store()
        record = find_or_create(store, self._name, self._cwd, self._agent, create=self._create)
        self._record = record
        async with shows_wait(record, options.program, quiet=options.quiet):
            reached = await reach_owner(record, store)
            opened = self._transport = _OwnerTransport(reached, store.read(record.id).protocol)
        self._record = record = store.read(record.id)
        self._options = replace(
            options,
            argv=(record.agent,),
            protocol=record.protocol,
            session_id=record.id,
            cwd=Path(record.cwd),
        )

        def transport() -> Transport:
            return opened

        return self._options, transport

    def extensions(self, show: Callable[[str], None]) -> Mapping[str, Extension]:
        """Serve the entries of the journal: what others have answered is shown."""

        def shown(line: str) -> None:
            (show if self._interactive else self._warn)(line)

        answers = OthersAnswers(self._own_name, shown)

        def entry(params: Mapping[str, Any]) -> None:
            assert self._transport is not None
            self._transport.receive_entry(params["entry"])
            answers(params)

        return {f"{CALL}entry": entry}

    def _own_name(self) -> str:
        assert self._options is not None
        return self._options.program

    async def connected(self, agent: ConnectedAgent, interactive: bool) -> None:
        """Say what this client wants, and report what the user has to know."""
        assert self._options is not None
        self._interactive = interactive
        options = self._options
        settings: dict[str, Any] = {
            "name": self._own_name(),
            "follows": "own",
            "decides": interactive,
            "attached": self._attached,
            "entries": True,
        }
        if options.yes or options.allow_rules or options.deny_rules:
            settings["approvals"] = {
                "allow": options.allow_rules,
                "deny": options.deny_rules,
                "yes": options.yes,
            }
        status = await agent.call_extension(f"{CALL}client", settings)
        if status["contextLost"]:
            self._warn("the agent could not restore the conversation: its context is new")
        if before := len(status["queue"]):
            self._warn(f"waiting for {before} prompt{'s' if before > 1 else ''} of this session")

    def _warn(self, message: str) -> None:
        assert self._options is not None
        if not self._options.quiet:
            write_stderr([f"{self._options.program}: {message}"])

    def explain(self, error: AccordError | OSError) -> AccordError | OSError:
        """Say that the owner has ended, if that is why the connection has, or needs a login."""
        if isinstance(error, AuthRequired):
            return LoginRequired(error.text)
        if self._record is not None and isinstance(error, ConnectionLost | ConnectionClosed):
            return OwnerError(lost_text(self._record))
        return error

    def offers_login(self, error: AccordError | OSError) -> bool:
        """Log in to the agent, if that is what is missing and the user wants to."""
        if self._record is None or not isinstance(error, LoginRequired):
            return False
        return offer_login(error, login_words(self._record), self._record.cwd)

    def exit_status(self, error: AccordError | OSError) -> int:
        """Return the exit status for an error."""
        if isinstance(error, RequestCancelled):
            return CANCELLED  # the prompt was withdrawn from the queue
        return error.status if isinstance(error, SessionsError) else FAILED


def held_session(name: str, cwd: Path, agent: str | None) -> Held:
    """Return the session of `accord ask -s NAME`, which is created if there is none."""
    return Held(name, cwd, agent, create=True)


STATUSES = Statuses(
    timeout=TIME_LIMIT, rejected=PERMISSION_DENIED, stopped_early=FAILED, refused=FAILED
)


@click.command("prompt")
@click.argument("words", nargs=-1, metavar="PROMPT…")
@name_option
@agent_option
@cwd_option
@click.option("--file", "-f", "source", metavar="FILE", help="Read the prompt from a file, or `-`.")
@click.option("--no-wait", is_flag=True, help="Queue the prompt and return.")
@click.option("--attached", is_flag=True, help="Cancel the prompt if this command is killed.")
@click.option("--model", metavar="NAME", help="Set the model first.")
@click.option("--mode", metavar="NAME", help="Set the mode first.")
@approval_options
@click.option(
    "--timeout",
    "timeout_s",
    metavar="SECONDS",
    type=click.FloatRange(min=0, min_open=True),
    help="Cancel the turn after this time, with exit status 3.",
)
@retries_option
@click.option("--thoughts", is_flag=True, help="Show the agent's thoughts.")
@click.option("--quiet", is_flag=True, help="Print only the answer; ask no questions.")
@click.option("--json", "as_json", is_flag=True, help="Print events as JSON lines.")
def prompt_command(**given: Any) -> int:
    """Send a prompt to a session and show its turn.

    Prompts of a session run one after another, in the order in which they were submitted. Ctrl-C
    cancels; a command that is killed leaves its prompt in the queue, unless --attached.

    Exit status: 0 turn completed, 1 error, 3 time limit, 4 no session, 5 permission denied
    without asking you, 130 cancelled.
    """
    # When it exits, Python would collect garbage again and again: an eighth of the whole command,
    # in which no code of users runs that could wait for it.
    atexit.register(gc.freeze)
    if given["quiet"] and given["as_json"]:
        raise click.UsageError("--quiet and --json exclude each other")
    if given["no_wait"] and given["retries"]:
        raise click.UsageError("--no-wait and --retries exclude each other")
    text = read_prompt(given["words"], given["source"])
    options = AskOptions(
        prompt=text,
        argv=("agent",),
        cwd=given["cwd"].absolute(),
        allow_rules=given["allow_rules"],
        deny_rules=given["deny_rules"],
        yes=given["yes"],
        model=given["model"],
        mode=given["mode"],
        timeout_s=given["timeout_s"],
        retries=given["retries"],
        as_json=given["as_json"],
        quiet=given["quiet"],
        thoughts=given["thoughts"],
        program="accord session prompt",
        statuses=STATUSES,
    )
    if given["no_wait"]:
        return asyncio.run(_submit(options, given["name"], given["agent"]))
    held = Held(
        given["name"], given["cwd"], given["agent"], create=False, attached=given["attached"]
    )
    return AskProgram(options, held).run()


async def _submit(options: AskOptions, name: str | None, agent: str | None) -> int:
    store = Store()
    record = existing_session(store, name, options.cwd, agent)
    async with shows_wait(record, options.program, quiet=options.quiet):
        opened = await transport_to(record, store)
    async with joined_session(store.read(record.id), opened) as shared:
        prompt_id = await shared.submit(options.prompt)
    if options.as_json:
        click.echo(json.dumps({"promptId": prompt_id, "sessionId": shared.record.id}))
    else:
        click.echo(f"queued {prompt_id}")
    return 0
