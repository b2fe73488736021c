"""Agents of any framework as ACP agents, and ACP agents in the tools of others.

`as_agent(object)` makes an object of a framework an agent: `kinds` finds its bridge, one file in
`frameworks`. All of them derive from `bridge.BridgedAgent` and report to `run.Run`; `tools` and
`failures` find what calls do and what exceptions mean. `testing` is the contract that each passes.
`used_in` has ACP agents for frameworks, `inspect` and `harbor` those for evaluators. No bridge
imports a framework that you have not imported.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from accord_bridges.bridge import BridgedAgent as BridgedAgent
    from accord_bridges.bridge import Options as Options
    from accord_bridges.kinds import UnknownKind as UnknownKind
    from accord_bridges.kinds import as_agent as as_agent
    from accord_bridges.run import Approval as Approval
    from accord_bridges.run import Question as Question
    from accord_bridges.run import Run as Run
else:
    _MODULES = {
        "Approval": "run",
        "BridgedAgent": "bridge",
        "Options": "bridge",
        "Question": "run",
        "Run": "run",
        "UnknownKind": "kinds",
        "as_agent": "kinds",
    }
    __all__ = tuple(_MODULES)

    def __getattr__(name: str) -> Any:
        if name not in _MODULES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        value = getattr(import_module(f"accord_bridges.{_MODULES[name]}"), name)
        globals()[name] = value
        return value

    def __dir__() -> list[str]:
        return sorted({*globals(), *__all__})
