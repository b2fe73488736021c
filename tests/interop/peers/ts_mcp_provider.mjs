// Client on the official TypeScript SDK that provides an MCP server; see test_mcp_over_acp.py.
// usage: ts_mcp_provider.mjs VERSION COMMAND...
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { Readable, Writable } from "node:stream";

const [version, target, ...words] = process.argv.slice(2);
const V2 = version === "2";
const acp = await import(`@agentclientprotocol/sdk/${V2 ? "experimental/v2/unstable" : "unstable"}`);
const { agent: A, client: C } = acp.methods;
const seen = { methods: [], info: null, levels: [], aborted: 0, said: [] };
let ended;
let waiting = 0;

function tool(name) {
  return { name, inputSchema: { type: "object", properties: { n: { type: "integer" } } } };
}

const complete = (fields) => ({ result: { resultType: "complete", ...fields } });
const text = (value) => complete({ content: [{ type: "text", text: value }] });

async function handler({ method, params, signal, notify, clientInfo }) {
  seen.methods.push(method);
  seen.info = clientInfo.name;
  switch (method) {
    case "server/discover":
      return complete({ supportedVersions: ["2026-07-28"], capabilities: { tools: {}, logging: {} }, ttlMs: 0, cacheScope: "public" });
    case "tools/list":
      return complete({ tools: ["count", "fail", "break", "wait"].map(tool), ttlMs: 0, cacheScope: "public" });
  }
  const meta = params._meta;
  switch (params.name) {
    case "count":
      seen.levels.push(meta["io.modelcontextprotocol/logLevel"]);
      for (let done = 1; done <= params.arguments.n; done++) {
        await notify("notifications/progress", { progressToken: meta.progressToken, progress: done, total: params.arguments.n });
      }
      await notify("notifications/message", { level: "info", data: "counted" });
      return text(`counted to ${params.arguments.n}`);
    case "fail":
      throw new acp.McpProtocolError(-33001, "an error of the server, with a code of the binding");
    case "break":
      throw new Error("the backend has a defect");
    case "wait":
      waiting += 1;
      await notify("notifications/progress", { progressToken: meta.progressToken, progress: waiting });
      await new Promise((resolve) => signal.addEventListener("abort", resolve));
      seen.aborted += 1;
      throw new Error("cancelled");
  }
}

function onUpdate({ params: { update } }) {
  if (update.sessionUpdate === "agent_message_chunk") seen.said.push(update.content.text);
  if (update.sessionUpdate === "state_update" && update.state === "idle") ended?.(update.stopReason);
}

const child = spawn(target, words, { stdio: ["pipe", "pipe", "inherit"] });
const stream = acp.ndJsonStream(Writable.toWeb(child.stdin), Readable.toWeb(child.stdout));
const mcp = new acp.McpOverAcpProvider();
const app = acp
  .client({ name: "typescript" })
  .onNotification(C.session.update, onUpdate)
  .onRequest(C.mcp.message, mcp.handleRequest);

const report = await app.connectWith(stream, async (agent) => {
  const started = await agent.request(A.initialize, V2
    ? { protocolVersion: 2, info: { name: "typescript", version: "1" }, capabilities: {} }
    : { protocolVersion: 1, clientInfo: { name: "typescript", version: "1" }, clientCapabilities: {} });
  const offered = V2 ? started.capabilities.session.mcp.acp : started.agentCapabilities.mcpCapabilities.acp;
  assert.deepEqual(offered, V2 ? {} : true);
  const tools = mcp.registerServer(agent, { name: "tools", handler, maxActiveRequests: 2 });
  const session = await agent.request(A.session.new, { cwd: process.cwd(), mcpServers: [tools.declaration] });
  const say = async (words) => {
    const stop = new Promise((resolve) => { ended = resolve; });
    const answer = await agent.request(A.session.prompt, { sessionId: session.sessionId, prompt: [{ type: "text", text: words }] });
    return V2 ? await stop : answer.stopReason;
  };
  const stops = [await say("work")];
  await tools.dispose();
  stops.push(await say("gone"));
  await agent.request(A.session.close, { sessionId: session.sessionId });
  return { stops, ...seen, said: seen.said.map((line) => JSON.parse(line)) };
});
child.stdin.end();
console.log(JSON.stringify(report));
