"""The program itself: it leaves when nobody listens any more."""

from __future__ import annotations

import time

from accord.conformance.play.line import Silence
from accord.conformance.play.scenario import scenario
from accord.conformance.play.stage import Stage

__all__ = ("SCENARIOS",)

# A transport gives a process so long to leave by itself before it is told to.
_LEAVES_S = 2.0


@scenario("process/leaves", own=True)
async def _leaves(stage: Stage) -> None:
    """Its stdin is closed while it waits for the next request, and it goes."""
    editor = await stage.initialized()
    await editor.new_session()
    began = time.monotonic()
    await editor.line.aclose()
    if time.monotonic() - began >= _LEAVES_S:
        raise Silence(f"still running {_LEAVES_S:g} s after its stdin was closed")


SCENARIOS = (_leaves,)
