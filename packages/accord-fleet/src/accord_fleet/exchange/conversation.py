"""What the agent of an attempt has said and called: its recording, divided into steps.

The recording is replayed to a client, which reads it as it reads a live agent.
"""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path
from typing import TypeAlias

import accord
from accord.errors import AccordError
from accord_bridges.steps import Step, Steps
from accord_fleet.dataset.dataset import Dataset
from accord_fleet.types import Result, Task
from accord_trace import TraceError
from accord_trace.replay import ReplayedAgent

Conversation: TypeAlias = list[tuple[str, list[Step]]]
"""The prompts that were sent, and the steps of each turn."""

_REPLAY_S = 20.0
_CONNECTIONS = 3  # an attempt begins again if its agent has ended before the session was open


async def conversation_of(dataset: Dataset, task: Task, result: Result) -> Conversation:
    """Return what was said; without a readable recording, the answer is the only step."""
    try:
        recording = await asyncio.to_thread(dataset.read_trace, result)
    except OSError:
        return _answer(task, result)
    turns: list[tuple[str, Steps]] = []
    with tempfile.TemporaryDirectory(prefix="accord-export-") as folder:
        path = Path(folder) / Path(result.trace or "").name
        await asyncio.to_thread(path.write_bytes, recording)
        try:
            agent = ReplayedAgent(path)
        except TraceError:
            return _answer(task, result)
        for _ in range(_CONNECTIONS):
            try:
                async with asyncio.timeout(_REPLAY_S):
                    await _replay(agent, task, result, turns)
            except (AccordError, TimeoutError):  # the recording ends here
                if not turns:
                    continue
            break
    if all(step.is_empty for _, steps in turns for step in steps.all):
        return _answer(task, result)
    return [(prompt, steps.all) for prompt, steps in turns]


async def _replay(
    agent: ReplayedAgent, task: Task, result: Result, turns: list[tuple[str, Steps]]
) -> None:
    ended = result.stop_reasons
    async with accord.connect(agent, permissions=lambda _: "allow") as connected:
        session = await connected.new_session(cwd=Path.cwd())
        for number, prompt in enumerate(task.prompts):
            is_cut = number >= len(ended)
            if is_cut and result.status == "finished":
                return  # a refusal ended the attempt before
            steps = Steps()
            turns.append((prompt, steps))
            try:
                async with session.prompt(prompt) as turn:
                    if is_cut or ended[number] == "cancelled":
                        await turn.cancel()
                    await steps.listen(turn)
            except AccordError:
                steps.end("cancelled")
                raise
            if is_cut:
                return


def _answer(task: Task, result: Result) -> Conversation:
    step = Step()
    step.text = result.answer
    step.stop_reason = result.stop_reasons[-1] if result.stop_reasons else "cancelled"
    step.closed.set()
    *before, last = task.prompts
    found: Conversation = [(prompt, []) for prompt in before]
    return [*found, (last, [step])]
