"""Finds the code blocks of a Markdown page and what is to be done with each.

A comment on the line before a block says it, when it is not simply to be run:

    <!-- skip: reason -->      not run
    <!-- async -->             has `await` at its top level
    <!-- file: name.py -->     written to the page's folder; a later block runs or imports it
    <!-- run -->               console: the `$ python …` lines are run, the rest is their output
"""

from __future__ import annotations

import ast
import asyncio
import inspect
import re
import shlex
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

FENCE = re.compile(r"^( *)(`{3,}|~{3,})\s*([\w+-]*)[^\n`]*$")
NOTE = re.compile(r"^\s*<!--\s*(skip|async|file|run)\s*(?::\s*(.*?))?\s*-->\s*$")
COMMAND_SECONDS = 30


@dataclass(frozen=True)
class Block:
    """One fenced block; `line` is where its code begins, counted from 1."""

    language: str
    code: str
    line: int
    note: str = ""
    value: str = ""


def extract(page: str) -> list[Block]:
    """Return the fenced blocks of a page in order."""
    blocks: list[Block] = []
    lines = page.splitlines()
    note = value = ""
    at = 0
    while at < len(lines):
        if noted := NOTE.match(lines[at]):
            note, value = noted[1], noted[2] or ""
            if note in {"skip", "file"} and not value:
                raise ValueError(f"line {at + 1}: `{note}` needs a word after the colon")
        elif opened := FENCE.match(lines[at]):
            indent, fence, language = opened.groups()
            start = at + 1
            at = start
            while at < len(lines) and lines[at].strip() != fence:
                at += 1
            if at == len(lines):
                raise ValueError(f"line {start}: the block has no end")
            code = "".join(f"{line.removeprefix(indent)}\n" for line in lines[start:at])
            blocks.append(Block(language, code, start + 1, note, value))
            note = value = ""
        elif lines[at].strip() and note:
            raise ValueError(f"line {at}: `{note}` stands before no block")
        at += 1
    return blocks


def wanted(block: Block) -> bool:
    """Tell whether something is done with a block."""
    if block.note == "skip":
        return False
    return block.language == "python" or block.note in {"file", "run"}


class Page:
    """Runs the blocks of one page, one after the other, in one namespace and one folder."""

    def __init__(self, name: str, folder: Path) -> None:
        self.name = name
        self.folder = folder
        self.namespace: dict[str, object] = {"__name__": "__docs__"}

    def run(self, blocks: list[Block]) -> None:
        """Run all blocks that are to be run."""
        with asyncio.Runner() as runner:
            for block in filter(wanted, blocks):
                match block:
                    case Block(note="file", value=name, code=code):
                        self._check(block)
                        (self.folder / name).write_text(code, "utf-8")
                    case Block(note="run"):
                        self._console(block)
                    case _:
                        self._python(block, runner)

    def _check(self, block: Block) -> None:
        if block.language == "python":
            compile(block.code, f"{self.name}:{block.line}", "exec")

    def _python(self, block: Block, runner: asyncio.Runner) -> None:
        flags = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT if block.note == "async" else 0
        # Blank lines in front make the line numbers of a traceback those of the page.
        source = "\n" * (block.line - 1) + block.code
        code = compile(source, self.name, "exec", flags=flags)
        result = eval(code, self.namespace)  # noqa: S307  # our own pages
        if inspect.iscoroutine(result):
            runner.run(result)

    def _console(self, block: Block) -> None:
        for command, expected in commands(block):
            words = shlex.split(command)
            if words[0] not in {"python", "python3"}:
                raise ValueError(f"{self.name}:{block.line}: only `$ python …` can be run")
            done = subprocess.run(
                [sys.executable, *words[1:]],
                cwd=self.folder,
                capture_output=True,
                text=True,
                timeout=COMMAND_SECONDS,
            )
            assert done.returncode == 0, f"{self.name}:{block.line}: {command}\n{done.stderr}"
            if expected:
                assert done.stdout.rstrip() == expected.rstrip(), f"{self.name}: {command}"


def commands(block: Block) -> list[tuple[str, str]]:
    """Return the commands of a console block, each with the output that is shown."""
    found: list[tuple[str, str]] = []
    for line in block.code.splitlines():
        if line.startswith("$ "):
            found.append((line[2:], ""))
        elif found:
            command, output = found[-1]
            found[-1] = (command, f"{output}{line}\n")
    return found
