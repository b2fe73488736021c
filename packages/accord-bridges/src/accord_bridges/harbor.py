"""ACP agents in Harbor: `AcpAgent` is an agent of Harbor that runs any ACP agent.

    harbor run -d DATASET -a accord_bridges.harbor:AcpAgent --ak command="opencode acp"

Harbor's environments run commands; `CommandTransport` makes a connection of them, so the agent's
process runs in the environment of the trial, and nothing else is installed there.
docs/how-to/evaluate-with-harbor.md describes it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, override

from harbor.agents.base import BaseAgent
from harbor.agents.capabilities import AgentCapabilities
from harbor.environments.base import BaseEnvironment
from harbor.models.agent.context import AgentContext
from harbor.models.task.config import MCPServerConfig

import accord
from accord import McpServerHttp, McpServerSse, McpServerStdio
from accord.client import permissions
from accord.errors import AccordError
from accord.transports.command_line import argv_of
from accord.types.mcp import McpServer
from accord_bridges.atif import metrics_of, trajectory_of
from accord_bridges.command_transport import CommandResult, CommandTransport
from accord_bridges.steps import Steps

_COMMAND_S = 120  # the longest time of one command in an environment


class AcpAgent(BaseAgent):
    """Runs an ACP agent in the environment of a trial.

    `command` starts the agent; `{model}` in it and in the values of the agent's environment becomes
    the name of Harbor's model. `install` is a script of the shell that installs it. `mode` and
    `options` are set in its session. `allow` and `deny` are rules for permissions, such as
    `["edit", "execute(git *)"]`; without `allow`, everything is allowed that is not denied.

    Raises `RuntimeError` with the cause if the agent cannot be started or fails.
    """

    capabilities = AgentCapabilities(atif=True, mcp_servers=True)

    def __init__(
        self,
        *args: Any,
        command: str | list[str],
        install: str | None = None,
        cwd: str | None = None,
        mode: str | None = None,
        options: Mapping[str, str | bool] | None = None,
        allow: list[str] | None = None,
        deny: list[str] | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(*args, **kwargs)
        model = self.model_name or ""
        self._argv = [word.replace("{model}", model) for word in argv_of(command)]
        self._env = {name: v.replace("{model}", model) for name, v in self.extra_env.items()}
        self._install, self._cwd, self._mode = install, cwd, mode
        self._options = dict(options or {})
        allowed = lambda _: "allow"  # noqa: E731
        self._policies = [
            *([permissions.deny(*deny)] if deny else []),
            permissions.allow(*allow) if allow else allowed,
        ]
        self._version: str | None = None

    @staticmethod
    @override
    def name() -> str:
        return "accord-acp"

    @override
    def version(self) -> str | None:
        return self._version

    @override
    async def setup(self, environment: BaseEnvironment) -> None:
        if self._install is None:
            return
        done = await environment.exec(self._install, env=self._env)
        if done.return_code != 0:
            said = (done.stderr or done.stdout or "").strip()
            raise RuntimeError(
                f"The script of `install` failed with status {done.return_code}: {said[-1000:]}"
            )

    @override
    async def run(
        self, instruction: str, environment: BaseEnvironment, context: AgentContext
    ) -> None:
        async def run(script: str, env: Mapping[str, str]) -> CommandResult:
            done = await environment.exec(script, env=dict(env), timeout_sec=_COMMAND_S)
            return CommandResult(done.return_code, done.stdout or "", done.stderr or "")

        agent = self._argv[0]
        steps = Steps()
        cwd = self._cwd or (await run("pwd", {})).stdout.strip()
        transport = CommandTransport(run, self._argv, cwd=cwd, env=self._env)
        try:
            async with accord.connect(transport, permissions=self._policies) as connected:
                agent, self._version = connected.info.name, connected.info.version
                session = await connected.new_session(
                    cwd=cwd, mcp_servers=[self._mcp_server(one) for one in self.mcp_servers]
                )
                if self._mode is not None:
                    await session.set_mode(self._mode)
                for name, value in self._options.items():
                    await session.set_option(name, value)
                async with session.prompt(instruction) as turn:
                    await steps.listen(turn)
                context.metadata = {"stop_reason": turn.stop_reason}
        except AccordError as error:
            notes = "".join(f"\n{note}" for note in getattr(error, "__notes__", ()))
            raise RuntimeError(f"The agent {self._argv[0]} failed: {error}{notes}") from error
        finally:  # also when the trial has ended it
            self._write(instruction, steps, agent, context)

    def _write(self, instruction: str, steps: Steps, agent: str, context: AgentContext) -> None:
        trajectory = trajectory_of(
            (instruction, steps.all),
            agent=agent,
            version=self._version or "unknown",
            model=self.model_name,
        )
        text = json.dumps(trajectory, ensure_ascii=False, default=str, indent=1)
        (self.logs_dir / "trajectory.json").write_text(text, "utf-8")
        used = metrics_of(steps.all)
        context.n_input_tokens = used.get("prompt_tokens")
        context.n_cache_tokens = used.get("cached_tokens")
        context.n_output_tokens = used.get("completion_tokens")
        context.cost_usd = used.get("cost_usd")

    def _mcp_server(self, given: MCPServerConfig) -> McpServer:
        """Return a server of the task; the values of its headers go to the agent alone."""
        if given.transport == "stdio":
            return McpServerStdio(given.name, given.command or "", tuple(given.args))
        known = self.mcp_header_env
        names = known.refs.get(given.name, {})
        headers = {name: known.env[variable] for name, variable in names.items()}
        kind = McpServerSse if given.transport == "sse" else McpServerHttp
        return kind(given.name, given.url or "", headers)
