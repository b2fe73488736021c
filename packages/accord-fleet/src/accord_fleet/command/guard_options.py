"""The options of `accord fleet run` for sandboxes and providers of models."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, get_args

import click
import msgspec

from accord.errors import AccordError
from accord_fleet.gateway.providers import Provider, providers_of, read_providers
from accord_fleet.sandbox.host import sandbox_host
from accord_fleet.sandbox.isolation import why_not_isolated
from accord_fleet.sandbox.plan import any_workspace, why_not_shown
from accord_fleet.sandbox.settings import SandboxMode, SandboxSettings
from accord_fleet.types.agent import AgentSpec


class GuardOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What the options say."""

    sandbox: SandboxMode = "off"
    read: tuple[str, ...] = ()
    allow_hosts: tuple[str, ...] = ()
    providers: Path | None = None

    def settings(
        self, agents: Sequence[AgentSpec], *, is_local: bool, out: str | None = None
    ) -> tuple[SandboxSettings | None, tuple[Provider, ...], list[str]]:
        """Return the sandbox, the providers, and everything that is wrong with them.

        `out` is the folder of the results. On a cluster, its machines are checked when they start.
        """
        errors: list[str] = []
        sandbox = self._sandbox(errors, is_local=is_local, out=out)
        errors += why_not_isolated(sandbox, agents)
        providers: tuple[Provider, ...] = ()
        try:
            if self.providers is not None:
                providers = read_providers(self.providers)
            names = {agent.name: agent.provider for agent in agents if agent.provider is not None}
            for provider in providers_of(names, providers).values():
                if is_local:
                    provider.key_value(os.environ)
        except AccordError as error:
            errors.append(str(error))
        return sandbox, providers, errors

    def _sandbox(
        self, errors: list[str], *, is_local: bool, out: str | None
    ) -> SandboxSettings | None:
        if self.sandbox == "off" and not self.read and not self.allow_hosts:
            return None
        home = os.path.expanduser("~")  # noqa: PTH111  # a text
        read = tuple(
            f"~/{path.removeprefix(f'{home}/')}" if path.startswith(f"{home}/") else path
            for path in self.read  # the shell has expanded `~`; on a cluster the home is another
        )
        settings = SandboxSettings(mode=self.sandbox, read=read, allow_hosts=self.allow_hosts)
        if self.sandbox == "off":
            option = "--sandbox-read" if self.read else "--sandbox-allow"
            errors.append(f"{option} needs --sandbox")
            return settings
        wrong = settings.errors()
        errors += wrong
        if is_local:
            try:
                home = sandbox_host().home
            except AccordError as error:
                errors.append(str(error))
            if not wrong:
                results = None if out is None or "://" in out else os.path.realpath(out)
                errors += why_not_shown(settings, home, any_workspace(), results)
        return settings


def guard_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options to a command, which gets them as `sandbox`, `read`, … of `GuardOptions`."""
    for option in reversed(
        (
            click.option(
                "--sandbox",
                is_flag=False,
                flag_value="models",
                default="off",
                type=click.Choice(get_args(SandboxMode)),
                help="Run agents and commands of graders in bubblewrap. `models` (if no value is "
                "given): the network leads to the models only.",
            ),
            click.option(
                "--sandbox-read",
                "read",
                multiple=True,
                metavar="PATH",
                help="A file or folder, such as a login in your home, that agents can read.",
            ),
            click.option(
                "--sandbox-allow",
                "allow_hosts",
                multiple=True,
                metavar="HOST",
                help="A host that agents reach: example.com, *.example.com or example.com:8443.",
            ),
            click.option(
                "--providers",
                type=click.Path(exists=True, dir_okay=False, path_type=Path),
                metavar="FILE",
                help="providers.toml: addresses, rates and prices of providers of models.",
            ),
        )
    ):
        command = option(command)
    return command


def isolation_lines(sandbox: SandboxSettings | None, *, is_local: bool) -> list[str]:
    """Return what is isolated and what is not, as lines for the terminal."""
    if sandbox is None or sandbox.mode == "off":
        return [
            "Isolation: each attempt has its own folder and process group. There is no sandbox:"
            " agents can do what you can (--sandbox)."
        ]
    network = {
        "models": ", ".join(("the model gateway", *sandbox.allow_hosts)) + " only",
        "no-network": "off",
        "network": "everything that the machine reaches",
    }[sandbox.mode]
    lines = [
        "Isolation: bubblewrap. Only the workspace is writable; the home and /tmp are private;"
        f" network: {network}.",
        "Not limited by cgroups: memory and processes are watched and then ended. Processors are"
        " not limited.",
    ]
    if not is_local:
        return lines
    host = sandbox_host()
    if host.is_root:
        lines.append("Not isolated: you are root, so the kernel does not limit processes.")
    if "--disable-userns" not in host.namespaces:
        lines.append("Not isolated: agents can make user namespaces (bubblewrap before 0.8).")
    return lines
