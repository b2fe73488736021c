"""A recording as a module of tests, to be changed by hand."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from accord.text.lenient_json import is_array, is_object
from accord_trace.pairing import Pairing
from accord_trace.stats import stats_of
from accord_trace.trace import Trace

_HEAD = '''\
"""The turns of the recording {name}, with the recorded agent and with the agent itself."""

import asyncio
import shutil

import pytest

import accord
from accord.client.permissions import allow

RECORDING = {recording!r}  # relative to this file
AGENT = {argv!r}


@pytest.fixture(params=["recording", "agent"])
def agent(request, replayed_agent):
    """The recorded agent, and the command of the agent itself."""
    if request.param == "recording":
        return replayed_agent(RECORDING)
    if shutil.which(AGENT[0]) is None:
        pytest.skip(f"{{AGENT[0]}} is not installed")
    return AGENT


async def stop_reasons(agent, cwd, sessions):
    """Run the turns of each session, one after the other; return their stop reasons."""
    found = []
    async with accord.connect(agent, permissions=allow("*")) as connected:
        for turns in sessions:
            session = await connected.new_session(cwd=cwd)
            for prompt, expected in turns:
                async with session.prompt(prompt) as turn:
                    if expected == "cancelled":
                        await turn.cancel()
                    try:
                        found.append(await turn.wait())
                    except accord.RequestError:
                        found.append("error")
    return found
'''
_TEST = """

def test_recorded_turns(agent, tmp_path):
    sessions = [
{sessions}    ]
    expected = [reason for turns in sessions for _, reason in turns]
    assert asyncio.run(stop_reasons(agent, str(tmp_path), sessions)) == expected
"""


def pytest_module(trace: Trace, recording: str) -> Iterator[str]:
    """Yield the parts of a module for pytest; `recording` is its path from the module's folder.

    Its test opens the recorded sessions, sends the text of the recorded prompts, and compares the
    stop reasons: with the fixture `replayed_agent`, and with the recorded command of the agent.
    """
    sessions = _sessions(trace)
    name = ascii(trace.name)[1:-1].replace('"""', "'''")
    argv = list(trace.header.argv) or ["my-agent"]
    yield _HEAD.format(name=name, recording=_Ascii(recording), argv=_Ascii(argv))
    shown = [
        "".join(("        [\n", *(f"            {turn!a},\n" for turn in turns), "        ],\n"))
        for turns in sessions.values()
        if turns
    ]
    if shown:
        yield _TEST.format(sessions="".join(shown))


class _Ascii:
    """A value as Python source in ASCII: text of a recording cannot leave its string."""

    def __init__(self, value: Any) -> None:
        self._value = value

    def __repr__(self) -> str:
        return ascii(self._value)


def _sessions(trace: Trace) -> dict[str, list[tuple[str, str]]]:
    """Return the prompts and stop reasons of the ended turns of each new session."""
    pairing = Pairing()
    prompts: dict[str, list[str]] = {}
    for record in trace:
        answered = pairing.add(record)
        value = record.value()
        if not is_object(value):
            continue
        if record.method == "session/prompt" and record.type == "request":
            if record.session in prompts:
                prompts[record.session].append(_text_of(value.get("prompt")))
        elif answered is not None and answered.method == "session/new" and not record.is_error:
            prompts.setdefault(str(value.get("sessionId")), [])
    found: dict[str, list[tuple[str, str]]] = {session: [] for session in prompts}
    sent = {session: iter(texts) for session, texts in prompts.items()}
    for turn in stats_of(trace).turns:
        text = next(sent[turn.session], None) if turn.session in sent else None
        if text is not None and turn.stop_reason is not None:  # it has ended
            found[str(turn.session)].append((text, turn.stop_reason))
    return found


def _text_of(blocks: Any) -> str:
    if not is_array(blocks):
        return ""
    texts = [block.get("text") for block in blocks if is_object(block)]
    return "\n".join(text for text in texts if isinstance(text, str))
