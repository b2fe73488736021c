"""Serves the agent of the benchmarks on the network, by `accord.Agent`."""

from __future__ import annotations

from server_accord import main  # isort: skip - lets the agents be imported
from agent_api import Bench

from accord.agent.agent import serve

main(lambda transport: serve(Bench(), transport))
