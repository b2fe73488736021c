// v2 client on the official TypeScript SDK; the turn is described in ../README.md.
import * as acp from "@agentclientprotocol/sdk/experimental/v2";
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { basename, join } from "node:path";
import { Readable, Writable } from "node:stream";
import { pathToFileURL } from "node:url";

const { agent: A, client: C } = acp.methods;
let SESSION; // as the agent names it
const notes = join(process.cwd(), "notes.txt");
const seen = { updates: [], calls: [], echoed: [], said: {}, terminal: {}, titles: {} };
const output = [];
let cancelling = false;
let ended;

function onContent(item) {
  if (item.type === "diff") {
    seen.diff = [...item.changes.map((change) => `${change.operation} ${basename(change.path)}`), item.patch.format];
  }
  if (item.type === "terminal") seen.terminal.id = item.terminalId;
}

function onUpdate({ params, agent }) {
  const { update } = params;
  assert.equal(params.sessionId, SESSION);
  seen.updates.push(update.sessionUpdate + (update.state ? ` ${update.state}` : ""));
  switch (update.sessionUpdate) {
    case "user_message": seen.echoed.push([update.messageId, update.content[0].text]); break;
    case "state_update": if (update.state === "idle") ended(update.stopReason); break;
    case "plan_update": seen.plan = [update.plan.planId, ...update.plan.entries.map((entry) => entry.status)]; break;
    case "available_commands_update": seen.commands = update.availableCommands.map((command) => command.name); break;
    case "session_info_update": seen.title = update.title; break;
    case "tool_call_update":
      if (update.title !== undefined) seen.titles[update.toolCallId] = update.title;
      if (update.rawInput) seen.rawInput = update.rawInput.nested;
      for (const item of update.content ?? []) onContent(item);
      break;
    case "tool_call_content_chunk": onContent(update.content); break;
    case "terminal_update":
      if (update.command) seen.terminal.command = update.command;
      if (update.exitStatus?.exitCode !== undefined) seen.terminal.exitCode = update.exitStatus.exitCode;
      break;
    case "terminal_output_chunk": output.push(Buffer.from(update.data, "base64")); break;
    case "agent_message": seen.said[update.messageId] = update.content[0].text; break;
    case "agent_message_chunk":
      seen.said[update.messageId] = (seen.said[update.messageId] ?? "") + update.content.text;
      if (update.content.text === "waiting") return agent.notify(A.session.cancel, { sessionId: SESSION });
  }
}

async function onPermission({ params, agent, signal }) {
  const { title, subject, options } = params;
  seen.calls.push([title, subject.type, subject.toolCall.toolCallId, ...options.map((option) => option.kind)].join());
  if (cancelling) {
    const withdrawn = new Promise((resolve) => signal.addEventListener("abort", resolve));
    await agent.notify(A.session.cancel, { sessionId: SESSION });
    await withdrawn;
    seen.calls.push("withdrawn");
    return { outcome: { outcome: "cancelled" } };
  }
  return { outcome: { outcome: "selected", optionId: options.find((option) => option.kind === "allow_once").optionId } };
}

const [target, ...words] = process.argv.slice(2);
const remote = /^(wss?|https?):/.test(target);
const child = remote ? null : spawn(target, words, { stdio: ["pipe", "pipe", "inherit"] });
const stream = remote
  ? (await import(/^ws/.test(target) ? "./ts_websocket.mjs" : "./ts_http.mjs")).connect(target)
  : acp.ndJsonStream(Writable.toWeb(child.stdin), Readable.toWeb(child.stdout));
const app = acp
  .client({ name: "typescript" })
  .onNotification(C.session.update, onUpdate)
  .onRequest(C.session.requestPermission, onPermission)
  .onRequest("_interop/echo", { parse: (params) => params }, ({ params }) => params);

const report = await app.connectWith(stream, async (agent) => {
  const started = await agent.request(A.initialize, {
    protocolVersion: acp.PROTOCOL_VERSION, info: { name: "typescript", version: "1" }, capabilities: {},
  });
  const server = { type: "stdio", name: "notes", command: "/bin/true", args: ["--stdio"], env: [{ name: "A", value: "b" }] };
  const session = await agent.request(A.session.new, { cwd: process.cwd(), mcpServers: [server] });
  SESSION = session.sessionId;
  const set = await agent.request(A.session.setConfigOption, { sessionId: SESSION, configId: "mode", type: "id", value: "code" });
  const echo = await agent.request("_interop/echo", { n: 1 }).then(({ n }) => n, (error) => error.code);
  const missing = await agent.request("_interop/missing", {}).then(() => 0, (error) => error.code);
  const messages = [];
  const say = async (text, ...more) => {
    const stop = new Promise((resolve) => { ended = resolve; });
    const prompt = [{ type: "text", text }, ...more];
    messages.push((await agent.request(A.session.prompt, { sessionId: SESSION, prompt })).messageId);
    return await stop;
  };
  const stops = [await say("work", { type: "resource_link", name: "notes.txt", uri: pathToFileURL(notes).href })];
  stops.push(await say("wait"));
  cancelling = true;
  stops.push(await say("ask"));
  const { sessions } = await agent.request(A.session.list, {});
  await agent.request(A.session.close, { sessionId: SESSION });
  const { said, terminal, ...rest } = seen;
  const report = Object.keys(said).find((messageId) => said[messageId].startsWith("{"));
  const saw = JSON.parse(said[report]);
  delete said[report];
  return {
    protocolVersion: started.protocolVersion, agent: started.info.name,
    embeddedContext: started.capabilities.session.prompt.embeddedContext != null,
    modes: session.configOptions[0].options.map((option) => option.value), mode: set.configOptions[0].currentValue,
    echo, missing, messages, stops, saw, said,
    terminal: { ...terminal, output: Buffer.concat(output).toString() }, ...rest,
    sessions: sessions.map((entry) => entry.sessionId),
  };
});
child?.stdin.end();
console.log(JSON.stringify(report));
if (remote) process.exit(0);
