"""Records the agents that start here without an account: `make recordings`.

Each agent gets the same conversation, with a fake model: a text, a new file, a command, and a turn
that is cancelled. It is recorded in each setting of the client: files and terminals on, or off.
Paths, ports and names of this machine are replaced. The first line of a recording also has what
was found on the disk afterwards. A conversation that fails is listed in `failures.json`.

    python tests/recordings/record.py                          all agents that are installed
    python tests/recordings/record.py gemini-cli               one
    python tests/recordings/record.py gemini-cli --setting off

`tests/recordings/install_agents.sh` installs the agents, which are listed in `agents.py`.
"""

from __future__ import annotations

import argparse
import asyncio
import getpass
import json
import os
import re
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

import accord
from accord.errors import AccordError
from accord.text import lenient_json
from accord.transports.process import process
from accord.types.session import Implementation
from accord_trace import Recording
from accord_trace.records import Direction
from recordings.agents import (
    AGENTS,
    HERE,
    NODE,
    ROOT,
    SETTINGS,
    Known,
    Setting,
    recordings_of,
)
from recordings.fake_model import CONTENT

__all__ = ("FAILURES", "Place", "fake_model", "options_of", "write")

FAILURES = HERE / "failures.json"
# What agents mention in the descriptions of their tools and commands.
MACHINE_FOLDER = re.compile(r"(?<![\w.$}-])/(?:work|root|tmp|Users)/")
URL = re.compile(r"(\bhttps?://)(?!127\.0\.0\.1)[\w.-]+")
TURN_S = 60.0
CANCEL_AFTER_S = 20.0  # if the agent shows nothing
MAX_TEXT = 200  # characters of one string of an agent, to keep the recordings small


@dataclass
class Place:
    """The directories of one recording, and what hides them."""

    folder: Path
    model: str
    hidden: dict[str, str] = field(default_factory=dict)

    @property
    def home(self) -> Path:
        return self.folder / "home"

    @property
    def project(self) -> Path:
        return self.folder / "project"

    def prepare(self, agent: Known) -> None:
        self.project.mkdir(parents=True)
        subprocess.run(["git", "init", "--quiet", str(self.project)], check=True)
        if agent.has_link:
            (self.project / "notes.txt").write_text("first\nsecond\n")
        (self.home / "tmp").mkdir(parents=True)
        for name, text in agent.home_files.items():
            file = self.home / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(self.filled(text))
        real = {
            str(self.project): "/project",
            str(self.home): "/home/user",
            str(ROOT): "/opt/accord",
            str(ROOT.resolve()): "/opt/accord",
            os.path.realpath(sys.executable): "/usr/bin/python3",
            os.path.realpath(NODE): "/usr/bin/node",
            str(Path.home()): "/home/user",
            self.model.removeprefix("http://"): "127.0.0.1:8177",
            socket.gethostname(): "host",
        }
        dashed = {one.replace("/", "-"): new.replace("/", "-") for one, new in real.items()}
        pairs = [(one, new) for one, new in {**dashed, **real}.items() if len(one) > 4]
        # The longest first: a directory before its parents.
        self.hidden = dict(sorted(pairs, key=lambda pair: -len(pair[0])))

    def filled(self, text: str) -> str:
        text = text.replace("{model}", self.model).replace("{home}", str(self.home))
        return text.replace("{project}", str(self.project))

    def environment(self, agent: Known) -> dict[str, str | None]:
        """Return an environment without anything of this machine's user."""
        env: dict[str, str | None] = dict.fromkeys(os.environ)
        env |= {"PATH": os.environ["PATH"], "LANG": "C.UTF-8", "HOME": str(self.home)}
        env |= {"USER": "user", "LOGNAME": "user", "TMPDIR": str(self.home / "tmp")}
        if "PYTHONPYCACHEPREFIX" in os.environ:
            env["PYTHONPYCACHEPREFIX"] = os.environ["PYTHONPYCACHEPREFIX"]
        return env | {key: self.filled(value) for key, value in agent.env.items()}

    def hide(self, frame: bytes) -> bytes:
        """Return a frame without what is of this machine, and with long texts shortened."""
        text = frame.decode("utf-8", "surrogateescape")
        for real, shown in self.hidden.items():
            text = text.replace(real, shown)
        text = MACHINE_FOLDER.sub("/srv/", URL.sub(r"\1example.com", text))
        data = text.encode("utf-8", "surrogateescape")
        try:
            value = lenient_json.loads(data)
        except lenient_json.NotJson:
            return data
        short = shortened(value)
        return data if short == value else lenient_json.dumps(short)


def shortened(value: object) -> object:
    if isinstance(value, str) and len(value) > MAX_TEXT:
        return f"{value[:MAX_TEXT]}…"
    if isinstance(value, dict):
        return {key: shortened(item) for key, item in value.items()}
    return [shortened(item) for item in value] if isinstance(value, list) else value


@asynccontextmanager
async def fake_model(log: Path | None = None) -> AsyncGenerator[str, None]:
    """Run the fake model; return its URL. It notes its requests in `log`."""
    words = [str(HERE / "fake_model.py"), *([] if log is None else [str(log)])]
    model = await asyncio.create_subprocess_exec(
        sys.executable, *words, stdout=asyncio.subprocess.PIPE
    )
    try:
        assert model.stdout is not None
        yield (await model.stdout.readline()).decode().strip()
    finally:
        model.terminate()
        await model.wait()


async def converse(agent: accord.ConnectedAgent, known: Known, place: Place) -> None:
    servers = (
        [accord.McpServerStdio("notes", "/bin/true", (), {"A": "b"})] if known.has_link else []
    )
    session = await agent.new_session(place.project, mcp_servers=servers)
    if known.mode is not None:
        await session.set_mode(known.mode)
    for prompt in (*known.prompts, known.file_prompt, known.command_prompt):
        if prompt is None:
            continue
        link = accord.ResourceLink((place.project / "notes.txt").as_uri(), "notes.txt")
        text = place.filled(prompt)
        content = (text, link) if known.has_link else (text,)
        async with asyncio.timeout(TURN_S), session.prompt(*content) as turn:
            await turn.wait()
    if known.slow is None:
        return
    async with asyncio.timeout(TURN_S), session.prompt(known.slow) as turn:
        with suppress(TimeoutError):
            async with asyncio.timeout(CANCEL_AFTER_S):
                async for event in turn:
                    if isinstance(event, accord.Text | accord.ToolCall):
                        break
        await turn.cancel()
        await turn.wait()


def outcome_of(known: Known, place: Place) -> dict[str, bool | str]:
    """Return which of the tasks were done, by the disk, and why no turn was cancelled.

    A task that was not asked for is absent.
    """
    notes = place.project / "notes.txt"
    is_written = notes.is_file() and notes.read_text("utf-8").strip() == CONTENT.strip()
    done = {"file": is_written, "command": (place.project / "ran.txt").exists()}
    asked = {"file": known.file_prompt, "command": known.command_prompt}
    outcome: dict[str, bool | str] = {
        task: is_done for task, is_done in done.items() if asked[task] is not None
    }
    return outcome | ({"no_cancel": known.no_cancel} if known.no_cancel else {})


def reason_of(error: Exception) -> str:
    """Return what the page says of a conversation that failed."""
    late = f"a turn did not end within {TURN_S:g} s"
    return str(error) or (late if isinstance(error, TimeoutError) else type(error).__name__)


async def record(known: Known, setting: Setting, out: Path) -> None:
    """Record one agent in one setting; the file is complete, or not written."""
    frames: list[tuple[float, Direction, bytes]] = []
    began = time.perf_counter()

    def add(direction: Direction, frame: bytes | bytearray) -> None:
        frames.append((time.perf_counter() - began, direction, bytes(frame)))

    def noise(line: str) -> None:
        add("to_client", line.encode())

    with tempfile.TemporaryDirectory(prefix="accord-recording-") as folder:
        async with fake_model() as model:
            place = Place(Path(folder), model)
            place.prepare(known)
            start = process(
                *known.argv,
                cwd=place.project,
                env=place.environment(known),
                on_stdout_noise=noise,
            )
            async with accord.connect(
                start,
                versions=[known.version],
                permissions=lambda _: "allow",
                files="rw" if setting.files else None,
                terminals=setting.terminals,
                client_info=Implementation("recorder", "1.0"),
                observers=[
                    lambda way, frame: add("to_agent" if way == "sent" else "to_client", frame)
                ],
            ) as agent:
                await converse(agent, known, place)
            outcome = outcome_of(known, place)
    write(known, place, frames, out, outcome)


def write(
    known: Known,
    place: Place,
    frames: Sequence[tuple[float, Direction, bytes]],
    out: Path,
    outcome: Mapping[str, bool | str] | None = None,
) -> None:
    argv = [out.name.removesuffix(".acp.jsonl")]
    with tempfile.TemporaryDirectory() as folder:
        draft = Path(folder) / "draft.acp.jsonl"
        with Recording(draft, argv=argv) as recording:
            hop = recording.hop()
            for ts, direction, frame in frames:
                hop.frames(direction, [place.hide(frame)], ts=ts)
        lines = draft.read_bytes().splitlines(keepends=True)
    header = json.loads(lines[0])
    del header["versions"]["python"]
    if outcome is not None:
        header["outcome"] = outcome
    text = json.dumps(header, separators=(",", ":")).encode() + b"\n" + b"".join(lines[1:])
    for secret in (str(place.folder), str(ROOT), str(Path.home()), f"/home/{getpass.getuser()}"):
        if secret.encode() in text:
            raise ValueError(f"{known.name}: the recording contains {secret}")
    out.write_bytes(text)


def options_of(arguments: Sequence[str]) -> argparse.Namespace:
    """Return the options of a command line; exit for an unknown agent."""
    parser = argparse.ArgumentParser(description="Record agents with a fake model.")
    parser.add_argument("name", nargs="*", help="an agent of agents.py; all if none is named")
    parser.add_argument("--setting", choices=[one.name for one in SETTINGS])
    options = parser.parse_args(arguments)
    unknown = set(options.name) - {known.name for known in AGENTS}
    if unknown:
        parser.error(f"unknown agents: {', '.join(sorted(unknown))}")
    return options


def main(arguments: Sequence[str]) -> int:
    options = options_of(arguments)
    failures: dict[str, str] = json.loads(FAILURES.read_text("utf-8"))
    status = 0
    for known in AGENTS:
        if options.name and known.name not in options.name:
            continue
        if not known.is_installed:
            print(f"{known.name}: not installed")
            status |= bool(options.name)
            continue
        for name, setting in recordings_of(known).items():
            if options.setting not in (None, setting.name):
                continue
            out = HERE / f"{name}.acp.jsonl"
            failures.pop(name, None)
            try:
                asyncio.run(record(known, setting, out))
            except (AccordError, TimeoutError, ValueError) as error:
                failures[name] = reason_of(error)
                out.unlink(missing_ok=True)
                print(f"{name}: {failures[name]}")
                status = 1
                continue
            print(f"{name}: {out.stat().st_size / 1000:.0f} kB")
    text = json.dumps(dict(sorted(failures.items())), indent=2, ensure_ascii=False)
    FAILURES.write_text(text + "\n", "utf-8")
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
