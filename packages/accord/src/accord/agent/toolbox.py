"""What turns and sessions create: imported with the first session, not with `accord.Turn`."""

from __future__ import annotations

from collections.abc import Coroutine, Sequence
from typing import Any

from accord.agent.compaction import CompactionHandle
from accord.agent.elicitation import F, UrlElicitation, elicit_form, elicit_url
from accord.agent.files import SessionFiles
from accord.agent.plan import PlanHandle
from accord.agent.session_core import SessionCore
from accord.agent.session_messages import send
from accord.agent.subagent import SubagentCore
from accord.agent.terminals import SessionTerminals
from accord.types.content import ContentBlock


class Toolbox:
    """The classes and functions that `SessionActions` and `WorkActions` need when called."""

    compaction = CompactionHandle
    files = SessionFiles
    plan = PlanHandle
    subagent = SubagentCore
    terminals = SessionTerminals

    @staticmethod
    def elicit_form(
        core: SessionCore, form: type[F], message: str
    ) -> Coroutine[Any, Any, F | None]:
        """See `SessionActions.elicit_form`."""
        return elicit_form(core, form, message)

    @staticmethod
    def elicit_url(
        core: SessionCore, url: str, message: str
    ) -> Coroutine[Any, Any, UrlElicitation | None]:
        """See `SessionActions.elicit_url`."""
        return elicit_url(core, url, message)

    @staticmethod
    def send(
        sender: SessionCore, recipient: SessionCore, content: Sequence[ContentBlock]
    ) -> Coroutine[Any, Any, None]:
        """See `SessionActions.send_session_message`."""
        return send(sender, recipient, content)
