"""Agent on Accord that uses an MCP server of its client; see test_mcp_over_acp.py."""

import asyncio
import json
import logging
from typing import Any

from accord import Agent, McpServerError, RequestError, Turn
from accord.mcp import McpConnection


class Lines(logging.Handler):
    """Keeps the texts of log records."""

    def __init__(self) -> None:
        super().__init__()
        self.texts: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.texts.append(record.getMessage())


class McpAgent(Agent):
    """Calls the tools of the server `tools`, and says what came."""

    mcp_transports = frozenset({"acp"})

    def __init__(self) -> None:
        self.lines = Lines()
        logger = logging.getLogger("accord.mcp")
        logger.setLevel(logging.INFO)
        logger.addHandler(self.lines)

    async def prompt(self, turn: Turn) -> None:
        tools = (await turn.session.connect_mcp())["tools"]
        if turn.text == "gone":
            await turn.say(json.dumps({"gone": await error_of(tools, "count")}))
            return
        reported: list[Any] = []

        async def progress(done: float, total: float | None, message: str | None) -> None:
            reported.append([done, total])

        result = await tools.call("count", {"n": 3}, progress)
        found: dict[str, Any] = {
            "tools": [tool.name for tool in tools.tools],
            "text": getattr(result.content[0], "text", None),
            "progress": reported,
            "fail": await error_of(tools, "fail"),
            "break": await error_of(tools, "break"),
            "limit": await self.limit(tools),
            "logged": [text for text in self.lines.texts if "counted" in text],
        }
        await turn.say(json.dumps(found))

    async def limit(self, tools: McpConnection) -> Any:
        """Start as many calls as the server allows, then one more; cancel them."""
        running = asyncio.Queue[float]()

        async def progress(done: float, total: float | None, message: str | None) -> None:
            running.put_nowait(done)

        waiting = [asyncio.create_task(tools.call("wait", {}, progress)) for _ in range(2)]
        for _ in waiting:
            await running.get()
        error = await error_of(tools, "count")
        for task in waiting:
            task.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)
        return error


async def error_of(tools: McpConnection, name: str) -> list[Any]:
    try:
        await tools.call(name, {"n": 1})
    except McpServerError as error:
        return ["server", error.code]
    except RequestError as error:
        return [type(error).__name__, error.code]
    return ["none", 0]


if __name__ == "__main__":
    McpAgent().run()
