"""Three proxies of this process that change nothing, and an agent, on stdin and stdout."""

import asyncio
import sys

from accord.proxy.conductor import conduct
from accord.proxy.parts import Component, component
from accord.proxy.stage import Stage
from accord.transports.stdio import stdio

if __name__ == "__main__":
    proxies = [Component(f"proxy {number}", make_stage=Stage) for number in range(3)]
    asyncio.run(conduct([*proxies, component(sys.argv[1])], stdio(restore=False)))
