"""CONTRIBUTING.md shows how to add a method: its blocks, applied to a copy of the tree, work."""

from __future__ import annotations

import ast
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from project import ROOT

MAX_FILES = 5  # changed by hand
HEADER = re.compile(r"@@ packages/accord/src/(\S+): (in|after|before the return of) (\S+)")
# An agent of both versions, a client of each.
PROGRAM = """
import asyncio, sys
import accord
from accord.transports.memory import pair

assert accord.__file__.startswith(sys.argv[1]), accord.__file__

class Pinning(accord.Agent):
    unstable = True
    pinned = {}

    async def prompt(self, turn):
        await turn.say("hello")

    async def pin_session(self, session_id, pinned):
        self.pinned[session_id] = pinned

class Plain(accord.Agent):
    async def prompt(self, turn):
        await turn.say("hello")

async def session_with(agent, version):
    here, there = pair()
    serving = asyncio.ensure_future(accord.serve(agent, there))
    async with accord.connect(here, versions=[version], unstable=True) as connected:
        yield connected, await connected.new_session()
    await serving

async def main():
    async for connected, session in session_with(Pinning(), 2):
        assert connected.supports("pin_session")
        await session.pin()
        assert Pinning.pinned == {session.id: True}
        await session.pin(False)
        assert Pinning.pinned == {session.id: False}
    for agent, version in ((Plain(), 2), (Pinning(), 1)):
        async for connected, session in session_with(agent, version):
            try:
                await session.pin()
            except accord.NotOffered:
                continue
            raise AssertionError("expected NotOffered")

asyncio.run(asyncio.wait_for(main(), 30))
"""


def steps() -> list[tuple[str, str, str, str]]:
    """Return the file, the kind and name of the place, and the lines of each step."""
    page = (ROOT / "CONTRIBUTING.md").read_text("utf-8")
    section = page.partition("## Add a method")[2].partition("\n## ")[0]
    found: list[tuple[str, str, str, str]] = []
    for block in re.findall(r"```diff\n(.*?)```", section, re.DOTALL):
        for part in re.split(r"^(?=@@ )", block, flags=re.MULTILINE)[1:]:
            head, _, body = part.partition("\n")
            match = HEADER.fullmatch(head)
            assert match is not None, head
            lines = body.splitlines()
            assert all(line.startswith("+") for line in lines), head
            text = "".join(f"{line[1:]}\n" for line in lines)
            found.append((match[1], match[2], match[3], text))
    return found


def place(source: str, kind: str, name: str) -> tuple[int, str]:
    """Return the number of lines before a place, and the separator for the code there."""
    body: list[ast.stmt] = ast.parse(source).body
    node: ast.AST | None = None
    for part in name.split("."):
        node = next(node for node in body if part in _names(node))
        body = getattr(node, "body", [])
    assert node is not None
    if kind == "before the return of":
        assert isinstance(body[-1], ast.Return)
        return body[-1].lineno - 1, ""
    end = getattr(node, "end_lineno", 0)
    if kind == "in":  # a class ends with its last line, a tuple with its parenthesis
        return (end, "") if isinstance(node, ast.ClassDef) else (end - 1, "")
    return end, "\n\n" if isinstance(node, ast.ClassDef) else "\n"


def _names(node: ast.stmt) -> list[str]:
    match node:
        case ast.ClassDef() | ast.FunctionDef() | ast.AsyncFunctionDef():
            return [node.name]
        case ast.Assign(targets=[ast.Name(id=name)]) | ast.AnnAssign(target=ast.Name(id=name)):
            return [name]
        case _:
            return []


def test_method_is_added_by_changing_few_files(tmp_path: Path) -> None:
    ignored = shutil.ignore_patterns("__pycache__")
    shutil.copytree(ROOT / "packages/accord/src/accord", tmp_path / "accord", ignore=ignored)
    changed: set[str] = set()
    for file, kind, name, text in steps():
        path = tmp_path / file
        source = path.read_text("utf-8")
        above, separator = place(source, kind, name)
        lines = source.splitlines(keepends=True)
        path.write_text("".join([*lines[:above], separator, text, *lines[above:]]), "utf-8")
        changed.add(file)
    assert len(changed) <= MAX_FILES, sorted(changed)
    env = {**os.environ, "PYTHONPATH": str(tmp_path)}
    python = [sys.executable, "-W", "error"]
    generate = [*python, str(ROOT / "tools/generate_roles.py")]
    for program in (generate, [*python, "-c", PROGRAM, str(tmp_path)]):
        done = subprocess.run(program, env=env, capture_output=True, text=True, timeout=50)
        assert done.returncode == 0, done.stderr
    generated = {"roles.py", "proxy_role.py"}
    for name in generated:
        assert "def pin_session(" in (tmp_path / "accord/v2" / name).read_text("utf-8")
    assert not generated & {Path(file).name for file in changed}
