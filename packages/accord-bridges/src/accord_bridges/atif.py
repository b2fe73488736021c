"""Steps of an agent as a trajectory in ATIF, Harbor's format of JSON (version 1.7).

A trajectory is a document with numbered steps: the prompt, then what the agent said, with its tool
calls and their results. Harbor need not be installed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from accord_bridges.steps import Step

__all__ = ("VERSION", "filled", "metrics_of", "trajectory_of")

VERSION = "ATIF-v1.7"


def trajectory_of(
    *turns: tuple[str, Sequence[Step]], agent: str, version: str, model: str | None = None
) -> dict[str, Any]:
    """Return the trajectory of turns: a prompt and the steps of each.

    Calls that are not finished have no result.
    """
    said: list[dict[str, Any]] = []
    for prompt, steps in turns:
        said.append({"step_id": len(said) + 1, "source": "user", "message": prompt})
        for step in filled(steps):
            said.append(_agent_step(len(said) + 1, step))
    every = [step for _, steps in turns for step in steps]
    about = {"name": agent, "version": version} | ({} if model is None else {"model_name": model})
    return {
        "schema_version": VERSION,
        "agent": about,
        "steps": said,
        "final_metrics": {
            **{f"total_{name}": value for name, value in metrics_of(every).items()},
            "total_steps": len(said),
        },
    }


def filled(steps: Sequence[Step]) -> list[Step]:
    """Return the steps in which the agent said or called something, or that have the usage."""
    return [step for step in steps if not step.is_empty]


def metrics_of(steps: Sequence[Step]) -> dict[str, Any]:
    """Return what steps have used, by ATIF's names; what the agent does not report is left out."""
    found: dict[str, Any] = {}
    for usage in [step.usage for step in steps if step.usage is not None]:
        found["prompt_tokens"] = found.get("prompt_tokens", 0) + usage.input
        found["completion_tokens"] = found.get("completion_tokens", 0) + usage.output
        found["cached_tokens"] = found.get("cached_tokens", 0) + (usage.cached_read or 0)
    if cost := sum(step.cost for step in steps):
        found["cost_usd"] = cost
    return found


def _agent_step(number: int, step: Step) -> dict[str, Any]:
    made: dict[str, Any] = {"step_id": number, "source": "agent", "message": step.text}
    if step.thought:
        made["reasoning_content"] = step.thought
    if step.calls:
        made["tool_calls"] = [
            {
                "tool_call_id": call.state.id,
                "function_name": call.name,
                "arguments": call.arguments,
                "extra": {"title": call.state.title, "status": call.state.status},
            }
            for call in step.calls
        ]
        results = [
            {"source_call_id": call.state.id, "content": call.output}
            for call in step.calls
            if call.ended.is_set()
        ]
        if results:
            made["observation"] = {"results": results}
    if metrics := metrics_of([step]):
        made["metrics"] = metrics
    return made
