"""A proxy that passes everything on."""

from __future__ import annotations

import asyncio

from accord.proxy.conductor import serve_stages
from accord.proxy.stage import Stage
from accord.transports.stdio import stdio

asyncio.run(serve_stages([Stage()], stdio(restore=False)))
