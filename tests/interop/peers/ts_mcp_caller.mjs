// Agent on the official TypeScript SDK that calls the tools of its client; see test_mcp_over_acp.py.
// usage: ts_mcp_caller.mjs VERSION
import { Readable, Writable } from "node:stream";

const V2 = process.argv[2] === "2";
const acp = await import(`@agentclientprotocol/sdk/${V2 ? "experimental/v2/unstable" : "unstable"}`);
const { agent: A, client: C } = acp.methods;
const caller = new acp.McpOverAcpCaller({ clientInfo: { name: "typescript", version: "1" } });
let server;

const outcomeOf = (promise) => promise.then(
  (outcome) => ("error" in outcome ? ["inner", outcome.error.code] : ["result", outcome.result]),
  (error) => ["outer", error.code],
);

async function work(client) {
  const request = (method, params, options, id = server.serverId) => caller.request(client, id, method, params, options);
  const call = (name, args, options) => request("tools/call", { name, arguments: args, _meta: { progressToken: "p" } }, options);
  const seen = { declared: [server.type, server.name], progress: [] };
  const [, discovered] = await outcomeOf(request("server/discover"));
  seen.versions = discovered.supportedVersions;
  const [, listed] = await outcomeOf(request("tools/list"));
  seen.tools = listed.tools.map(({ name, description }) => [name, description]);
  const onNotification = ({ method, params }) => {
    seen.progress.push([method, params.progress, params.total]);
    if (params.progress === params.total) void call("received", {});
  };
  const [, looked] = await outcomeOf(call("lookup", { term: "lane" }, { onNotification }));
  seen.text = looked.content[0].text;
  seen.refused = await outcomeOf(call("refuse", {}));
  seen.unknown = await outcomeOf(request("no/method"));
  seen.version = await outcomeOf(request("tools/list", { _meta: { "io.modelcontextprotocol/protocolVersion": "2025-11-25" } }));
  seen.elsewhere = await outcomeOf(request("tools/list", {}, {}, "another"));
  // 64 calls that wait, one of them cancelled in the end.
  const cancel = new AbortController();
  let running = 0;
  const full = new Promise((resolve) => {
    seen.waiting = Array.from({ length: 64 }, (_, n) => outcomeOf(call("wait", {}, {
      requestId: `w${n}`, signal: cancel.signal, onNotification: () => ++running === 64 && resolve(),
    })));
  });
  await full;
  seen.limit = await outcomeOf(call("lookup", { term: "lane" }));
  // The caller of the SDK does not send the same id twice: so does this, past it.
  seen.duplicate = await client.request(C.mcp.message, {
    serverId: server.serverId, requestId: "w0", method: "tools/list", params: {},
  }).catch((error) => error.code);
  cancel.abort();
  const outcomes = await Promise.all(seen.waiting);
  seen.waiting = [...new Set(outcomes.map((outcome) => JSON.stringify(outcome)))];
  return seen;
}

async function prompt({ params, client }) {
  const { sessionId } = params;
  const update = (fields) => client.notify(C.session.update, { sessionId, update: fields });
  const say = (text) => update({
    sessionUpdate: "agent_message_chunk", messageId: "m1", content: { type: "text", text },
  });
  const seen = JSON.stringify(await work(client));
  if (!V2) {
    await say(seen);
    return { stopReason: "end_turn" };
  }
  await update({ sessionUpdate: "user_message", messageId: "u1", content: params.prompt });
  await update({ sessionUpdate: "state_update", state: "running" });
  await say(seen);
  await update({ sessionUpdate: "state_update", state: "idle", stopReason: "end_turn" });
  return { messageId: "u1" };
}

acp
  .agent({ name: "ts" })
  .onRequest(A.initialize, () => V2
    ? { protocolVersion: 2, info: { name: "typescript", version: "1" }, capabilities: { session: { mcp: { acp: {} } } } }
    : { protocolVersion: 1, agentInfo: { name: "typescript", version: "1" }, agentCapabilities: { mcpCapabilities: { acp: true } } })
  .onRequest(A.session.new, ({ params }) => {
    [server] = params.mcpServers;
    return { sessionId: "session-1" };
  })
  .onRequest(A.session.prompt, prompt)
  .onNotification(A.mcp.message, caller.handleNotification)
  .connect(acp.ndJsonStream(Writable.toWeb(process.stdout), Readable.toWeb(process.stdin)));
