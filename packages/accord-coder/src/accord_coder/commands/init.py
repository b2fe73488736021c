"""`/init`: writes AGENTS.md, the instructions for agents that work on the project."""

from __future__ import annotations

import re
import tomllib
from collections import Counter
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any

import msgspec

from accord import ContentBlock
from accord_coder.commands.base import CommandCall, say, use_tool
from accord_coder.messages import Prompt

if TYPE_CHECKING:
    from accord import Turn
    from accord_coder.loop.coder_session import CoderSession


_PROMPT = """\
Write AGENTS.md at the top of this project: what an agent or a newcomer must know to work on it.

Read first: README, CONTRIBUTING, the files that configure build, tests and linter, the outline of
the source. Then write, in at most a page: what the project is; the commands to set up, build, test
(also a single test) and lint; how the source is laid out; conventions that the code shows and
that are not obvious. Write only what you have seen. If AGENTS.md exists, improve it instead, and
keep what is still true.
"""
_LANGUAGES = {
    ".c": "C",
    ".cpp": "C++",
    ".cs": "C#",
    ".go": "Go",
    ".java": "Java",
    ".js": "JavaScript",
    ".jsx": "JavaScript",
    ".kt": "Kotlin",
    ".php": "PHP",
    ".py": "Python",
    ".rb": "Ruby",
    ".rs": "Rust",
    ".sh": "shell",
    ".swift": "Swift",
    ".ts": "TypeScript",
    ".tsx": "TypeScript",
}
_READ = ("README.md", "README.rst", "pyproject.toml", "package.json", "Makefile", "Cargo.toml")
_KNOWN = {
    "Cargo.toml": ("`cargo build`", "`cargo test`"),
    "go.mod": ("`go build ./...`", "`go test ./...`"),
    "pom.xml": ("`mvn compile`", "`mvn test`"),
}


def prompt_for(arguments: str) -> str:
    """Return the prompt for a language model."""
    return f"{_PROMPT}\n{arguments}\n" if arguments else _PROMPT


async def run(
    asked: CommandCall, turn: Turn, state: CoderSession
) -> tuple[ContentBlock, ...] | None:
    """Prompt the model; the demonstration model writes what the files show."""
    model = await state.hooks.session_model(state)
    if model.is_language_model:
        return (prompt_for(asked.arguments), *asked.attachments)
    state.messages.append(Prompt((prompt_for(asked.arguments),)))
    there = await use_tool(turn, state, "glob", pattern="**/*")
    if there.failed:
        await say(turn, state, f"Cannot list the files: {there.text}")
        return None
    paths = [line for line in there.text.splitlines() if line and not line.startswith("[")]
    if "AGENTS.md" in paths:
        await say(
            turn,
            state,
            "AGENTS.md already exists and was not changed: improving it requires a language model.",
        )
        return None
    texts: dict[str, str] = {}
    for name in _READ:
        if name in paths:
            result = await use_tool(turn, state, "read", path=name)
            if not result.failed:
                texts[name] = result.text
    text = describe_project(paths, texts, asked.arguments)
    written = await use_tool(turn, state, "write", path="AGENTS.md", text=text)
    if written.failed:
        await say(turn, state, f"AGENTS.md was not written: {written.text}")
    else:
        await say(
            turn,
            state,
            "AGENTS.md lists what the files show: languages, directories, commands. Add what only"
            " you know: the demonstration model does not understand code.",
        )
    return None


def describe_project(paths: list[str], texts: dict[str, str], arguments: str) -> str:
    """Describe a project from the names of its files and its usual files."""
    parts = ["# For agents\n", f"{_about(texts)}\n"]
    languages = Counter(_LANGUAGES.get(PurePosixPath(path).suffix, "") for path in paths)
    del languages[""]
    if languages:
        counted = ", ".join(
            f"{name} ({count} file{'s' * (count > 1)})" for name, count in languages.most_common(4)
        )
        parts.append(f"Written in {counted}.\n")
    if commands := _commands(paths, texts):
        parts += ["## Commands\n", "\n".join(f"- {command}" for command in commands) + "\n"]
    folders = Counter(path.split("/")[0] for path in paths if "/" in path and path[0] != ".")
    if folders:
        lines = (
            f"- `{name}/`: {count} file{'s' * (count > 1)}"
            for name, count in folders.most_common(12)
        )
        parts += ["## Folders\n", "\n".join(lines) + "\n"]
    if arguments:
        parts += ["## To mind\n", f"{arguments}\n"]
    return "\n".join(parts)


def _about(texts: dict[str, str]) -> str:
    """Return the sentence that describes the project."""
    for text in (_project(texts), _table(texts, "package.json")):
        if isinstance(about := text.get("description"), str) and about.strip():
            return about.strip()
    readme = texts.get("README.md") or texts.get("README.rst") or ""
    for block in re.split(r"\n\s*\n", readme):
        plain = " ".join(block.split())
        if plain and plain[0].isalnum():
            return plain.partition(". ")[0].rstrip(".") + "."
    return "Describe the purpose of this project here."


def _commands(paths: list[str], texts: dict[str, str]) -> list[str]:
    found: list[str] = []
    make = re.findall(
        r"^([A-Za-z][\w-]*):(?!=)(?:[^\n#]*##\s*([^\n]*))?", texts.get("Makefile", ""), re.M
    )
    found += [f"`make {name}`" + (f" — {does}" if does else "") for name, does in make[:20]]
    scripts = _table(texts, "package.json").get("scripts")
    if isinstance(scripts, dict):
        found += [f"`npm run {name}`" for name in list(scripts)[:20]]  # type: ignore[arg-type]  # JSON
    for name, commands in _KNOWN.items():
        if name in paths:
            found += commands
    if not make and any(re.search(r"(^|/)test_\w+\.py$", path) for path in paths):
        found.append("`python -m pytest`")
    return found


def _project(texts: dict[str, str]) -> dict[str, Any]:
    try:
        document = tomllib.loads(texts.get("pyproject.toml", ""))
        return msgspec.convert(document.get("project", {}), dict[str, Any])
    except (tomllib.TOMLDecodeError, msgspec.ValidationError):
        return {}


def _table(texts: dict[str, str], name: str) -> dict[str, Any]:
    try:
        return msgspec.json.decode(texts.get(name, "{}"), type=dict[str, Any])
    except (msgspec.DecodeError, msgspec.ValidationError):
        return {}
