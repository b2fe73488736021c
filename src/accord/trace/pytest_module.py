"""A recording as a module of tests, to be changed by hand."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from accord.text.lenient_json import is_array, is_object
from accord.trace.stats import TurnStats, stats_of
from accord.trace.trace import Trace

__all__ = ("pytest_module",)

_HEAD = '''\
"""Prompts of the recording {name}, sent to the agent again."""

import asyncio

import accord

AGENT = {argv!r}


async def stop_reasons(cwd: str, prompts: list[str]) -> list[str]:
    """Send prompts to a new session; return the stop reason of each turn."""
    found = []
    async with accord.connect(AGENT) as agent:
        session = await agent.new_session(cwd=cwd)
        for prompt in prompts:
            async with session.prompt(prompt) as turn:
                found.append(await turn.wait())
    return found
'''
_TEST = """

def test_session_{number}(tmp_path) -> None:
    prompts = {prompts}
    assert asyncio.run(stop_reasons(str(tmp_path), prompts)) == {reasons}
"""


def pytest_module(trace: Trace) -> Iterator[str]:
    """Yield the parts of a module for pytest: one test for each session with ended turns.

    Each test sends the recorded prompts, and compares the stop reasons. Only text is sent; the
    agent is started by the recorded command.
    """
    prompts: dict[str | None, list[str]] = {}
    for record in trace:
        if record.method == "session/prompt" and record.type == "request":
            params = record.value()
            if is_object(params):
                prompts.setdefault(record.session, []).append(_text_of(params.get("prompt")))
    turns: dict[str | None, list[TurnStats]] = {}
    for turn in stats_of(trace).turns:
        turns.setdefault(turn.session, []).append(turn)
    yield _HEAD.format(name=ascii(trace.name)[1:-1], argv=trace.header.argv or ["my-agent"])
    number = 0
    for session, ran in turns.items():
        reasons = [turn.stop_reason for turn in ran if turn.seconds is not None]
        if reasons:
            number += 1
            texts = prompts[session][: len(reasons)]
            yield _TEST.format(number=number, prompts=_literal(texts), reasons=_literal(reasons))


def _literal(values: list[Any]) -> str:
    """Return a list as Python source in ASCII: text of a recording cannot leave its string."""
    return "[" + ", ".join(map(ascii, values)) + "]"


def _text_of(blocks: Any) -> str:
    if not is_array(blocks):
        return ""
    texts = [block.get("text") for block in blocks if is_object(block)]
    return "\n".join(text for text in texts if isinstance(text, str))
