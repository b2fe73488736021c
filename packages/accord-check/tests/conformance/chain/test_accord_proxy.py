"""Accord's proxies obey the rules of chains, as the kit judges them from outside."""

from __future__ import annotations

import runpy
import sys
from collections.abc import Callable
from functools import partial

import pytest

from accord import Proxy
from accord.proxy.conductor import serve_stages
from accord.transports.base import Transport
from accord.transports.memory import ServedTransport
from accord.transports.process import process
from accord_conformance.chain.line import DIALECTS
from accord_conformance.chain.proxy_context import ProxyProbe, ProxySettings
from accord_conformance.chain.proxy_scenarios import proxy_scenarios
from accord_conformance.chain.run import ChainRun
from project import ROOT
from requirement import requirement

SCENARIOS = {one.name: one for one in proxy_scenarios()}
EXAMPLES = ROOT / "examples/proxies"
PROGRAM = (sys.executable, "-c", "from accord import Proxy; Proxy().run()")
BOTH = pytest.mark.parametrize("version", [1, 2])


async def passes(
    *names: str,
    version: int,
    make: Callable[[], Proxy] = Proxy,
    command: tuple[str, ...] | None = None,
    dialect: str = "acp",
    changes: tuple[str, ...] = (),
) -> None:
    """Run scenarios with a program, or a proxy of this process; every rule is obeyed."""

    def connect(noise: Callable[[str], None]) -> Transport:
        if command is None:
            return ServedTransport(partial(serve_stages, [make().stage()]))
        return process(*command, on_stdout_noise=noise)()

    settings = ProxySettings(changes=frozenset(changes))
    probe = ProxyProbe(connect, settings, DIALECTS[dialect], lambda *_: None)
    chosen = [SCENARIOS[name] for name in names]
    result = await ChainRun("proxy", chosen, probe.make_context, probe).run([version])
    assert result.unsupported == {}
    assert result.kit_errors == []
    (report,) = result.reports
    found = [(one.rule, one.expected, one.got) for one in report.failures()]
    assert found == []
    assert [(one.outcome, one.reason) for one in result.scenario_results] == [
        ("finished", "") for _ in names
    ]


@BOTH
@requirement("R-PROXY-03", "R-PROXY-06", "R-PROXY-13", "R-PROXY-14")
async def test_response_to_proxy_initialize_is_that_of_the_successor(version: int) -> None:
    names = ["forward", "capabilities", "failure", "terminal"]
    await passes(*(f"handshake/{name}" for name in names), version=version)


@requirement("R-PROXY-14")
async def test_lower_version_of_the_successor_is_kept() -> None:
    await passes("handshake/lower-version", version=2)


@BOTH
@requirement("R-PROXY-04", "R-PROXY-05", "R-PROXY-15")
async def test_unknown_messages_and_metadata_pass_unchanged(version: int) -> None:
    names = ["requests", "notifications", "params", "envelope", "errors", "protocol"]
    await passes(*(f"forward/{name}" for name in names), version=version)


@requirement("R-REQCAN-11")
async def test_each_hop_cancels_its_own_request() -> None:
    await passes("cancel/hops", "cancel/unknown", version=1)


@requirement("R-PROXY-18", "R-PROXY-19", "R-MOA-10")
async def test_order_is_kept_and_mcp_messages_pass() -> None:
    await passes("order/direction", "order/directions", "mcp/forward", version=2)


@requirement("R-PROXY-25")
@pytest.mark.parametrize("dialect", ["acp", "rust", "thinkwell"])
async def test_dialect_of_the_handshake_is_kept(dialect: str) -> None:
    await passes("handshake/forward", "forward/requests", version=1, dialect=dialect)


@requirement("R-PROXY-25")
async def test_program_keeps_the_dialect_of_the_handshake() -> None:
    await passes("forward/requests", version=1, dialect="rust", command=PROGRAM)


@requirement("R-MOA-02", "R-MOA-06", "R-MOA-08", "R-MOA-12")
async def test_example_that_rewrites_prompts_and_adds_tools_passes_everything_else() -> None:
    example = runpy.run_path(str(EXAMPLES / "rewrite_prompts.py"))
    await passes(
        "forward/protocol",
        "mcp/added",
        version=1,
        make=example["Glossary"],
        changes=("session/new", "session/prompt"),  # it has tools, too
    )
