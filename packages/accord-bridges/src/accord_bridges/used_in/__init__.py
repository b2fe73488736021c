"""ACP agents in agent frameworks: `pydantic_ai`, `langgraph` and `openai_agents`.

Each module depends on its framework, which is an extra of the same name, so this face has only what
they share: `AcpAgent` is the process of an agent, which can be passed to several of them.
"""

from __future__ import annotations

from accord_bridges.used_in.agents import AcpAgent, AgentOptions
from accord_bridges.used_in.turns import AcpAgentError

__all__ = ("AcpAgent", "AcpAgentError", "AgentOptions")
