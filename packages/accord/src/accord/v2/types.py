"""All wire types of version 2, in reading order: values, updates, requests, sessions, handshake."""

from __future__ import annotations

import accord.wire.shared as shared
from accord.v2 import client_requests, content, initialize, session, updates
from accord.v2.client_requests import *
from accord.v2.content import *
from accord.v2.initialize import *
from accord.v2.session import *
from accord.v2.updates import *
from accord.wire.base import Unknown
from accord.wire.shared import *

__all__: tuple[str, ...] = ("Unknown",)
__all__ += content.__all__
__all__ += updates.__all__
__all__ += client_requests.__all__
__all__ += session.__all__
__all__ += initialize.__all__
__all__ += shared.__all__
