"""The sandbox of the agents on one machine."""

from __future__ import annotations

import contextlib
import os
from collections.abc import AsyncGenerator, Mapping, Sequence
from pathlib import Path

from accord_fleet.errors import AttemptFailed
from accord_fleet.parts import Launch
from accord_fleet.sandbox.allow_list import serve_allow_list
from accord_fleet.sandbox.host import SandboxHost, sandbox_host
from accord_fleet.sandbox.plan import Exits, SandboxPlan, any_workspace, plan_sandbox, why_not_shown
from accord_fleet.sandbox.settings import SandboxError, SandboxSettings
from accord_fleet.socket_folder import socket_folder


class BubblewrapSandbox:
    """Plans the sandboxes of attempts; see `Sandbox` in `accord_fleet.parts`."""

    def __init__(
        self,
        settings: SandboxSettings,
        host: SandboxHost,
        exits: Exits,
        *,
        environ: Mapping[str, str] = os.environ,
    ) -> None:
        self._settings = settings
        self._host = host
        self._exits = exits
        self._environ = environ

    def plan(self, launch: Launch, workspace: Path, secrets: Sequence[str] = ()) -> Launch:
        """Return the launch with the sandbox around it; raise `AttemptFailed` if it cannot run.

        `secrets` are names of variables of this machine that the command gets.
        """
        env = {name: self._environ[name] for name in secrets if name in self._environ}
        env |= {name: value for name, value in launch.env.items() if value is not None}
        try:
            planned = self._planned(launch.argv, workspace, env)
        except SandboxError as error:
            raise AttemptFailed("sandbox", str(error)) from error
        return Launch(
            argv=(*planned.argv, *launch.argv),
            env=planned.env_changes(self._environ),
            cwd=str(workspace),
            is_shared=False,
        )

    def describe(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Return what is isolated, and what is not."""
        planned = self._planned((self._host.python,), Path("/nonexistent"), {})
        return planned.active, planned.inactive

    def _planned(
        self, command: Sequence[str], workspace: Path, env: Mapping[str, str]
    ) -> SandboxPlan:
        return plan_sandbox(
            self._settings,
            self._host,
            workspace=str(workspace),
            command=command,
            env=env,
            inherited=self._environ,
            exits=self._exits,
        )


@contextlib.asynccontextmanager
async def open_sandbox(
    settings: SandboxSettings, *, gateway: tuple[str, int] | None = None
) -> AsyncGenerator[BubblewrapSandbox]:
    """Make sandboxes available in the block; raise `SandboxError` that says what is missing.

    The paths that agents can read must exist.

    `gateway` is the Unix socket of the model gateway, and its port.
    """
    settings.check()
    host = sandbox_host()
    if errors := why_not_shown(settings, host.home, any_workspace()):
        raise SandboxError("\n".join(errors))
    socket, port = (None, 0) if gateway is None else gateway
    with socket_folder() as folder:
        async with contextlib.AsyncExitStack() as stack:
            proxy: str | None = None
            if settings.allow_hosts:
                proxy = str(folder / "proxy.sock")
                await stack.enter_async_context(serve_allow_list(settings.allow_hosts, Path(proxy)))
            exits = Exits(gateway=socket, gateway_port=port, proxy=proxy)
            yield BubblewrapSandbox(settings, host, exits)
