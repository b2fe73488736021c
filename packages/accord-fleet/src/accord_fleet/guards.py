"""What guards the attempts on one machine: gateway, sandbox, breaker, watcher, redaction."""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial

import msgspec

from accord.text.redact import secret_variables
from accord_fleet.breaker import AgentBreaker
from accord_fleet.control import OnWait
from accord_fleet.engine import RunSettings
from accord_fleet.gateway.limiter import KeyLimits, KeyWait, Limiter, LocalLimiter
from accord_fleet.gateway.providers import Provider, providers_of
from accord_fleet.parts import Breaker, Gateway, Sandbox
from accord_fleet.process_watcher import ProcessWatcher
from accord_fleet.redaction import Redactor
from accord_fleet.types.limits import Limits


class Guards(msgspec.Struct, frozen=True, kw_only=True):
    """The guards of one machine."""

    gateway: Gateway | None = None
    sandbox: Sandbox | None = None
    breaker: Breaker = msgspec.field(default_factory=AgentBreaker)
    watcher: ProcessWatcher = msgspec.field(default_factory=ProcessWatcher)
    redactor: Redactor = msgspec.field(default_factory=Redactor)
    hidden: tuple[str, ...] = ()
    """Variables of this machine with secrets, which graders do not get."""
    processes: int | None = None
    """Processes of an attempt whose limits have none."""

    def limits(self, limits: Limits) -> Limits:
        """Return limits with those of the sandbox."""
        if limits.processes is not None or self.processes is None:
            return limits
        return msgspec.structs.replace(limits, processes=self.processes)


def providers_for(settings: RunSettings) -> dict[str, Provider]:
    """Return the providers of the agents by name; raise `ProviderError` for an unknown one."""
    names = {agent.name: agent.provider for agent in settings.agents if agent.provider is not None}
    return providers_of(names, tuple(settings.providers))


def key_limits(settings: RunSettings) -> dict[str, KeyLimits]:
    """Return what the limiter of a run needs, which an actor may host."""
    return {
        name: KeyLimits(
            requests_per_minute=provider.requests_per_minute,
            tokens_per_minute=provider.tokens_per_minute,
        )
        for name, provider in providers_for(settings).items()
    }


def secrets_of(settings: RunSettings) -> Redactor:
    """Return what removes the secrets of this machine, and those of the agents' variables."""
    names = _secret_names(settings)
    names |= {provider.key for provider in settings.providers}
    redactor = Redactor(os.environ[name] for name in names if name in os.environ)
    for agent in settings.agents:
        redactor.add(secret_variables(agent.env).values())
    return redactor


def _secret_names(settings: RunSettings) -> set[str]:
    named = (name for agent in settings.agents for name in (*agent.secrets, agent.token_variable))
    return {*secret_variables(os.environ), *settings.secrets, *named}


@asynccontextmanager
async def open_guards(
    settings: RunSettings,
    *,
    limiter: Limiter | None = None,
    breaker: Breaker | None = None,
    on_wait: OnWait | None = None,
) -> AsyncGenerator[Guards]:
    """Make the guards of a run on this machine.

    `limiter` and `breaker` are given in a slot of a cluster, where those of the whole cluster are
    in other processes. `on_wait` is called when agents wait. Raise
    `ProviderError` if the key of a provider is missing, and `SandboxError` if a sandbox is asked
    for that is not available.
    """
    names = _secret_names(settings)
    redactor = secrets_of(settings)
    async with AsyncExitStack() as stack:
        gateway, way = None, None
        if providers := providers_for(settings):
            # Only a run with providers needs a server.
            from accord_fleet.gateway.gateway import open_gateway

            if limiter is None:
                said = None if on_wait is None else partial(say_key_wait, settings, on_wait)
                limiter = LocalLimiter(key_limits(settings), said)
            gateway = await stack.enter_async_context(
                open_gateway(tuple(providers.values()), limiter)
            )
            redactor.add(gateway.secrets)
            names |= {provider.key for provider in providers.values()}
            way = (gateway.socket, gateway.port)
        sandbox, processes = None, None
        if settings.sandbox is not None and settings.sandbox.mode != "off":
            from accord_fleet.sandbox.sandbox import open_sandbox

            opened = open_sandbox(settings.sandbox, gateway=way)
            sandbox = await stack.enter_async_context(opened)
            processes = settings.sandbox.processes

        def held(agent: str, why: str | None) -> None:
            if on_wait is not None:
                on_wait(agent, None if why is None else redactor.text(why))

        yield Guards(
            gateway=gateway,
            sandbox=sandbox,
            breaker=breaker or AgentBreaker(on_wait=held),
            redactor=redactor,
            hidden=tuple(sorted(names)),
            processes=processes,
        )


def say_key_wait(settings: RunSettings, on_wait: OnWait, name: str, wait: KeyWait | None) -> None:
    """Say that the requests of a provider's agents wait; the key is named by its variable."""
    agents = ", ".join(agent.name for agent in settings.agents if agent.provider == name)
    if wait is None:
        on_wait(agents, None)
        return
    requests = "1 request" if wait.requests == 1 else f"{wait.requests:,} requests"
    why = "the pause that the provider asked for, with" if wait.is_paused else "the limit of"
    seconds = max(1, round(wait.seconds))
    key = providers_for(settings)[name].key
    on_wait(agents, f"waiting {seconds} s for {why} the key in {key} ({requests})")
