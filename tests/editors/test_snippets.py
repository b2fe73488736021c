"""The texts to paste are valid, and have the command."""

from __future__ import annotations

import ast
import re
import shutil
import subprocess
import tomllib

import pytest

from accord_editors.agent_command import EditorCommand
from accord_editors.snippets import SNIPPETS
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
