"""The quirks of real programs that Accord tolerates: one table for client, agent and kit.

A row describes one deviation and the response to it. The code that tolerates it names the row, by
`QUIRKS["id"]` where it uses the data of the row, else by `tolerates("id")`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from typing import Literal, TypeAlias, TypeVar

from msgspec import Struct

T = TypeVar("T")

Where: TypeAlias = Literal["client", "agent", "both"]


class Quirk(Struct, frozen=True, kw_only=True):
    """A deviation of some programs, and how Accord handles it."""

    id: str
    by: Where  # the side that deviates
    versions: tuple[int, ...]  # of the protocol
    programs: tuple[str, ...]  # with their versions, if known
    does: str  # what the programs do
    response: str  # how Accord handles it
    evidence: str  # where it was observed
    concerns: tuple[str, ...]  # rules, methods and fields
    methods: Mapping[str, str] = {}  # early names of methods
    keys: Mapping[str, tuple[str, str]] = {}  # by method: an early key of its params, and its name
    codes: tuple[int, ...] = ()  # of errors
    # By the agent's name in `initialize`: the first version that no longer deviates, None if
    # no such version is known. Only for a deviation that the messages do not show.
    agents: Mapping[str, str | None] = {}


def tolerates(*ids: str) -> Callable[[T], T]:
    """Mark the code that implements rows of the table; raise `KeyError` for an unknown row."""
    for name in ids:
        QUIRKS[name]
    return lambda code: code


_EARLY = ("programs of early 2026 and before",)
_PYTHON_SDK = "PyPI agent-client-protocol 0.12.1 and 1.0.0rc3"
_FINDINGS = "conformance findings: "

_ROWS = (
    # The handshake.
    Quirk(
        id="false-v2",
        by="agent",
        versions=(2,),
        programs=("fast-agent 0.10.46", "gptme 0.35.1", f"{_PYTHON_SDK}, echo_agent.py"),
        does="answers `initialize` with version 2 and a body of version 1",
        response="continues in version 1; the kit reports R-INIT-06 and judges version 1",
        evidence=_FINDINGS + "False version 2",
        concerns=("R-INIT-06", "initialize"),
    ),
    Quirk(
        id="v2-refused-as-invalid",
        by="agent",
        versions=(1,),
        programs=("agents of version 1 that validate the params of `initialize`",),
        does="refuses the `initialize` of version 2 with the error -32602",
        response="requests version 1, in a new process if Accord starts the agent",
        evidence="runs against agents of version 1",
        concerns=("R-INIT-10", "initialize"),
    ),
    Quirk(
        id="version-refused-code",
        by="agent",
        versions=(1,),
        programs=_EARLY,
        does="refuses a version of the protocol with the error -32001",
        response="reads it as -32022",
        evidence="the protocol's early texts",
        concerns=("R-INIT-31", "initialize"),
        codes=(-32001,),
    ),
    # Early spellings of version 1.
    Quirk(
        id="early-methods",
        by="both",
        versions=(1,),
        programs=_EARLY,
        does="calls methods by early names",
        response="handles them as the current methods; never sends them",
        evidence="the protocol's early texts",
        concerns=("R-INIT-08",),
        methods={
            "fs/readTextFile": "fs/read_text_file",
            "fs/writeTextFile": "fs/write_text_file",
            "terminal/waitForExit": "terminal/wait_for_exit",
            "unstable_resumeSession": "session/resume",
        },
    ),
    Quirk(
        id="set-model",
        by="both",
        versions=(1,),
        programs=(
            "Codex adapter 2.6.0",
            "Gemini CLI 0.61.0",
            "Hermes 0.19.0",
            "Kimi Code CLI 1.5",
            "Qwen Code 0.24.4",
            "pi ACP adapter 0.0.34",
            *_EARLY,
        ),
        does="has `models` in the results of setup requests, and the method `session/set_model`",
        response="shows them as the option `model` and sets it with `session/set_model`, unless "
        "the agent has an option of the category `model`; an agent handles `session/set_model` as "
        "`session/set_config_option`; the kit does not report `models` as an unknown key",
        evidence="frames of the adapter; the protocol's early texts",
        concerns=("session/set_model", "models", "R-GEN-12"),
        methods={"session/set_model": "session/set_config_option"},
        keys={"session/set_model": ("modelId", "value")},
    ),
    Quirk(
        id="mode-without-category",
        by="agent",
        versions=(1,),
        programs=("not recorded",),
        does="sends `modes` and an option `mode` without a category",
        response="treats the option as the mode, and ignores `modes`",
        evidence="version 1 does not require a category of an option",
        concerns=("R-MODE-04", "configOptions", "modes"),
    ),
    Quirk(
        id="mode-key",
        by="client",
        versions=(1,),
        programs=_EARLY,
        does="names the mode `mode` in `session/set_mode`",
        response="reads it as `modeId`",
        evidence="the protocol's early texts",
        concerns=("session/set_mode",),
        keys={"session/set_mode": ("mode", "modeId")},
    ),
    Quirk(
        id="current-mode-key",
        by="agent",
        versions=(1,),
        programs=_EARLY,
        does="names the mode `modeId` in the update `current_mode_update`",
        response="reads it as `currentModeId`",
        evidence="an example in the protocol's pages of August 2025",
        concerns=("session/update", "current_mode_update"),
        keys={"session/update": ("modeId", "currentModeId")},
    ),
    Quirk(
        id="mcp-server-shapes",
        by="client",
        versions=(1,),
        programs=_EARLY,
        does="omits `args`, `env` or `headers` of an MCP server, or sends maps instead of lists",
        response="reads missing lists as empty, and maps as lists of names and values",
        evidence="the protocol's early texts",
        concerns=("R-MCP-12", "mcpServers"),
    ),
    Quirk(
        id="context-block",
        by="both",
        versions=(1,),
        programs=_EARLY,
        does='sends content of the type "context" with a resource',
        response="reads it as an embedded resource",
        evidence="the protocol's early texts",
        concerns=("session/prompt", "session/update"),
    ),
    Quirk(
        id="null-result",
        by="both",
        versions=(1, 2),
        programs=_EARLY,
        does="answers with null if the result has no required field",
        response="reads it as an empty result",
        evidence="examples in the protocol's pages",
        concerns=("R-GEN-10",),
    ),
    Quirk(
        id="null-beside-result",
        by="both",
        versions=(1, 2),
        programs=("programs that send every member of a response",),
        does="sends `error` as null together with a result, or `result` as null with an error",
        response="the kit treats the null member as absent",
        evidence="JSON-RPC libraries that serialize members without a value",
        concerns=("R-GEN-04",),
    ),
    # Sessions.
    Quirk(
        id="updates-before-session",
        by="agent",
        versions=(1, 2),
        programs=(
            "Claude adapter 0.100.0",
            "fast-agent 0.10.46",
            "gptme 0.35.1",
            "Copilot CLI 1.0.102",
            "Crow 0.1.48",
            "Mistral Vibe 3.0.2",
        ),
        does="sends updates of a session before the response to `session/new`, or outside turns",
        response="keeps them for the session, for at most 256 sessions that are not open",
        evidence="frames of these programs",
        concerns=("session/update", "session/new"),
    ),
    Quirk(
        id="replay-on-resume",
        by="agent",
        versions=(1,),
        programs=("fast-agent 0.10.46", "Hermes 0.19.0"),
        does="replays the conversation in `session/resume`",
        response="drops the replayed updates, as `load_session(replay=False)` requests",
        evidence=_FINDINGS + "fast-agent 0.10.46",
        concerns=("R-SESS-12", "session/resume"),
    ),
    Quirk(
        id="unknown-session-closed",
        by="agent",
        versions=(1, 2),
        programs=("dual-version-agent.js on npm @agentclientprotocol/sdk",),
        does="refuses to close or delete a session that it does not know",
        response="counts -32002 as success",
        evidence=_FINDINGS + "TypeScript SDK",
        concerns=("R-SESS-31", "R-SESS-32"),
    ),
    Quirk(
        id="options-not-returned",
        by="agent",
        versions=(1,),
        programs=_EARLY,
        does="does not return the list of options after one was set",
        response="assumes that only the option that was set has changed",
        evidence="agents that support only `session/set_model`",
        concerns=("session/set_config_option", "configOptions"),
    ),
    # Turns.
    Quirk(
        id="prompt-echoed",
        by="agent",
        versions=(1,),
        programs=("Mistral Vibe 3.0.2",),
        does="repeats the prompt as `user_message_chunk`",
        response="omits the repetition from events and transcript",
        evidence="version 1 does not define whether an agent repeats the prompt",
        concerns=("session/prompt", "user_message_chunk"),
    ),
    Quirk(
        id="unannounced-tool-call",
        by="agent",
        versions=(1,),
        programs=("Gemini CLI 0.61.0", "Hermes 0.19.0", "OpenHands 1.16.0"),
        does="announces a tool call only in the permission request, or in its first update",
        response="creates the tool call from that message",
        evidence=_FINDINGS + "Gemini CLI 0.61.0",
        concerns=("R-TOOL-01", "tool_call_update"),
    ),
    Quirk(
        id="error-after-cancel",
        by="agent",
        versions=(1,),
        programs=("Mistral Vibe 3.0.2",),
        does="answers the prompt of a closed session or of a cancelled turn with an error",
        response="ends the turn with the stop reason `cancelled`",
        evidence=_FINDINGS + "Mistral Vibe 3.0.2",
        concerns=("R-CANCEL-06",),
    ),
    Quirk(
        id="cancel-ignored",
        by="agent",
        versions=(1,),
        programs=("Bub 0.5.1 with bub-acp-server 0.1.1",),
        does="does not end a turn that is cancelled",
        response="fails the turn with `CancelTimeout` after 10 s, or the given time; the session "
        "can be used again",
        evidence="runs of `tests/recordings/record.py`, which cancel a turn of each agent",
        concerns=("R-CANCEL-05", "session/cancel"),
    ),
    Quirk(
        id="idle-without-reason",
        by="agent",
        versions=(2,),
        programs=("any: the schema allows agents to omit it",),
        does="ends its work with an idle state that has no `stopReason`",
        response="ends the turn with `end_turn`",
        evidence="the schema of version 2 has no default",
        concerns=("state_update", "stopReason"),
    ),
    Quirk(
        id="unknown-updates",
        by="agent",
        versions=(1,),
        programs=("Codex adapter 2.6.0", "other programs that use the unstable protocol"),
        does="sends updates that version 1 does not define",
        response="passes them to the caller unchanged as `UnknownUpdate`",
        evidence="the closed type of the schema; SDKs drop such updates",
        concerns=("session/update",),
    ),
    Quirk(
        id="shell-line",
        by="agent",
        versions=(1,),
        programs=("Kimi Code CLI 1.5", "several agents; three other clients run such lines"),
        does="sends `terminal/create` with a whole shell line as `command`, without `args`",
        response="runs the line in the user's shell if no program has that name; a permission "
        "requested for the line applies to it; Accord's agents never send such lines",
        evidence="the pages of version 1 describe a program and arguments; frames of the clients",
        concerns=("terminal/create", "command", "R-TERM-11"),
    ),
    # Files.
    Quirk(
        id="missing-file-code",
        by="client",
        versions=(1,),
        programs=("acpx 0.1.15",),
        does="answers the read of a missing file with the error -32603 and a text with `ENOENT`",
        response="recognizes a missing file by code, message or data, and tries the write",
        evidence="frames of acpx 0.1.15, which npm installs for Node 20",
        concerns=("fs/read_text_file", "R-FS-06"),
    ),
    Quirk(
        id="missing-file-fatal",
        by="agent",
        versions=(1,),
        programs=("Gemini CLI 0.61.0 and before",),
        does="reads a file before it writes it, and fails if the client answers the read with an "
        "error: it cannot create a file",
        response="answers the read of a missing file with an empty text, not with -32002, to every "
        "version of Gemini CLI: no version is known that recognizes an error",
        evidence="frames of Gemini CLI 0.61.0: `tool_call_update` with `failed` and the text "
        "`Error checking existing file: Resource not found`",
        concerns=("R-FS-06", "fs/read_text_file"),
        agents={"gemini-cli": None},
    ),
    # Processes.
    Quirk(
        id="noise-on-stdout",
        by="agent",
        versions=(1, 2),
        programs=("OpenCode", "gptme", "wrappers on npx"),
        does="writes lines to stdout that are not JSON, such as banners and warnings",
        response="passes them to `on_stdout_noise`; `accord ask` shows them on failure",
        evidence="issue reports of these programs",
        concerns=("R-STDIO-04",),
    ),
    Quirk(
        id="stays-after-stdin",
        by="agent",
        versions=(1, 2),
        programs=("Codex adapter 2.6.0", "Claude adapter 0.100.0", "Mistral Vibe 3.0.2"),
        does="keeps running after its stdin was closed",
        response="stops the process group with SIGTERM, then SIGKILL; the kit gives advice",
        evidence=_FINDINGS + "The end of the process",
        concerns=("stdio",),
    ),
)

QUIRKS: Mapping[str, Quirk] = {row.id: row for row in _ROWS}
# What agents call themselves in `initialize`, by the name in `programs`.
_NAMES = {
    "Bub": "bub",
    "Claude adapter": "@agentclientprotocol/claude-agent-acp",
    "Codex adapter": "@agentclientprotocol/codex-acp",
    "Copilot CLI": "Copilot",
    "Crow": "crow-cli",
    "Gemini CLI": "gemini-cli",
    "Hermes": "hermes-agent",
    "Kimi Code CLI": "Kimi Code CLI",
    "Mistral Vibe": "@mistralai/mistral-vibe",
    "OpenCode": "OpenCode",
    "OpenHands": "OpenHands CLI ACP Agent",
    "Qwen Code": "qwen-code",
    "fast-agent": "fast-agent-acp",
    "gptme": "gptme",
    "pi ACP adapter": "pi-acp",
}


def has_quirk(quirk: str, agent: str, version: str) -> bool:
    """Return whether a row names an agent in its `agents`, in this version of the agent.

    A version that is not a number such as `0.61.0` counts as one that deviates.
    """
    agents = QUIRKS[quirk].agents
    if agent not in agents:
        return False
    repaired = agents[agent]
    return repaired is None or _numbers(version) < _numbers(repaired)


def _numbers(version: str) -> tuple[int, ...]:
    """Return the numbers at the start of a version; `0.61.0-nightly.1` is 0.61.0."""
    found = re.match(r"v?(\d+(?:\.\d+)*)", version)
    return tuple(map(int, found[1].split("."))) if found else ()


def quirks_of(agent: str, seen: Collection[str] = ()) -> list[Quirk]:
    """Return the rows that name an agent, by its name in `initialize`, and those of `seen`."""
    programs = tuple(name for name, own in _NAMES.items() if own == agent)
    return [
        row
        for row in QUIRKS.values()
        if row.id in seen or (programs and any(each.startswith(programs) for each in row.programs))
    ]
