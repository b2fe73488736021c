"""Writes the pages of the reference that are read off the code: `make reference`."""

from __future__ import annotations

import inspect
import io
import json
import os
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import redirect_stdout
from pathlib import Path
from textwrap import wrap
from types import ModuleType
from typing import Annotated, Any, get_args, get_origin
from unittest.mock import patch

from msgspec import Struct

from accord.client import events
from accord.program import main as accord_program
from accord.rules.quirks import QUIRKS, Quirk
from accord.script_agent.registry import COMMANDS as SCRIPT_COMMANDS
from accord.types import content, permission, session, tool_calls
from accord.v1 import methods as v1_methods
from accord.v2 import methods as v2_methods
from accord.wire.base import Members
from accord.wire.protocol import Method
from accord_coder.models.demo import table as demo_table
from accord_terminal.ask.views import event_name

METHODS_PAGE = Path(__file__).parent / "reference" / "methods.md"
SCRIPT_PAGE = Path(__file__).parent / "reference" / "script-agent.md"
DEMO_PAGE = Path(__file__).parent / "reference" / "demo-model.md"
COMMANDS_PAGE = Path(__file__).parent / "reference" / "commands.md"
QUIRKS_PAGE = Path(__file__).parent / "reference" / "compatibility.md"
RUNS = QUIRKS_PAGE.with_suffix(".json")
CHATS = QUIRKS_PAGE.with_name("compatibility-chat.json")
STEERINGS = QUIRKS_PAGE.with_name("compatibility-steering.json")
EVENTS_PAGE = Path(__file__).parent / "reference" / "ask-json.md"
COMMANDS = (
    ["accord"],
    ["accord", "ask"],
    ["accord", "chat"],
    ["accord", "agents"],
    ["accord", "compare"],
    ["accord", "session"],
    ["accord", "session", "new"],
    ["accord", "session", "prompt"],
    ["accord", "session", "steer"],
    ["accord", "session", "watch"],
    *(
        ["accord", "agents", name]
        for name in ("install", "list", "login", "remove", "run", "search", "show", "update")
    ),
    ["accord", "bridge"],
    ["accord", "doctor"],
    ["accord", "gateway"],
    ["accord", "install"],
    ["accord", "run"],
    ["accord", "serve"],
    ["accord", "web"],
    ["accord", "web", "pair"],
    ["accord", "web", "devices", "list"],
    ["accord", "web", "devices", "revoke"],
    ["accord", "trace"],
    ["accord", "trace", "record"],
    ["accord", "trace", "tap"],
    ["accord", "trace", "show"],
    ["accord", "trace", "replay"],
    ["accord", "trace", "export"],
    ["accord", "trace", "diff"],
    ["accord", "trace", "stats"],
    ["accord", "check"],
    ["accord", "check", "rules"],
    ["accord", "check", "trace"],
    ["accord", "check", "agent"],
    ["accord", "check", "init"],
    ["accord", "check", "client"],
    ["accord", "check", "proxy"],
    ["accord", "check", "conductor"],
    ["accord", "agent"],
    ["accord.schema"],
)

INTRO = """\
# Methods

<!-- Written by docs/generate.py from the method tables; `make reference` does it again. -->

Every method of both protocol versions, with its name in Python and the types of its params and
result. *Served by* names the side that handles it; *Gate* names the capability that it needs.
If the peer does not advertise that capability, a call raises `NotOffered` and nothing is sent.
If this side does not advertise it, a request of the peer is answered with -32601.

A method without a result is a notification.
Unstable methods are sent only by programs that call or override them.
"""


QUIRKS_INTRO = """\
# Compatibility

<!-- Written by docs/generate.py from the table of quirks, from compatibility.json, which
tests/recordings/compatibility.py writes, from compatibility-chat.json, which
tests/recordings/use_chat.py writes, and from compatibility-steering.json, which
tests/recordings/steer_agents.py writes; `make reference` does it again. -->

Real programs deviate from the protocol. This page has the programs that were run with Accord, and
the deviations that Accord tolerates, with its response to each.

## Programs that were run

`make recordings` runs every agent and client that starts without an account, with a model that is
not a language model, and records the messages. Each row below was read from such a recording in
`tests/recordings`, and `compatibility.json` in the folder of this page has the same data. A dash
says that the run did not show it; the agent may do it in other turns. The rows of the SDKs are test
programs on them. `accord doctor` shows what is known of the agents on your machine.

A row holds for one **setting** of the client. In version 1, *on* is `files="rw"` and
`terminals=True`, and *off* is neither; version 2 has neither files nor terminals. There are no
rows for one of the two alone, because most agents use neither or only one, as *Requests* says.
Both are used by {both}.

This repeats the row of an agent whose recording is called `gemini-cli.off`:

<!-- skip: needs the agents -->
```console
$ sh tests/recordings/install_agents.sh
$ .venv/bin/python tests/recordings/record.py gemini-cli --setting off
```

Each agent was asked for a new file and for a command. *New file* and *Command* say who did it, by
what was on the disk afterwards: the *client*, at the agent's request (`fs/write_text_file`,
`terminal/create`), or the *agent* itself. *Failed* says that it was not done, with the agent's
words, and *no tool* that the agent has no tool for it. *Requests* are the methods that the agent
calls, other than permission requests; *refused* are those that the client does not serve.
A tool call is *left open* if its turn ended and the agent never sent its final status.
"""


NOT_RECORDED = """\
## Agents that were not recorded

These were tried in the same way, and did not get through.
"""


QUIRKS_CHATS = """\
## In `accord chat`

`make recordings` also uses each agent in [`accord chat`](../how-to/chat.md): the real program, in
a terminal of 80 × 24, with nothing but keys. The agent answers a prompt. Then it changes a file in
two places with its own tools; `y` allows that, F4 shows the change, and `x` rejects the first hunk.
Esc cancels a long turn, and another prompt follows. Ctrl+Q ends the program, and at its next start
the session has to be back. `compatibility-chat.json` has the same data, and the times.

*Rejected* is "yes" if the file on the disk then had the old text of the first hunk, and the new
text of the second one; *failed* has the reason. *Cancel* is the stop reason of the cancelled turn,
and failed if that is not `cancelled`; "continues" says that the next prompt was answered. *Resume*
is the method that opened the session again, "shown" says that the conversation was on the screen,
and "remembers" that the agent still sent it to its model.
"""


QUIRKS_STEERINGS = """\
## Steering

`tests/recordings/steer_agents.py` [steers](../how-to/steer.md) each agent with Accord's client and
the same model: during a long answer, during a tool call (of agents that can be steered), and with
`fallback="cancel"` during another long answer. A prompt follows, to see that nothing is run again.
`compatibility-steering.json` has the same data.

*injected* is the agent's own steering: the message is in the next request to the model, and the
answer was cut. *queued* is a prompt after the answer, which the client or the agent
held. *cut* is a prompt after the cancelled turn, which tells the agent that it was cut. In each row
without "failed", the model had the message once, and it was answered before the turn ended.
"""


QUIRKS_DEVIATIONS = """\
## Deviations

The table is data, in `accord.rules.quirks`; client, agent and conformance kit use the same rows.
Accord itself deviates in one of these ways only: it sends `session/set_model` to agents that know
nothing else.
"""


COMMANDS_INTRO = """\
# Commands

<!-- Written by docs/generate.py from the programs' own help; `make reference` does it again. -->

`accord ask`, `accord agents`, `accord install`, `accord check` and `accord trace` require the extra
`cli` (`pip install '.[cli]'`, see [Install Accord](../install.md)),
`accord serve` and `accord bridge` also the extra `remote`;
`accord agent`, `accord --help` and `python -m accord.schema` require neither.

[Events as JSON](ask-json.md) describes the output of `accord ask --json`.
"""


EVENTS_INTRO = """\
# Events as JSON

<!-- Written by docs/generate.py from the events themselves; `make docs` does it again. -->

`accord ask --json` writes one JSON object per line to stdout, in UTF-8, for either version of the
protocol. The key `event` has the kind of the line. The first line is `session`, then the events of
the turn follow, and the last line is `end`, or `error` if the turn failed. If the command line is
invalid or the agent does not start, the `session` line is missing. After a second Ctrl-C the last
line is `end` too.

The user is not asked for permission: requests that `--allow` and `--yes` do not allow are rejected,
and the exit status is 3. Errors are also reported on stderr, for people.

Control characters, directional characters and invisible characters are escaped, so that a line can
be shown as it is.

The format is stable: within a major version, fields and events are added, but not removed or
redefined. Ignore what you do not know. `annotations`, `content_meta`, `icons` and `meta` (`_meta`)
are omitted if empty. Every other field is always present; it is null if unknown. Bytes are base64.
Where a list of values ends with `str`, an agent can send other values.

<!-- skip: needs jq -->
```sh
accord ask "echo Hello" --json --agent "accord agent script" | jq -r 'select(.event == "text").text'
```

## Around the turn

| `event` | Fields |
|---|---|
| `session` | `session_id`; `agent`: `name`, `version`; `protocol_version`; `options` by id |
| `end` | `stop_reason`; `text`: all text of the agent in the turn; `token_usage` or null |
| `error` | `message`; `code`: that of the JSON-RPC error, or null |

## In the turn
"""
PARTS_INTRO = """\
## Parts of events

Content is a string of Markdown text, or an object whose `type` names its kind. A binary resource
has the `type` `blob`, and its `content` is base64. Errors are objects with `code`, `message` and
`data`.
"""
EVENT_TYPES = get_args(events.Event)
PARTS = (
    content.ImageContent,
    content.AudioContent,
    content.ResourceLink,
    content.EmbeddedResource,
    content.Annotations,
    content.Other,
    tool_calls.Diff,
    tool_calls.TerminalView,
    tool_calls.ToolCallLocation,
    events.PermissionRequest,
    permission.PermissionOption,
    session.PlanEntry,
    session.AvailableCommand,
    session.SelectOption,
    session.BooleanOption,
    session.OptionChoice,
    session.ContextUsage,
    session.Cost,
    session.TokenUsage,
)


def events_page() -> str:
    """Return the text of `docs/reference/ask-json.md`."""
    lines = [EVENTS_INTRO]
    for event in EVENT_TYPES:
        lines += _struct(f"`{event_name(event)}`", event)
    lines.append(PARTS_INTRO)
    for part in PARTS:
        tag = part.__struct_config__.tag
        lines += _struct(part.__name__ if tag is None else f'`"type": "{tag}"`', part)
    return "\n".join(lines)


def _struct(title: str, cls: type[Struct]) -> Iterator[str]:
    yield f"### {title}"
    yield ""
    yield inspect.getdoc(cls) or ""
    yield ""
    for name in cls.__struct_fields__:
        yield f"* `{name}`: `{_shape(inspect.get_annotations(cls)[name])}`"
    yield ""


def _shape(annotation: str) -> str:
    """Return an annotation in terms of JSON."""
    shape = re.sub(r"tuple\[(.*), \.\.\.\]", r"list[\1]", annotation)
    shape = re.sub(r"Sequence\[(.*)\]", r"list[\1]", shape)
    shape = shape.replace("dict[str, Any]", "object")
    for name, meant in _SHAPES.items():
        shape = re.sub(rf"\b{name}\b", meant, shape)
    shape = re.sub(r"Literal\[(.*?)\]", lambda words: words[1].replace(", ", " | "), shape)
    return shape.replace("'", '"').replace("tuple[int, int]", "list[int]").replace("\n", " ")


def _words(union: object) -> str:
    words, *more = get_args(union)
    return f"Literal[{', '.join(map(repr, get_args(words)))}] | str" if more else str(union)


_SHAPES = {
    "None": "null",
    "RequestError": "error",
    "StopReason": _words(session.StopReason),
    "ToolKind": _words(tool_calls.ToolKind),
    "ToolStatus": _words(tool_calls.ToolStatus),
    "PermissionKind": _words(permission.PermissionKind),
    "ToolContent": "Content | Diff | TerminalView",
    "SessionOption": "Select | Switch",
    "Role": 'Literal["agent", "thought", "user"]',
    "Meta": "object",
    "Any": "JSON",
}


def methods_page() -> str:
    """Return the text of `docs/reference/methods.md`."""
    return "\n".join([INTRO, *_version("v1", v1_methods), *_version("v2", v2_methods)])


def _version(title: str, module: ModuleType) -> Iterator[str]:
    methods: tuple[Method, ...] = module.METHODS
    for stable in (True, False):
        rows = [method for method in methods if method.unstable is not stable]
        if rows:
            yield f"## {title}, {'stable' if stable else 'unstable'}"
            yield ""
            yield from _table(rows)
            yield ""


def _table(methods: Iterable[Method]) -> Iterator[str]:
    yield "| Method, its name in Python | Params, result | Served by | Gate |"
    yield "|---|---|---|---|"
    for method in methods:
        types = (method.params, method.result) if method.is_request else (method.params,)
        cells = [
            f"`{method.name}`<br>`{method.call}`",
            "<br>".join(f"`{_type(value)}`" for value in types),
            "both" if method.to == "protocol" else method.to,
            f"`{method.gate}`" if method.gate else "–",
        ]
        yield f"| {' | '.join(cells)} |"


def _type(value: object) -> str:
    return " or ".join(member.__name__ for member in _members(value))


def _members(value: object) -> Iterator[type]:
    """Yield the classes of a union, through all marks."""
    if isinstance(value, type):
        yield value
    elif get_origin(value) is Annotated:
        inner, *marks = get_args(value)
        unions = [mark.union for mark in marks if isinstance(mark, Members)]
        yield from _members(unions[0] if unions else inner)
    else:
        for member in get_args(value):
            yield from _members(member)


def commands_page() -> str:
    """Return the text of `docs/reference/commands.md`."""
    return "\n".join([COMMANDS_INTRO, *(part for words in COMMANDS for part in _command(words))])


def _command(words: list[str]) -> Iterator[str]:
    name = " ".join(words) if words[0] == "accord" else f"python -m {words[0]}"
    yield f"## {name}"
    yield ""
    yield "```text"
    yield _help(words).strip()
    yield "```"
    yield ""


def _help(words: list[str]) -> str:
    program, *more = words
    if program != "accord":
        command = [sys.executable, "-m", *words, "--help"]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout
    printed = io.StringIO()
    # In this process: Python starts slower than a command prints its help.
    with patch.dict(os.environ, COLUMNS="100", NO_COLOR="1"), redirect_stdout(printed):
        if accord_program([*more, "--help"]) != 0:
            raise RuntimeError(f"{' '.join(words)} --help failed")
    return printed.getvalue()


def quirks_page() -> str:
    """Return the text of `docs/reference/compatibility.md`."""
    runs = json.loads(RUNS.read_text("utf-8"))
    seen: dict[str, list[str]] = {}
    for run in (*runs["agents"], *runs["clients"]):
        for name in run["quirks"]:
            seen.setdefault(name, []).append(run["recording"])
    headings = {"client": "Clients", "agent": "Agents", "both": "Clients and agents"}
    intro = QUIRKS_INTRO.replace("{both}", _users_of_both(runs["agents"]))
    lines = [intro, *_agent_runs(runs["agents"]), *_client_runs(runs["clients"])]
    if runs["failures"] or runs["not_started"]:
        lines += _failures(runs["failures"], runs["not_started"])
    lines += [QUIRKS_CHATS, *_chats(json.loads(CHATS.read_text("utf-8")))]
    lines += [QUIRKS_STEERINGS, *_steerings(json.loads(STEERINGS.read_text("utf-8")))]
    lines.append(QUIRKS_DEVIATIONS)
    for by, heading in headings.items():
        lines += [f"### {heading}", ""]
        for row in QUIRKS.values():
            if row.by == by:
                lines += _quirk(row, seen.get(row.id, []))
    return "\n".join(lines)


def _agent_runs(runs: list[dict[str, Any]]) -> Iterator[str]:
    yield (
        "| Agent, recording | Setting | New file | Command | Turns | Permission | Diff | Plan "
        "| Requests | Deviations seen |"
    )
    yield "|---|---|---|---|---|---|---|---|---|---|"
    for run in runs:
        name = run["recording"].removesuffix(".acp.jsonl")
        tasks = [_task(run[key]) for key in ("file", "shell_command")]
        marks = ["yes" if run[key] else "–" for key in ("permission", "diff", "plan")]
        turns = _ended(run)
        if run["cancels"] > run["turns"].count("cancelled"):
            turns = f"{turns}; **failed**: a cancelled turn ended with `{run['turns'][-1]}`"
        if run["no_cancel"]:
            turns = f"{turns}; not cancelled: {run['no_cancel']}"
        seen = _deviations(run)
        if run["left_open"]:
            left = f"{len(run['left_open'])} tool call left open"
            left = left if len(run["left_open"]) == 1 else left.replace("call ", "calls ")
            seen = left if seen == "none" else f"{seen}, {left}"
        cells = [f"{_program(run)}<br>`{name}`", _setting(run), *tasks, turns, *marks]
        yield f"| {' | '.join([*cells, _requests(run), seen])} |"
    yield ""


def _users_of_both(runs: list[dict[str, Any]]) -> str:
    """Return the programs that use both files and terminals of the client."""
    found = [
        run["program"]
        for run in runs
        if {"fs", "terminal"} <= {name.partition("/")[0] for name in run["uses"]}
    ]
    return f"{', '.join(found[:-1])} and {found[-1]}"


def _setting(run: dict[str, Any]) -> str:
    """Return the version of the protocol, and what the client offered."""
    offered = run["offered"]
    if offered is None:
        return f"v{run['protocol']}"
    names = {True: "on", False: "off"}
    both = {names[one] for one in offered.values()}
    if len(both) == 1:
        return f"v{run['protocol']}, {both.pop()}"
    return f"v{run['protocol']}, " + ", ".join(
        f"{name} {names[on]}" for name, on in offered.items()
    )


def _task(task: dict[str, str]) -> str:
    """Return who did a task, or that it failed."""
    if task["by"] == "not asked":
        return "–"
    if task["by"] == "failed":
        reason = task["reason"].replace("|", "\\|")
        return f"**failed**: {reason}" if reason else "**failed**"
    return task["by"]


def _requests(run: dict[str, Any]) -> str:
    """Return the methods that the agent calls; those that the client does not serve are marked."""
    served = [name for name in run["uses"] if name not in run["refused"]]
    shown = [_methods(served)] if served else []
    shown += [f"`{name}` (refused)" for name in run["refused"]]
    return ", ".join(shown) or "–"


def _failures(failures: dict[str, str], not_started: list[dict[str, str]]) -> Iterator[str]:
    yield NOT_RECORDED
    yield "| Agent | What happened |"
    yield "|---|---|"
    for name, reason in failures.items():
        yield f"| `{name}` | {reason} |"
    for row in not_started:
        yield f"| {row['program']} (`{row['package']}`) | {row['reason']} |"
    yield ""


def _client_runs(runs: list[dict[str, Any]]) -> Iterator[str]:
    yield "| Client | Protocol | Turns | Serves | Deviations seen |"
    yield "|---|--:|---|---|---|"
    for run in runs:
        serves = _methods(run["serves"])
        cells = [_program(run), str(run["protocol"]), _ended(run), serves, _deviations(run)]
        yield f"| {' | '.join(cells)} |"
    yield ""


def _chats(rows: list[dict[str, Any]]) -> Iterator[str]:
    yield "| Agent | Protocol | Permission | Change | Rejected | Cancel | Resume | Remarks |"
    yield "|---|--:|---|---|---|---|---|---|"
    for row in rows:
        asked = "yes" if row["permissions"] else "does not ask"
        if row["permissions"] and row["mode"]:
            asked = f"in the mode `{row['mode']}`"
        hunks = row["hunks"]
        change = f"{hunks} hunk{'s' * (hunks != 1)}" if hunks else "not shown"
        change = change if row["changed"] else "**failed**: not made"
        rejected = (
            "yes"
            if row["rejected"]
            else f"**failed**: {why}"
            if (why := row.get("why_not"))
            else "–"
        )
        cancel = (
            f"`{row['cancel']}`"
            if row["cancel"] == "cancelled"
            else f"**failed**: `{row['cancel']}`"
        )
        cancel = f"{cancel}, continues" if row["goes_on"] else cancel
        remarks = " ".join(row["remarks"]) or "–"
        cells = [_program(row), str(row["protocol"]), asked, change, rejected, cancel]
        yield f"| {' | '.join([*cells, _resumed(row), remarks])} |"
    yield ""


def _steerings(rows: dict[str, dict[str, Any]]) -> Iterator[str]:
    yield "| Agent | Protocol | Can be steered | During an answer | During a tool call | `cancel` |"
    yield "|---|--:|---|---|---|---|"
    for row in rows.values():
        cells = [_program(row), str(row["protocol"]), "yes" if row["native"] else "no"]
        cells += [_steered(row, case) for case in ("answer", "tool", "cut")]
        yield f"| {' | '.join(cells)} |"
    yield ""


def _steered(row: dict[str, Any], name: str) -> str:
    """Return the outcome of the message of one case."""
    if "error" in row:
        return f"**failed**: {row['error']}"
    wrong = [one.partition(": ")[2] for one in row["problems"] if one.startswith(f"{name}: ")]
    if (case := row.get(name)) is None:
        return "–"
    if wrong:
        why = (
            "the agent cancels each later prompt" if case.get("stop_reason") == "cancelled" else ""
        )
        return f"**failed**: {why or ', '.join(wrong)}"
    held = f"queued by the {case['by']}"
    return {"injected": "injected", "queued": held, "restarted": "cut"}[case["outcome"]]


def _resumed(row: dict[str, Any]) -> str:
    """Return how a session was opened again, and what was left of it."""
    if row["resume"] is None or row["refused"]:
        return "new session"
    left = {"shows_conversation": "shown", "remembers": "remembers"}
    return ", ".join([f"`{row['resume']}`", *(word for key, word in left.items() if row.get(key))])


def _methods(names: list[str]) -> str:
    """Return the names of methods; several of one family become one."""
    counted = Counter(name.partition("/")[0] for name in names)
    shown = (
        name if counted[family := name.partition("/")[0]] == 1 else f"{family}/…" for name in names
    )
    return ", ".join(f"`{name}`" for name in dict.fromkeys(shown)) or "–"


def _program(run: dict[str, Any]) -> str:
    return f"{run['program']} {run['version']}"


def _ended(run: dict[str, Any]) -> str:
    """Return how the turns ended, equal ones together."""
    counted = Counter(run["turns"])
    return ", ".join(f"{count} × `{reason}`" for reason, count in counted.items())


def _deviations(run: dict[str, Any]) -> str:
    return ", ".join(f"[`{name}`](#{name})" for name in run["quirks"]) or "none"


def _item(name: str, text: str) -> list[str]:
    """Return the lines of an item of a list."""
    return wrap(f"* {name}: {text}", 118, subsequent_indent="  ", break_on_hyphens=False)


def _quirk(row: Quirk, recordings: list[str]) -> Iterator[str]:
    yield f"#### `{row.id}`"
    yield ""
    yield from _item("Deviation", row.does)
    yield from _item("Accord", row.response)
    yield from _item("Version of the protocol", " and ".join(map(str, row.versions)))
    yield from _item("Programs", "; ".join(row.programs))
    yield from _item("Evidence", row.evidence)
    if recordings:
        yield from _item("Recordings", ", ".join(f"`{name}`" for name in recordings))
    yield from _item("Concerns", ", ".join(f"`{name}`" for name in row.concerns))
    for early, now in row.methods.items():
        yield f"* Method: `{early}` is read as `{now}`"
    for method, (early, now) in row.keys.items():
        yield f"* Key in `{method}`: `{early}` is read as `{now}`"
    yield ""


SCRIPT_START = "<!-- made by `make reference` from accord/script_agent -->"
SCRIPT_END = "<!-- end of the table -->"
DEMO_INTRO = """\
# The demonstration model

`accord agent` uses this model if no API key is set, or with `--model demo`.
It is not a language model: a prompt consists of the commands in this table.
It needs no account and no network, and the same prompt has the same result every time.
So you can try permissions, plans, diffs and your client before you
[choose a language model](../how-to/choose-a-model.md).

<!-- made by `make reference` from accord_coder/models/demo.py -->

"""
DEMO_END = """\

- Commands are separated by `;` or by line ends. Several commands are shown as a plan.
  The first failure stops the plan.
- Put text with spaces in quotes, as in a shell.
  `run` takes its command as you typed it, so `run ls *.py | wc -l` works.
- Files that are attached to the prompt are added as the last arguments: attach a file to `read`.
- If a command is not valid, none is run.
  The answer explains the commands, and the turn ends with an error:
  `accord ask` exits with status 1.
- In the mode `plan`, commands that change something wait until you approve the plan.
"""


def script_page() -> str:
    """Return the text of `docs/reference/script-agent.md`: its prose, with a new table."""
    before, _, rest = SCRIPT_PAGE.read_text("utf-8").partition(SCRIPT_START)
    _, _, after = rest.partition(SCRIPT_END)
    rows = ["| Command | What it sends, in order |", "|---|---|"]
    for command in SCRIPT_COMMANDS:
        texts = (command.sends,) if isinstance(command.sends, str) else command.sends
        alternatives = command.arguments.split(" | ")
        for arguments, text in zip(alternatives, texts, strict=True):
            usage = f"{command.name} {arguments}".rstrip().replace("|", "\\|")
            rows.append(f"| `{usage}` | {text} |")
    table = "\n".join(rows)
    return f"{before}{SCRIPT_START}\n\n{table}\n\n{SCRIPT_END}{after}"


def demo_page() -> str:
    """Return the text of `docs/reference/demo-model.md`."""
    return f"{DEMO_INTRO}{demo_table()}\n{DEMO_END}"


if __name__ == "__main__":
    METHODS_PAGE.write_text(methods_page(), "utf-8")
    COMMANDS_PAGE.write_text(commands_page(), "utf-8")
    DEMO_PAGE.write_text(demo_page(), "utf-8")
    SCRIPT_PAGE.write_text(script_page(), "utf-8")
    EVENTS_PAGE.write_text(events_page(), "utf-8")
    QUIRKS_PAGE.write_text(quirks_page(), "utf-8")
