"""All wire types of version 2."""

from __future__ import annotations

from accord.v2 import (
    auth,
    cancel,
    commands,
    compaction,
    config,
    content,
    elicitation,
    error,
    ids,
    initialize,
    mcp,
    permission,
    plan,
    prompt,
    providers,
    proxy,
    session,
    state,
    subagent,
    terminal,
    tool_call,
    update,
)
from accord.v2.auth import *
from accord.v2.cancel import *
from accord.v2.commands import *
from accord.v2.compaction import *
from accord.v2.config import *
from accord.v2.content import *
from accord.v2.elicitation import *
from accord.v2.error import *
from accord.v2.ids import *
from accord.v2.initialize import *
from accord.v2.mcp import *
from accord.v2.permission import *
from accord.v2.plan import *
from accord.v2.prompt import *
from accord.v2.providers import *
from accord.v2.proxy import *
from accord.v2.session import *
from accord.v2.state import *
from accord.v2.subagent import *
from accord.v2.terminal import *
from accord.v2.tool_call import *
from accord.v2.update import *
from accord.wire.base import Unknown
from accord.wire.shared import mcp_message
from accord.wire.shared import proxy as successor
from accord.wire.shared.mcp_message import *
from accord.wire.shared.proxy import *

__all__: tuple[str, ...] = ("Unknown",)
__all__ += auth.__all__
__all__ += cancel.__all__
__all__ += commands.__all__
__all__ += compaction.__all__
__all__ += config.__all__
__all__ += content.__all__
__all__ += elicitation.__all__
__all__ += error.__all__
__all__ += ids.__all__
__all__ += initialize.__all__
__all__ += mcp.__all__
__all__ += permission.__all__
__all__ += plan.__all__
__all__ += prompt.__all__
__all__ += providers.__all__
__all__ += proxy.__all__
__all__ += session.__all__
__all__ += state.__all__
__all__ += subagent.__all__
__all__ += terminal.__all__
__all__ += tool_call.__all__
__all__ += update.__all__
__all__ += mcp_message.__all__
__all__ += successor.__all__
