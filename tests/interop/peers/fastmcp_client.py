"""Uses a gateway with the client of FastMCP: URL TOKEN. Prints what it sees as one line of JSON."""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any

from fastmcp import Client
from fastmcp.client.transports import StreamableHttpTransport


async def main(url: str, token: str) -> None:
    asked: list[str] = []
    lines: list[str | None] = []

    async def person(message: str, _form: Any, _params: Any, _context: Any) -> dict[str, str]:
        asked.append(message.split("\n")[0])
        return {"decision": "Allow"}

    async def progress(_number: float, _total: float | None, message: str | None) -> None:
        lines.append(message)

    transport = StreamableHttpTransport(url, headers={"Authorization": f"Bearer {token}"})
    async with Client(transport, elicitation_handler=person, progress_handler=progress) as client:
        tools = [tool.name for tool in await client.list_tools()]
        result = await client.call_tool("ask", {"prompt": "edit"})
        found = result.structured_content
        wrong = await client.call_tool("wait", {"session": "none"}, raise_on_error=False)
        uris = [str(one.uri) for one in await client.list_resources()]
        shown = await client.read_resource(uris[0])
        print(
            json.dumps(
                {
                    "tools": tools,
                    "text": found["text"],
                    "state": found["state"],
                    "asked": asked,
                    "lines": lines,
                    "wrong": wrong.content[0].text,
                    "transcript": "Edit notes" in shown[0].text,
                }
            )
        )


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
