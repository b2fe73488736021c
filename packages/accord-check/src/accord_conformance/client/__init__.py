"""Tests a client: runs as the agent that the client starts.

`ScenarioAgent` is the agent, `ClientRules` judges what the client does on its own, and `ClientRun`
runs the scenarios of `scenarios/` that a prompt names, each in a `ClientContext`. `StateProbe`
compares the state that a client reports with what was sent. `served_run` and `network` do the same
for clients that connect by HTTP or WebSocket.
"""

from __future__ import annotations

__all__ = ()
