"""A proxy on Accord that changes nothing."""

import asyncio

from accord.proxy.multiplexed import serve_stages
from accord.proxy.stage import Stage
from accord.transports.stdio import stdio

if __name__ == "__main__":
    asyncio.run(serve_stages([Stage()], stdio(restore=False)))
