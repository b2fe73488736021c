"""`/review`: reviews the changes in git."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from msgspec import Struct

from accord import ContentBlock
from accord_coder.commands.base import CommandCall, say, use_tool
from accord_coder.messages import Prompt

if TYPE_CHECKING:
    from accord import Turn
    from accord_coder.loop.coder_session import CoderSession


_PROMPT = """\
Review the changes in this git repository that are not committed yet (`git status`, `git diff
HEAD`); if there are none, those of the last commit. Read the code around them if you need it.

Report, most serious first, each with path:line, what goes wrong and when, and how to fix it: bugs,
cases not handled, security, missing tests, violations of the conventions here. No praise, no
taste, nothing that a formatter would do. Change nothing. If there is nothing to report, say so.
"""
_DIFF = "git --no-pager diff --no-ext-diff --no-color HEAD"
_CHECKS: tuple[tuple[str, str], ...] = (
    (r"^(<{7}|>{7})( |$)|^={7}$", "a conflict is not resolved"),
    (
        r"\bbreakpoint\(\)|\bpdb\.set_trace\(\)|^\s*import pdb\b|\bdebugger;",
        "a debugger is started",
    ),
    (r"\bconsole\.log\(|\bvar_dump\(|\bdbg!\(", "it prints for debugging"),
    (r"\b(TODO|FIXME|XXX|HACK)\b", "something is left to do"),
    (r"\.only\(|@pytest\.mark\.skip\b|\bxit\(|\bfdescribe\(", "tests are left out"),
    (r"except\s*:\s*(pass)?\s*$|except (Base)?Exception:\s*pass", "errors are swallowed"),
    (r"\beval\(|\bexec\(|shell=True|verify=False", "it may be unsafe"),
    (
        r"(?i)(api[_-]?key|secret|passw(or)?d|token)\w*\s*[:=]\s*['\"][^'\"\s]{8,}['\"]"
        r"|-----BEGIN [A-Z ]*PRIVATE KEY|AKIA[0-9A-Z]{16}",
        "it looks like a secret",
    ),
)
_CODE = re.compile(r"\.(py|js|ts|tsx|jsx|go|rs|java|rb|c|cpp|cs|php|kt|swift)$")
_MAX_FINDINGS = 50
_MAX_CHARACTERS = 500  # of a line that is searched


class Finding(Struct, frozen=True):
    """A finding in a changed line."""

    path: str
    line: int
    message: str


def prompt_for(arguments: str) -> str:
    """Return the prompt for a language model."""
    return f"{_PROMPT}\nLook above all at: {arguments}\n" if arguments else _PROMPT


async def run(
    asked: CommandCall, turn: Turn, state: CoderSession
) -> tuple[ContentBlock, ...] | None:
    """Prompt the model; the demonstration model lists the changes and what patterns find."""
    model = await state.hooks.session_model(state)
    if model.is_language_model:
        return (prompt_for(asked.arguments), *asked.attachments)
    state.messages.append(Prompt((prompt_for(asked.arguments),)))
    result = await use_tool(turn, state, "execute", command=_DIFF)
    if result.failed or re.search(r"^\[(exit status|timed out)", result.text, re.MULTILINE):
        why = result.text.strip().partition("\n")[0]  # git may add all of its help
        await say(turn, state, f"Cannot read the changes: {why}")
        return None
    await say(turn, state, format_review(result.text))
    return None


def format_review(diff: str) -> str:
    """Return a report about a diff."""
    changed = _changed_files(diff)
    if not changed:
        return "No changes since the last commit. (Files that git does not track are not included.)"
    lines = ["Changed since the last commit:", ""]
    lines += [f"- `{path}`: +{added} −{gone}" for path, (added, gone) in changed.items()]
    found = list(findings(diff))
    code = [path for path in changed if _CODE.search(path)]
    tests = [path for path in code if re.search(r"(^|/|_|\.)(tests?|spec)(/|_|\.)", path)]
    lines += ["", "What patterns find in the new lines:", ""]
    lines += [f"- `{one.path}:{one.line}`: {one.message}" for one in found[:_MAX_FINDINGS]]
    if len(found) > _MAX_FINDINGS:
        lines.append(f"- and {len(found) - _MAX_FINDINGS} more")
    if code and not tests:
        lines.append("- code has changed, but no test")
    if lines[-1] == "":
        lines.append("Nothing.")
    lines += ["", "The demonstration model cannot judge whether the changes are correct."]
    return "\n".join(lines)


def findings(diff: str) -> Iterator[Finding]:
    """Yield the findings in the lines that a diff adds."""
    for path, number, text in _added_lines(diff):
        start = text[:_MAX_CHARACTERS]  # expressions are slow on long lines
        for pattern, what in _CHECKS:
            if re.search(pattern, start):
                yield Finding(path, number, what)
                break
        else:
            if text.endswith((" ", "\t")):
                yield Finding(path, number, "white space at the end of the line")


def _added_lines(diff: str) -> Iterator[tuple[str, int, str]]:
    """Yield path, line and text of each line that a diff adds."""
    path, number, left = "", 0, 0
    for line in diff.split("\n"):
        if left <= 0 and line.startswith("+++ "):
            path = line[4:].removeprefix("b/").rstrip("\t")
        elif found := re.match(r"@@ -\d+(?:,(\d+))? \+(\d+)(?:,(\d+))? @@", line):
            number = int(found[2])
            left = int(found[1] or 1) + int(found[3] or 1)
        elif left > 0 and line[:1] == "+":
            yield path, number, line[1:].rstrip("\r")
            number, left = number + 1, left - 1
        elif left > 0 and line[:1] == "-":
            left -= 1
        elif left > 0 and line[:1] in (" ", ""):
            number, left = number + 1, left - 2


def _changed_files(diff: str) -> dict[str, tuple[int, int]]:
    """Return the changed files with the counts of lines added and removed."""
    found: dict[str, tuple[int, int]] = {}
    path = ""
    for line in diff.split("\n"):
        if head := re.match(r"diff --git a/.* b/(.*)$", line):
            path = head[1]
            found[path] = 0, 0
        elif path and line.startswith("+") and not line.startswith("+++ "):
            found[path] = found[path][0] + 1, found[path][1]
        elif path and line.startswith("-") and not line.startswith("--- "):
            found[path] = found[path][0], found[path][1] + 1
    return found
