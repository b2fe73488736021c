"""What the words of `accord inspect` mean: recordings, commands, addresses, classes."""

from __future__ import annotations

import os
import re
import shlex
import sys
from collections.abc import Callable
from pathlib import Path

from msgspec import Struct

from accord.transports.base import Transport, opened
from accord.transports.command_line import find_program
from accord.transports.process import process
from accord.transports.registry import RemoteOptions, is_url, transport_for_url
from accord_inspector.agent_inspection import AgentInspection, AgentOutput, AgentStarter
from accord_inspector.inspection import Inspection
from accord_inspector.recording_inspection import FolderInspection, RecordingInspection
from accord_inspector.tap_inspection import TapInspection
from accord_terminal.toolkit.agent_names import load_settings, named_agents
from accord_terminal.toolkit.options import own_path
from accord_trace.reading import TraceError, is_pipe, open_trace

_CLASS = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*")
# Runs a class, or an instance, in a process of its own.
_RUN_CLASS = (
    "import sys; from importlib import import_module; "
    "found = getattr(import_module(sys.argv[1]), sys.argv[2]); "
    "(found() if isinstance(found, type) else found).run()"
)


class LiveOptions(Struct, frozen=True, kw_only=True):
    """The options for an agent that runs."""

    output: Path | None = None
    redact: bool = True
    token: str | None = None
    tap: bool = False


class AgentTarget(Struct, frozen=True):
    """The command or the URL of an agent, and changes of its environment."""

    words: list[str]
    env: dict[str, str] = {}
    title: str = ""


def agent_target(target: str) -> AgentTarget | None:
    """Return the agent that a word names: a URL, `module:Class`, or a name; None for a path."""
    if is_url(target):
        return AgentTarget([target])
    if Path(target).exists():
        return None
    if _CLASS.fullmatch(target):
        module, _, name = target.partition(":")
        return AgentTarget([sys.executable, "-c", _RUN_CLASS, module, name], title=target)
    named = named_agents(load_settings()).get(target)
    return None if named is None else AgentTarget(list(named.argv), env=dict(named.entry.env))


def shown_target(target: str) -> Callable[[], Inspection]:
    """Return what shows a recording or a folder; raise `TraceError` if it cannot be read."""
    path = Path(target)
    if not path.exists():
        raise TraceError(
            f"{target} does not exist: expected a recording, a folder, the URL of an agent, or -- "
            "and a command"
        )
    if path.is_dir():
        folder = _recordings_of(path)
        return lambda: FolderInspection(folder)
    if is_pipe(path):
        raise TraceError(f"Expected a file or a folder, got the pipe {target}: save it as a file")
    next(iter(open_trace(path)), None)  # another file is an error now, not on the page
    return lambda: RecordingInspection(path)


def _recordings_of(folder: Path) -> Path:
    """Return the folder itself, or that of the recordings in the results of a fleet."""
    traces = folder / "traces"
    return traces if (folder / "run.json").is_file() and traces.is_dir() else folder


def live_inspection(agent: AgentTarget, options: LiveOptions) -> Callable[[], Inspection]:
    """Return what runs an agent; raise `StartError` or `ValueError` if it cannot be started."""
    words = agent.words
    url = words[0] if is_url(words[0]) else None
    if url is None:
        find_program(words[0], None, dict(os.environ))
    start = _command_starter(agent) if url is None else _url_starter(url, options)
    title = url or agent.title or shlex.join(words)
    output = None if options.output is None else own_path(options.output)
    if options.tap:
        if url is not None:
            raise ValueError("--tap is for commands: for a remote agent, use `accord bridge` in it")
        return lambda: TapInspection(
            words, env=agent.env, title=title, output=output, redact=options.redact
        )
    return lambda: AgentInspection(
        start, command=words, title=title, output=output, redact=options.redact
    )


def _command_starter(agent: AgentTarget) -> AgentStarter:
    async def start(output: AgentOutput) -> Transport:
        return process(
            *agent.words,
            env=agent.env,
            on_stderr=output.on_stderr,
            on_stdout_noise=output.on_noise,
            noise_limit=None,  # the page shows it
        )()

    return start


def _url_starter(url: str, options: LiveOptions) -> AgentStarter:
    factory = transport_for_url(url, RemoteOptions(token=options.token))

    async def start(_output: AgentOutput) -> Transport:
        return await opened(factory)

    return start
