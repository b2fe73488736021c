"""The states in which an agent accepts `initialize`."""

from __future__ import annotations

import pytest

from accord.errors import InvalidRequest
from accord.rules.negotiation import AgentLifecycle
from accord.version import PROTOCOL_VERSIONS, ProtocolVersion
from requirement import requirement

EACH = pytest.mark.parametrize("version", PROTOCOL_VERSIONS)


def ready(version: ProtocolVersion) -> AgentLifecycle:
    lifecycle = AgentLifecycle()
    lifecycle.begin(version)
    lifecycle.complete(version)
    return lifecycle


@EACH
def test_initialize_settles_the_version(version: ProtocolVersion) -> None:
    lifecycle = AgentLifecycle()
    assert (lifecycle.state, lifecycle.version) == ("new", None)
    lifecycle.begin(version)
    assert lifecycle.state == "initializing"
    lifecycle.complete(version)
    assert (lifecycle.state, lifecycle.version) == ("ready", version)


@requirement("R-INIT-34")
def test_initialize_is_rejected_while_another_is_handled() -> None:
    lifecycle = AgentLifecycle()
    lifecycle.begin(2)
    with pytest.raises(InvalidRequest):
        lifecycle.begin(2)
    assert lifecycle.state == "initializing"


@EACH
def test_initialize_is_rejected_while_a_repeat_is_handled(version: ProtocolVersion) -> None:
    lifecycle = ready(version)
    lifecycle.begin(version)
    with pytest.raises(InvalidRequest):
        lifecycle.begin(version)


@requirement("R-INIT-30")
def test_failed_initialize_can_be_sent_again() -> None:
    lifecycle = AgentLifecycle()
    lifecycle.begin(1)
    lifecycle.fail()
    assert (lifecycle.state, lifecycle.version) == ("new", None)
    lifecycle.begin(2)
    lifecycle.complete(2)
    assert lifecycle.version == 2


@requirement("R-INIT-33", "R-INIT-39")
@EACH
def test_initialize_can_be_repeated_before_other_requests(version: ProtocolVersion) -> None:
    lifecycle = ready(version)
    lifecycle.begin(version)
    lifecycle.complete(version)
    assert lifecycle.state == "ready"


@requirement("R-INIT-33")
@EACH
def test_failed_repeat_keeps_the_version(version: ProtocolVersion) -> None:
    lifecycle = ready(version)
    lifecycle.begin(2)
    lifecycle.fail()
    assert (lifecycle.state, lifecycle.version) == ("ready", version)


@requirement("R-INIT-34")
def test_v2_rejects_initialize_after_another_request() -> None:
    lifecycle = ready(2)
    lifecycle.use()
    with pytest.raises(InvalidRequest):
        lifecycle.begin(2)


@requirement("R-INIT-39", "R-ROUTE-04")
def test_v1_accepts_initialize_at_any_time() -> None:
    lifecycle = ready(1)
    lifecycle.use()
    lifecycle.begin(1)
    lifecycle.complete(1)
    assert lifecycle.state == "in use"


@requirement("R-INIT-34")
@pytest.mark.parametrize("requested", [0, 1])
def test_v2_rejects_a_repeat_with_fewer_capabilities(requested: int) -> None:
    lifecycle = ready(2)
    with pytest.raises(InvalidRequest):
        lifecycle.begin(requested)
    assert lifecycle.state == "ready"


@requirement("R-INIT-33")
@pytest.mark.parametrize("requested", [2, 3])
def test_v2_accepts_a_repeat_with_the_same_or_more_capabilities(requested: int) -> None:
    lifecycle = ready(2)
    lifecycle.begin(requested)
    assert lifecycle.state == "initializing"


@requirement("R-INIT-30")
def test_message_before_initialize_is_an_invalid_request() -> None:
    error = AgentLifecycle.too_early("session/new")
    assert error.code == -32600
    assert "session/new" in error.message
