"""All wire types of version 1."""

from __future__ import annotations

from accord.v1 import (
    auth,
    cancel,
    commands,
    compaction,
    config,
    content,
    elicitation,
    error,
    fs,
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
from accord.v1.auth import *
from accord.v1.cancel import *
from accord.v1.commands import *
from accord.v1.compaction import *
from accord.v1.config import *
from accord.v1.content import *
from accord.v1.elicitation import *
from accord.v1.error import *
from accord.v1.fs import *
from accord.v1.ids import *
from accord.v1.initialize import *
from accord.v1.mcp import *
from accord.v1.permission import *
from accord.v1.plan import *
from accord.v1.prompt import *
from accord.v1.providers import *
from accord.v1.proxy import *
from accord.v1.session import *
from accord.v1.state import *
from accord.v1.subagent import *
from accord.v1.terminal import *
from accord.v1.tool_call import *
from accord.v1.update import *
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
__all__ += fs.__all__
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
