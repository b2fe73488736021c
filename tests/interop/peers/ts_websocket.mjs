// The official TypeScript SDK over WebSocket: a client's stream, and a server, also by HTTP, with the agent of
// ts_agent.mjs or of the module that is named.
import { createWebSocketStream } from "@agentclientprotocol/sdk/experimental/ws-client";
import { AcpServer } from "@agentclientprotocol/sdk/experimental/server";
import { createNodeHttpHandler, createNodeWebSocketUpgradeHandler } from "@agentclientprotocol/sdk/experimental/node";
import { createServer } from "node:http";
import { fileURLToPath } from "node:url";
import { WebSocket, WebSocketServer } from "ws";

export function connect(url) {
  const headers = { Authorization: `Bearer ${process.env.ACCORD_TOKEN}` };
  return createWebSocketStream(url, { WebSocket, headers });
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const { app } = await import(process.argv[2] ?? "./ts_agent.mjs");
  const server = new AcpServer({ agent: app });
  const http = createServer(createNodeHttpHandler(server));
  http.on("upgrade", createNodeWebSocketUpgradeHandler(server, new WebSocketServer({ noServer: true })));
  http.listen(0, "127.0.0.1", () => console.log(`ws://127.0.0.1:${http.address().port}/acp`));
}
