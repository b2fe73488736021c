"""Replays recordings: as the agent for a client, or as the client for an agent (R-TRACE-04)."""

from __future__ import annotations

from accord_trace.replay.agent import Departure, ReplayReport, Unused
from accord_trace.replay.serving import ReplayedAgent

__all__ = ("Departure", "ReplayReport", "ReplayedAgent", "Unused")
