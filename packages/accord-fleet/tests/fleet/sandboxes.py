"""Runs programs in a sandbox on this machine, for tests."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from collections.abc import Mapping
from pathlib import Path

import pytest

from accord_fleet.sandbox.bubblewrap import Exits, plan_sandbox, sandbox_host
from accord_fleet.sandbox.settings import SandboxError, SandboxSettings

__all__ = ("NEEDS_SANDBOX", "run_inside", "start_inside")

_LIMIT_S = 30.0


def _missing() -> str | None:
    try:
        sandbox_host()
    except SandboxError as error:
        if os.environ.get("ACCORD_REQUIRE_SANDBOX"):
            raise
        return str(error)
    return None


_REASON = _missing()
NEEDS_SANDBOX = pytest.mark.skipif(_REASON is not None, reason=_REASON or "")


def start_inside(
    workspace: Path,
    program: str,
    settings: SandboxSettings | None = None,
    *,
    exits: Exits | None = None,
    env: Mapping[str, str] | None = None,
) -> subprocess.Popen[str]:
    """Start a Python program in a sandbox with this workspace."""
    command = [sys.executable, "-c", textwrap.dedent(program)]
    plan = plan_sandbox(
        settings or SandboxSettings(mode="no-network"),
        sandbox_host(),
        workspace=str(workspace),
        command=command,
        env=env or {},
        inherited=os.environ,
        exits=exits or Exits(),
    )
    return subprocess.Popen(
        [*plan.argv, *command],
        env=plan.env,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def run_inside(
    workspace: Path,
    program: str,
    settings: SandboxSettings | None = None,
    *,
    exits: Exits | None = None,
    env: Mapping[str, str] | None = None,
) -> str:
    """Run a Python program in a sandbox; return what it prints."""
    with start_inside(workspace, program, settings, exits=exits, env=env) as process:
        out, errors = process.communicate(timeout=_LIMIT_S)
    assert process.returncode == 0, errors
    return out
