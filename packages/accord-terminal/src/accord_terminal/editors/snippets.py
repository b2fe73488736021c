"""Texts to paste into the configuration of editors that are configured by code."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping

from msgspec import Struct

from accord_terminal.editors.agent_command import EditorCommand


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
