// Serves the agent of the benchmarks on the network, by npm @agentclientprotocol/sdk.
import { createNodeHttpHandler, createNodeWebSocketUpgradeHandler } from "@agentclientprotocol/sdk/experimental/node";
import { AcpServer } from "@agentclientprotocol/sdk/experimental/server";
import { createServer } from "node:http";
import { WebSocketServer } from "ws";
import { app } from "../agents/agent_typescript.mjs";

const server = new AcpServer({ agent: app });
const http = createServer(createNodeHttpHandler(server));
http.on("upgrade", createNodeWebSocketUpgradeHandler(server, new WebSocketServer({ noServer: true })));
http.listen(0, "127.0.0.1", () => {
  const address = `127.0.0.1:${http.address().port}/acp`;
  console.log(`ws://${address} http://${address}`);
});
