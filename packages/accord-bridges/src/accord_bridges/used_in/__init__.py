"""ACP agents in agent frameworks: `pydantic_ai`, `langgraph` and `openai_agents`.

Each module depends on its framework, which is an extra of the same name. `agents` is what they
share: it runs the process of an agent, and a session for each thread.
"""

from __future__ import annotations

__all__ = ()
