"""The process of the agent: it exits when stdin is closed."""

from __future__ import annotations

import signal
import time

from accord.errors import ConnectionLost
from accord.rules.quirks import tolerates
from accord_conformance.agent.context import AgentContext
from accord_conformance.harness.scenario import Advisory, scenario

# A transport waits this long for the process to exit before it sends a signal.
_LEAVES_S = 2.0
_TERMINATED = -int(signal.SIGTERM)
_KILLED = -int(getattr(signal, "SIGKILL", 9))


@scenario("shutdown/stdin-closed", isolated=True, media=("stdio",))
@tolerates("stays-after-stdin")
async def _leaves(context: AgentContext) -> None:
    """Stdin is closed while the agent waits for a request; the process has to exit."""
    client = await context.connect_initialized()
    # A session, if it needs no login.
    await client.open_session("session/new", client.setup_params())
    began = time.monotonic()
    await client.connection.aclose()
    took = time.monotonic() - began
    exit_error = await client.connection.exit_error()
    status = exit_error.exit_status if isinstance(exit_error, ConnectionLost) else None
    if took < _LEAVES_S and status not in (_TERMINATED, _KILLED):
        return
    if status == _KILLED:
        how = "it ignored SIGTERM and was killed"
    else:
        how = "it exited on SIGTERM"
    raise Advisory(
        f"still running {_LEAVES_S:g} s after its stdin was closed; {how}",
        "Exit when stdin is closed: editors then kill the process (R-STDIO-07), and unsent "
        "output is lost.",
    )


SCENARIOS = (_leaves,)
