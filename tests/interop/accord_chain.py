"""Proxies of this process and an agent, on stdin and stdout: NAME,… COMMAND."""

import asyncio
import sys

from accord_proxy import PROXIES  # the file next to this one

from accord.proxy.chain import component
from accord.proxy.conductor import conduct
from accord.transports.stdio import stdio

if __name__ == "__main__":
    proxies = [component(PROXIES[name]()) for name in sys.argv[1].split(",")]
    asyncio.run(conduct([*proxies, component(sys.argv[2])], stdio(restore=False)))
