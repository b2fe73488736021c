"""Replays recordings: as the agent for a client, or as the client for an agent (R-TRACE-04).

`script` makes steps of a recording. `agent` and `client` play them, `serving` connects the agent,
and `comparison` tells what a live agent does otherwise.
"""

from __future__ import annotations

from accord_trace.replay.agent import Departure, ReplayReport, Unused
from accord_trace.replay.serving import ReplayedAgent

__all__ = ("Departure", "ReplayReport", "ReplayedAgent", "Unused")
