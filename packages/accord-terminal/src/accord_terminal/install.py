"""`accord install`: adds an agent to an editor.

The command of the agent with absolute paths, the editors whose settings are changed, the texts to
paste for the others, and the command itself. `editor_settings` changes the files.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import click
from msgspec import Struct

from accord.errors import AccordError, StartError
from accord.installed import install_command
from accord.program import load_program
from accord.transports.command_line import find_program
from accord.transports.registry import is_url
from accord_terminal.editor_settings import (
    EditorError,
    backup_of,
    formatted,
    read_settings,
    replace_settings,
    set_back,
    value_at,
    with_member,
    without_member,
)
from accord_terminal.toolkit.agent_names import (
    DEFAULT,
    NamedAgent,
    complete_name,
    find_agent,
    is_object,
    load_settings,
    settings_path,
)

# The command of an agent as editors need it: with absolute paths.

_MODULE = ("-m", "accord")


class EditorCommand(Struct, frozen=True):
    """What an editor starts."""

    command: str  # an absolute path that exists
    args: tuple[str, ...]
    env: Mapping[str, str] = {}


def editor_command(agent: NamedAgent) -> EditorCommand:
    """Return the command of an agent with an absolute path. Raises `EditorError`.

    Editors that are started from a desktop have no `PATH` of a shell (R-EDIT-02), so a script
    that begins with `#!/usr/bin/env node` is given to the absolute path of node.
    """
    argv = agent.argv
    if agent.source == "installed":  # a new version is in another folder
        return EditorCommand(*_split((*accord_program(), "agents", "run", agent.name)))
    if is_url(argv[0]):
        return EditorCommand(*_split((*accord_program(), "bridge", argv[0])), agent.entry.env)
    if argv[:3] == (sys.executable, *_MODULE):
        return EditorCommand(*_split((*accord_program(), *argv[3:])), agent.entry.env)
    try:
        program = find_program(argv[0], None, None)
    except StartError as error:
        raise EditorError(f"{error}; install the agent first") from None
    words = (*_interpreter(program), program, *map(_absolute, argv[1:]))
    return EditorCommand(*_split(words), agent.entry.env)


def accord_program() -> tuple[str, ...]:
    """Return the words that start `accord`, with an absolute path."""
    beside = Path(sys.executable).parent / ("accord.exe" if os.name == "nt" else "accord")
    if not beside.is_file():
        return (sys.executable, *_MODULE)
    # The link that pipx and uv make outlives an upgrade.
    found = shutil.which("accord")
    if found is not None and Path(found).samefile(beside):
        return (str(Path(found).absolute()),)
    return (str(beside),)


def _split(words: Sequence[str]) -> tuple[str, tuple[str, ...]]:
    return words[0], tuple(words[1:])


def _absolute(word: str) -> str:
    """Return a word that names a script of this folder as an absolute path."""
    path = Path(word)
    names_file = bool(path.suffix) or os.sep in word
    return str(path.absolute()) if names_file and path.is_file() else word


def _interpreter(program: str) -> tuple[str, ...]:
    """Return the interpreter of a script whose first line leaves it to `env`."""
    try:
        with Path(program).open("rb") as file:
            line = file.readline(256)
    except OSError:
        return ()
    if not line.startswith(b"#!"):
        return ()
    words = line[2:].decode("utf-8", "replace").split()
    if not words or Path(words[0]).name != "env":
        return ()
    words = words[2:] if words[1:2] == ["-S"] else words[1:]
    if not words or "=" in words[0] or words[0].startswith("-"):
        return ()
    found = shutil.which(words[0])
    if found is None:
        raise EditorError(f"{program} needs {words[0]}, which is not in PATH")
    return (str(Path(found).absolute()), *words[1:])


# The editors with a settings file in JSON: where it is, and what an agent is in it.


class JsonEditor(Struct, frozen=True):
    """An editor; its agents are members of the object `key`."""

    title: str
    key: str
    path: Callable[[], Path]
    entry: Callable[[EditorCommand], dict[str, Any]]
    next_step: str


def _program(command: EditorCommand) -> dict[str, Any]:
    entry: dict[str, Any] = {"command": command.command, "args": list(command.args)}
    return {**entry, "env": dict(command.env)} if command.env else entry


def _custom_agent(command: EditorCommand) -> dict[str, Any]:
    return {"type": "custom", **_program(command)}


def _zed() -> Path:
    if sys.platform == "win32":
        return _roaming() / "Zed" / "settings.json"
    return _config() / "zed" / "settings.json"


def _vscode() -> Path:
    if sys.platform == "win32":
        folder = _roaming() / "Code"
    elif sys.platform == "darwin":
        folder = Path.home() / "Library" / "Application Support" / "Code"
    else:
        folder = _config() / "Code"
    return folder / "User" / "settings.json"


def _jetbrains() -> Path:
    return Path.home() / ".jetbrains" / "acp.json"


def _config() -> Path:
    given = os.environ.get("XDG_CONFIG_HOME", "")
    return Path(given) if Path(given).is_absolute() else Path.home() / ".config"


def _roaming() -> Path:
    return Path(os.environ.get("APPDATA") or Path.home() / "AppData" / "Roaming")


JSON_EDITORS = {
    "zed": JsonEditor(
        "Zed", "agent_servers", _zed, _custom_agent, "Open the agent panel and choose {name}."
    ),
    "jetbrains": JsonEditor(
        "JetBrains IDEs",
        "agent_servers",
        _jetbrains,
        _program,
        "Open the AI Chat and choose {name}.",
    ),
    "vscode": JsonEditor(
        "VS Code, with the extension formulahendry.acp-client",
        "acp.agents",
        _vscode,
        _program,
        "Open the ACP view and connect to {name}.",
    ),
}


# Texts to paste into the configuration of editors that are configured by code.


class Snippet(Struct, frozen=True):
    """An editor, and what makes the text for an agent's name and command."""

    title: str
    place: str
    text: Callable[[str, EditorCommand], str]


def _codecompanion(name: str, command: EditorCommand) -> str:
    key = _identifier(name)
    words = ", ".join(map(_lua, (command.command, *command.args)))
    env = _lua_env("          ", command.env)
    return f"""\
require("codecompanion").setup({{
  adapters = {{
    acp = {{
      {key} = function()
        return require("codecompanion.adapters").extend("goose", {{
          name = {_lua(key)},
          formatted_name = {_lua(name)},
          commands = {{ default = {{ {words} }} }},
{env}        }})
      end,
    }},
  }},
  interactions = {{ chat = {{ adapter = {_lua(key)} }} }},
}})
"""


def _avante(name: str, command: EditorCommand) -> str:
    env = _lua_env("      ", command.env)
    args = ", ".join(map(_lua, command.args))
    return f"""\
require("avante").setup({{
  provider = {_lua(name)},
  acp_providers = {{
    [{_lua(name)}] = {{
      command = {_lua(command.command)},
      args = {{ {args} }},
{env}    }},
  }},
}})
"""


def _agent_shell(name: str, command: EditorCommand) -> str:
    args = " ".join(map(_lisp, command.args))
    env = ""
    if command.env:
        pairs = " ".join(_lisp(f"{key}={value}") for key, value in command.env.items())
        env = f"\n                     :environment-variables (list {pairs})"
    prompt = _lisp(f"{name}> ")
    return f"""\
(with-eval-after-load 'agent-shell
  (add-to-list
   'agent-shell-agent-configs
   (agent-shell-make-agent-config
    :identifier '{_identifier(name, "-")}
    :mode-line-name {_lisp(name)}
    :buffer-name {_lisp(name)}
    :shell-prompt {prompt}
    :shell-prompt-regexp (regexp-quote {prompt})
    :client-maker
    (lambda (buffer)
      (acp-make-client :command {_lisp(command.command)}
                     :command-params (list {args}){env}
                     :context-buffer buffer)))))
"""


def _jupyter(name: str, command: EditorCommand) -> str:
    words = json.dumps([command.command, *command.args])
    variables = "".join(
        f"os.environ.setdefault({json.dumps(key)}, {json.dumps(value)})\n"
        for key, value in command.env.items()
    )
    imports = "import os\n\n" if variables else ""
    variables = f"\n{variables}" if variables else ""
    module = f"{_identifier(name)}_persona"
    title = "".join(part.capitalize() for part in _identifier(name).split("_"))
    return f'''\
# pyproject.toml
[project]
name = "{module.replace("_", "-")}"
version = "0.1.0"
dependencies = ["jupyter-ai-acp-client"]

[project.entry-points."jupyter_ai.personas"]
{_identifier(name, "-")} = "{module}:{title}Persona"

[build-system]
requires = ["hatchling"]
build-backend = "hatchling.build"

# {module}.py
{imports}from jupyter_ai_acp_client.base_acp_persona import BaseAcpPersona
from jupyter_ai_persona_manager import PersonaDefaults
{variables}

class {title}Persona(BaseAcpPersona):
    def __init__(self, *args, **kwargs):
        super().__init__(*args, executable={words}, **kwargs)

    @property
    def defaults(self):
        return PersonaDefaults(
            name={json.dumps(name)},
            description={json.dumps(f"{name}, an agent of the Agent Client Protocol")},
            avatar_path="",
            system_prompt="unused",
        )
'''


def _identifier(name: str, joint: str = "_") -> str:
    """Return a name that Lua, Lisp and Python accept."""
    words = re.findall(r"[A-Za-z0-9]+", name.lower())
    text = joint.join(words) or "agent"
    return text if text[0].isalpha() else f"agent{joint}{text}"


def _lua(text: str) -> str:
    """Return a string of Lua; it has no escape for code points that JSON's resembles."""
    marks = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t", "\0": "\\0"}
    return '"' + "".join(marks.get(sign, sign) for sign in text) + '"'


def _lua_env(indent: str, env: Mapping[str, str]) -> str:
    if not env:
        return ""
    rows = ", ".join(f"[{_lua(key)}] = {_lua(value)}" for key, value in env.items())
    return f"{indent}env = {{ {rows} }},\n"


def _lisp(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


SNIPPETS = {
    "codecompanion": Snippet("CodeCompanion (Neovim)", "your Neovim configuration", _codecompanion),
    "avante": Snippet("avante.nvim (Neovim)", "your Neovim configuration", _avante),
    "agent-shell": Snippet("agent-shell (Emacs)", "your init file", _agent_shell),
    "jupyter": Snippet("Jupyter AI", "a folder, as two files; then `pip install FOLDER`", _jupyter),
}


@click.command("install")
@click.argument("editor", type=click.Choice([*JSON_EDITORS, *SNIPPETS]), metavar="EDITOR")
@click.argument("name", required=False, shell_complete=complete_name)
@click.option("--print", "prints", is_flag=True, help="Print the settings, and write nothing.")
@click.option("--remove", is_flag=True, help="Remove the agent from the settings.")
@click.option(
    "--file",
    "chosen",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Another settings file, such as that of a folder, or of a relative of the editor.",
)
def command(editor: str, name: str | None, prints: bool, remove: bool, chosen: Path | None) -> int:
    """Add an agent to the settings of an editor.

    EDITOR is zed, jetbrains or vscode, whose settings are changed, or codecompanion, avante,
    agent-shell or jupyter, for which the text to paste is printed.

    \b
    accord install zed                 Accord's own agent
    accord install zed gemini          an agent of `accord agents`
    accord install zed app:agent       an object that `accord run` serves
    accord install jetbrains --print   show what would be written
    accord install zed gemini --remove

    Only the entry of the agent changes: comments and everything else stay. Copies of the file get
    the endings .accord-backup, before the last change, and .accord-original, before the first one.
    """
    try:
        known = load_settings()
        if remove and editor in JSON_EDITORS:
            # The agent need not exist any more.
            _remove(JSON_EDITORS[editor], name or known.ask.agent or DEFAULT, chosen, prints)
            return 0
        agent = find_agent(name, known)
        if is_object(agent.name):
            _check_object(agent.name)
        elif agent.source == "command line":
            raise EditorError(
                f"No agent is named {name!r}: expected a name of `accord agents`. Your own agents "
                f"get a name in {settings_path()}"
            )
        if editor in JSON_EDITORS:
            place = JSON_EDITORS[editor]
            entry = place.entry(editor_command(agent))
            _add(place, agent.name, entry, chosen, prints)
            return 0
        if remove or chosen is not None:
            raise click.UsageError(
                f"{SNIPPETS[editor].title} is configured by code, which is yours to edit"
            )
        snippet = SNIPPETS[editor]
        click.echo(f"Paste this into {snippet.place}:\n", err=True)
        click.echo(snippet.text(agent.name, editor_command(agent)), nl=False)
    except (AccordError, ValueError) as error:
        raise click.ClickException(str(error)) from None
    return 0


def _check_object(name: str) -> None:
    """Import an object: an entry that cannot start is of no use. Raises `AccordError`."""
    load = load_program("object", "accord_bridges")
    if load is None:
        advice = install_command("bridges")
        raise EditorError(f"{name} is served by `accord run`, which requires: {advice}")
    load(name)


def _add(
    editor: JsonEditor, name: str, entry: dict[str, object], chosen: Path | None, prints: bool
) -> None:
    if chosen is not None and not chosen.parent.is_dir():
        raise EditorError(f"Expected a file in a folder that exists, got {chosen}")
    file = read_settings(chosen or editor.path())
    path = (editor.key, name)
    new = file.edited(lambda text: with_member(text, path, entry))
    if prints:
        click.echo(f"For {file.path}:\n", err=True)
        click.echo(formatted({editor.key: {name: entry}}))
    elif new == file.data:
        click.echo(f"Nothing to do: {name} is in {file.path}")
    else:
        was_there = value_at(file.text, path) is not None
        replace_settings(file, new)
        click.echo(f"{'Changed' if was_there else 'Added'} {name} in {file.path}")
        if file.data is not None:
            click.echo(f"The file as it was: {backup_of(file.path)}")
        click.echo(editor.next_step.format(name=name))


def _remove(editor: JsonEditor, name: str, chosen: Path | None, prints: bool) -> None:
    file = read_settings(chosen or editor.path())
    path = (editor.key, name)
    new = file.edited(lambda text: without_member(text, path)) if file.data else file.data
    if new == file.data or new is None:
        click.echo(f"Nothing to do: {name} is not in {file.path}")
        return
    value = value_at(file.text, path)
    if prints:
        click.echo(f"Would be removed from {file.path}:\n", err=True)
        click.echo(json.dumps({editor.key: {name: value}}, ensure_ascii=False, indent=2))
        return
    # If nothing else has changed since the agent was added, the file becomes what it was.
    before = set_back(file, lambda text: with_member(text, path, value))
    replace_settings(file, new if before is None else before)
    click.echo(f"Removed {name} from {file.path}")
    click.echo(f"The file as it was: {backup_of(file.path)}")
