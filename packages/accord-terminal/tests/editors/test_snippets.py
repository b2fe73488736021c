"""The texts to paste are valid, and have the command."""

from __future__ import annotations

import ast
import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import pytest

from accord_terminal.install import SNIPPETS, EditorCommand
from requirement import requirement

pytestmark = requirement("R-EDIT-03")
COMMAND = EditorCommand('/opt/My "Agents"/a\\b', ("agent", "--x=y z"), {"KEY": 'a"b'})


def test_lua_strings_are_quoted() -> None:
    for editor in ("codecompanion", "avante"):
        text = SNIPPETS[editor].text("my-agent", COMMAND)
        assert r'"/opt/My \"Agents\"/a\\b"' in text
        assert '"--x=y z"' in text
        assert r'["KEY"] = "a\"b"' in text


@pytest.mark.parametrize("editor", sorted(SNIPPETS))
def test_brackets_are_balanced(editor: str) -> None:
    text = re.sub(r'"(?:[^"\\]|\\.)*"', '""', SNIPPETS[editor].text("my-agent 2", COMMAND))
    for left, right in ("()", "{}", "[]"):
        assert text.count(left) == text.count(right)


@pytest.mark.parametrize("editor", ["codecompanion", "avante"])
@pytest.mark.programs
def test_lua_compiles(editor: str) -> None:
    luac = shutil.which("luac") or shutil.which("luac5.1") or shutil.which("luajit")
    if luac is None:
        pytest.skip("needs luac")
    text = SNIPPETS[editor].text("my-agent", COMMAND)
    arguments = ["-b", "-", "/dev/null"] if luac.endswith("luajit") else ["-p", "-"]
    subprocess.run([luac, *arguments], input=text.encode(), check=True)


def test_names_become_identifiers() -> None:
    assert "my_agent_2 = function()" in SNIPPETS["codecompanion"].text("my-agent 2", COMMAND)
    assert "agent_9x = function()" in SNIPPETS["codecompanion"].text("9x", COMMAND)
    assert ":identifier 'my-agent-2" in SNIPPETS["agent-shell"].text("my-agent 2", COMMAND)


def test_jupyter_text_is_a_package_with_a_persona() -> None:
    text = SNIPPETS["jupyter"].text("my-agent", COMMAND)
    project, _, module = text.partition("# my_agent_persona.py\n")
    entry = tomllib.loads(project)["project"]["entry-points"]["jupyter_ai.personas"]
    assert entry == {"my-agent": "my_agent_persona:MyAgentPersona"}
    (made,) = [node for node in ast.parse(module).body if isinstance(node, ast.ClassDef)]
    assert made.name == "MyAgentPersona"
    words = next(node for node in ast.walk(made) if isinstance(node, ast.List))
    assert ast.literal_eval(words) == [COMMAND.command, *COMMAND.args]


# Functions of agent-shell and acp.el with the keys of the newest versions; they return their keys.
STUBS = """\
(require 'cl-lib)
(defvar agent-shell-agent-configs nil)
(cl-defun agent-shell-make-agent-config
    (&key identifier mode-line-name welcome-function buffer-name shell-prompt shell-prompt-regexp
          client-maker needs-authentication authenticate-request-maker default-model-id
          default-session-mode-id session-meta mcp-servers notification-adapter icon-name
          install-instructions)
  (list identifier mode-line-name buffer-name shell-prompt shell-prompt-regexp client-maker))
(cl-defun acp-make-client
    (&key context-buffer command command-params environment-variables request-sender
          notification-sender request-resolver response-sender outgoing-request-decorator)
  (vconcat (list command (vconcat command-params) (vconcat environment-variables)
                 (buffer-name context-buffer))))
"""
SHOW = """\
(require 'json)
(dolist (config agent-shell-agent-configs)
  (princ (json-encode (vector (symbol-name (nth 0 config)) (nth 1 config) (nth 2 config)
                              (string-match-p (nth 4 config) (nth 3 config))
                              (funcall (nth 5 config) (current-buffer))))))
"""


@pytest.mark.programs
@pytest.mark.skipif(shutil.which("emacs") is None, reason="needs Emacs")
@pytest.mark.parametrize(
    "command",
    [COMMAND, EditorCommand("/bin/accord", ("agent", "", "\\d+ ü 日本 $x `y`"), {})],
    ids=["quotes", "signs"],
)
def test_emacs_reads_the_text(command: EditorCommand, tmp_path: Path) -> None:
    init = tmp_path / "init.el"
    name = "my-agent 2.0"
    init.write_text(SNIPPETS["agent-shell"].text(name, command), "utf-8")
    (tmp_path / "agent-shell.el").write_text(STUBS + "(provide 'agent-shell)\n")
    (tmp_path / "show.el").write_text("(require 'agent-shell)\n" + SHOW)
    ran = subprocess.run(
        ["emacs", "--batch", "--quick", "-L", str(tmp_path), "-l", str(init), "-l", "show"],
        capture_output=True,
        check=False,
        timeout=60,
    )
    assert ran.returncode == 0, ran.stderr.decode()
    env = [f"{key}={value}" for key, value in command.env.items()]
    client = [command.command, [*command.args], env, "*scratch*"]
    assert json.loads(ran.stdout) == ["my-agent-2-0", name, name, 0, client]


def test_jupyter_persona_starts_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    """With the signatures of jupyter-ai-acp-client 0.3.3, which has accepted this package."""

    class BaseAcpPersona:
        def __init__(self, *args: Any, executable: list[str], **kwargs: Any) -> None:
            self.started = (args, executable, kwargs)

    class PersonaDefaults(NamedTuple):
        name: str
        description: str
        avatar_path: str
        system_prompt: str

    for name, member in (
        ("jupyter_ai_acp_client.base_acp_persona", BaseAcpPersona),
        ("jupyter_ai_persona_manager", PersonaDefaults),
    ):
        module: Any = ModuleType(name)
        setattr(module, member.__name__, member)
        monkeypatch.setitem(sys.modules, name, module)
    monkeypatch.setitem(sys.modules, "jupyter_ai_acp_client", ModuleType("jupyter_ai_acp_client"))
    monkeypatch.setenv("KEY", "")  # so that it is removed after the test
    monkeypatch.delenv("KEY")
    text = SNIPPETS["jupyter"].text("my-agent", COMMAND)
    names: dict[str, Any] = {}
    exec(text.partition("# my_agent_persona.py\n")[2], names)
    persona = names["MyAgentPersona"]("a", parent=1)
    assert persona.started == (("a",), [COMMAND.command, *COMMAND.args], {"parent": 1})
    assert persona.defaults.name == "my-agent"
    assert os.environ["KEY"] == 'a"b'
