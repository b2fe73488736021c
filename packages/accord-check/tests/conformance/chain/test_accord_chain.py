"""Accord's conductor obeys the rules of chains, as the kit judges them from outside."""

from __future__ import annotations

import sys

import pytest

from accord_conformance.chain.conductor_context import (
    ConductorProbe,
    ConductorProcess,
    component_names,
)
from accord_conformance.chain.conductor_scenarios import conductor_scenarios
from accord_conformance.chain.line import DIALECTS
from accord_conformance.chain.run import ChainRun
from requirement import requirement

SCENARIOS = {one.name: one for one in conductor_scenarios()}
BOTH = pytest.mark.parametrize("version", [1, 2])


async def passes(*names: str, version: int, dialect: str = "acp") -> None:
    """Run scenarios with `accord chain`, two proxies and an agent; every rule is obeyed."""
    command = [sys.executable, "-m", "accord", "chain", "{proxy}", "{proxy}", "{agent}"]
    probe = ConductorProbe(
        lambda: ConductorProcess(command),
        component_names(command),
        DIALECTS[dialect],
        answer_s=10.0,
    )
    chosen = [SCENARIOS[name] for name in names]
    result = await ChainRun("conductor", chosen, probe.make_context, probe).run([version])
    assert result.unsupported == {}
    assert result.kit_errors == []
    (report,) = result.reports
    found = [(one.rule, one.expected, one.got) for one in report.failures()]
    assert found == []
    assert [(one.outcome, one.reason) for one in result.scenario_results] == [
        ("finished", "") for _ in names
    ]
    for one in chosen:
        assert set(one.rules) <= {rule for rule, kept in report.rules.items() if kept.passed}


@BOTH
@requirement("R-PROXY-01", "R-PROXY-02", "R-PROXY-09", "R-PROXY-24")
async def test_components_start_at_initialize_and_are_initialized_in_their_order(
    version: int,
) -> None:
    await passes("handshake/initialize", version=version)


@requirement("R-PROXY-10", "R-PROXY-23")
async def test_refused_handshake_is_repeated_and_proxy_initialize_is_refused() -> None:
    await passes("handshake/failure", "handshake/proxy-initialize", version=1)


@requirement("R-PROXY-07", "R-PROXY-08", "R-PROXY-16", "R-PROXY-20")
async def test_messages_pass_as_the_bytes_that_were_received() -> None:
    await passes("forward/ends", "forward/hops", version=2)


@requirement("R-PROXY-18", "R-PROXY-19", "R-PROXY-21")
async def test_order_and_cancellation_are_per_hop() -> None:
    await passes("order/ends", "order/directions", "cancel/ends", "cancel/forms", version=2)


@requirement("R-PROXY-17", "R-PROXY-22")
async def test_exit_of_a_component_ends_the_chain_with_its_name() -> None:
    await passes("life/agent-exit", "life/proxy-exit", version=1)


@requirement("R-PROXY-25")
async def test_proxies_of_the_rust_dialect_are_recognized() -> None:
    await passes("forward/hops", version=1, dialect="rust")


@pytest.mark.slow
@requirement("R-PROXY-19")
async def test_stalled_client_stops_the_chain() -> None:
    await passes("order/stalled-client", version=1)
