"""What turns and sessions create: imported with the first session, not with `accord.Turn`."""

from __future__ import annotations

from accord.agent.compaction import CompactionHandle
from accord.agent.elicitation import elicit_form, elicit_url
from accord.agent.files import SessionFiles
from accord.agent.plan import PlanHandle
from accord.agent.session_messages import send
from accord.agent.subagent import SubagentCore
from accord.agent.terminals import SessionTerminals

__all__ = ("Toolbox",)


class Toolbox:
    """The classes and functions that `SessionActions` and `WorkActions` need when called."""

    compaction = CompactionHandle
    elicit_form = staticmethod(elicit_form)
    elicit_url = staticmethod(elicit_url)
    files = SessionFiles
    plan = PlanHandle
    send = staticmethod(send)
    subagent = SubagentCore
    terminals = SessionTerminals
