// A client on the official TypeScript SDK: `node client.mjs SDK MODE COMMAND…`; prints what it saw.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { Readable, Writable } from "node:stream";
import { pathToFileURL } from "node:url";

const [sdk, session, ...command] = process.argv.slice(2);
const acp = await import(pathToFileURL(sdk));
const { agent: A, client: C } = acp.methods;
const saw = { stops: [], text: "", replayed: [], kinds: [], statuses: [], diffs: [], plan: null, asked: [] };
let choice = "reject_once", cancelAt = null, loading = false;

const child = spawn(command[0], command.slice(1), { stdio: ["pipe", "pipe", "inherit"] });
const app = acp.client({ name: "typescript" })
  .onNotification(C.session.update, ({ params: { sessionId, update }, agent }) => {
    switch (update.sessionUpdate) {
      case "user_message_chunk":
      case "agent_message_chunk":
        if (loading) saw.replayed.push(update.content.text);
        else saw.text += update.content.text;
        if (saw.text === cancelAt) return agent.notify(A.session.cancel, { sessionId });
        break;
      case "plan": saw.plan = update.entries.length; break;
      case "tool_call":
      case "tool_call_update":
        if (update.kind) saw.kinds.push(update.kind);
        if (update.status) saw.statuses.push(update.status);
        for (const item of update.content ?? []) if (item.type === "diff") saw.diffs.push(item.newText);
    }
  })
  .onRequest(C.session.requestPermission, ({ params }) => {
    saw.asked.push(params.toolCall.kind ?? null);
    const { optionId } = params.options.find(({ kind }) => kind === choice);
    return { outcome: { outcome: "selected", optionId } };
  });

await app.connectWith(acp.ndJsonStream(Writable.toWeb(child.stdin), Readable.toWeb(child.stdout)), async (agent) => {
  const started = await agent.request(A.initialize, {
    protocolVersion: acp.PROTOCOL_VERSION, clientInfo: { name: "typescript", version: "1" }, clientCapabilities: {},
  });
  assert.equal(started.protocolVersion, 1);
  const open = { cwd: process.cwd(), mcpServers: [] };
  if (session === "new") {
    const { sessionId } = await agent.request(A.session.new, open);
    saw.session = sessionId;
    const say = async (text) => {
      saw.text = "";
      const { stopReason } = await agent.request(A.session.prompt, { sessionId, prompt: [{ type: "text", text }] });
      saw.stops.push(`${saw.text}: ${stopReason}`);
    };
    await say("hello");
    await say("write no");
    choice = "allow_once";
    await say("write yes");
    cancelAt = "waiting";
    await say("wait");
    await say("again");
  } else {
    loading = true;
    await agent.request(A.session.load, { ...open, sessionId: session });
  }
});
child.stdin.end();
console.log(JSON.stringify(saw));
