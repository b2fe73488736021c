"""How the process of an agent is started for a task."""

from __future__ import annotations

from pathlib import Path

from accord_fleet.parts import Launch, Sandbox
from accord_fleet.types.agent import AgentSpec
from accord_fleet.types.task import Task


def launch_for(spec: AgentSpec, task: Task, workspace: Path, sandbox: Sandbox | None) -> Launch:
    """Return the launch, in the sandbox if there is one; raise `AttemptFailed` if it cannot run."""
    launch = Launch(
        argv=spec.command,
        env={**spec.env, **task.env},
        cwd="" if spec.warm else str(workspace),
    )
    return launch if sandbox is None else sandbox.plan(launch, workspace, spec.secrets)
