"""A proxy that adds an MCP server to each session, whatever the editor has configured."""

import sys

from accord import McpServerStdio, OpeningSession, Proxy

SERVER = McpServerStdio("issues", sys.executable, ("-m", "team.issues"))


class AddServers(Proxy):
    """Adds a server, unless the session has one of that name."""

    async def open_session(self, session: OpeningSession, forward) -> None:
        if all(server.name != SERVER.name for server in session.mcp_servers):
            session.mcp_servers.append(SERVER)
        await forward()


if __name__ == "__main__":
    AddServers().run()
