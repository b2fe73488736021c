// v1 client on the official TypeScript SDK; the turn is described in ../README.md.
import * as acp from "@agentclientprotocol/sdk";
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { basename, join } from "node:path";
import { Readable, Writable } from "node:stream";
import { pathToFileURL } from "node:url";

const { agent: A, client: C } = acp.methods;
let SESSION; // as the agent names it
const notes = join(process.cwd(), "notes.txt");
const files = { [notes]: "first\nsecond\nthird\n" };
const seen = { updates: [], calls: [], plan: null, rawInput: null, diff: null, terminal: null, title: null, mode: null, said: [] };
const terminals = new Map();
let created = 0;
let cancelling = false;

function onUpdate({ params, agent }) {
  const { update } = params;
  assert.equal(params.sessionId, SESSION);
  seen.updates.push(update.sessionUpdate);
  switch (update.sessionUpdate) {
    case "current_mode_update": seen.mode = update.currentModeId; break;
    case "plan": seen.plan = update.entries.map((entry) => entry.status); break;
    case "session_info_update": seen.title = update.title; break;
    case "tool_call":
    case "tool_call_update":
      if (update.rawInput) seen.rawInput = update.rawInput.nested;
      for (const item of update.content ?? []) {
        if (item.type === "diff") seen.diff = [basename(item.path), item.oldText, item.newText];
        if (item.type === "terminal") seen.terminal = item.terminalId;
      }
      break;
    case "agent_message_chunk":
      seen.said.push(update.content.text);
      if (update.content.text === "waiting") return agent.notify(A.session.cancel, { sessionId: SESSION });
  }
}

async function onPermission({ params, agent }) {
  seen.calls.push(`permission ${params.toolCall.toolCallId} ${params.options.map((option) => option.kind).join()}`);
  if (cancelling) {
    await agent.notify(A.session.cancel, { sessionId: SESSION });
    return { outcome: { outcome: "cancelled" } };
  }
  return { outcome: { outcome: "selected", optionId: params.options.find((option) => option.kind === "allow_once").optionId } };
}

function call(name, answer) {
  return ({ params }) => {
    seen.calls.push(name);
    assert.equal(params.sessionId, SESSION);
    return answer(params, terminals.get(params.terminalId));
  };
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
  .onRequest(C.fs.readTextFile, call("read", ({ path, line, limit }) => {
    const lines = files[path].split(/(?<=\n)/).slice((line ?? 1) - 1);
    return { content: lines.slice(0, limit ?? undefined).join("") };
  }))
  .onRequest(C.fs.writeTextFile, call("write", ({ path, content }) => {
    files[path] = content;
    return {};
  }))
  .onRequest(C.terminal.create, call("create", ({ command, args }) => {
    const terminalId = `terminal-${++created}`;
    terminals.set(terminalId, { line: [command, ...args].join(" "), exit: null });
    return { terminalId };
  }))
  .onRequest(C.terminal.output, call("output", (_, terminal) => ({
    output: terminal.exit ? "2 passed\n" : "", truncated: false, ...(terminal.exit && { exitStatus: terminal.exit }),
  })))
  .onRequest(C.terminal.waitForExit, call("wait", (_, terminal) => (terminal.exit ??= { exitCode: 0, signal: null })))
  .onRequest(C.terminal.kill, call("kill", (_, terminal) => {
    terminal.exit = { exitCode: null, signal: "SIGKILL" };
    return {};
  }))
  .onRequest(C.terminal.release, call("release", ({ terminalId }) => {
    terminals.delete(terminalId);
    return {};
  }))
  .onRequest("_interop/echo", { parse: (params) => params }, ({ params }) => params);

const report = await app.connectWith(stream, async (agent) => {
  const started = await agent.request(A.initialize, {
    protocolVersion: acp.PROTOCOL_VERSION,
    clientInfo: { name: "typescript", version: "1" },
    clientCapabilities: { fs: { readTextFile: true, writeTextFile: true }, terminal: true },
  });
  const session = await agent.request(A.session.new, {
    cwd: process.cwd(),
    mcpServers: [{ name: "notes", command: "/bin/true", args: ["--stdio"], env: [{ name: "A", value: "b" }] }],
  });
  SESSION = session.sessionId;
  await agent.request(A.session.setMode, { sessionId: SESSION, modeId: "code" });
  const modeAtAnswer = seen.mode;
  const echo = await agent.request("_interop/echo", { n: 1 }).then(({ n }) => n, (error) => error.code);
  const missing = await agent.request("_interop/missing", {}).then(() => 0, (error) => error.code);
  const say = async (text, ...more) =>
    (await agent.request(A.session.prompt, { sessionId: SESSION, prompt: [{ type: "text", text }, ...more] })).stopReason;
  const stops = [await say("work", { type: "resource_link", name: "notes.txt", uri: pathToFileURL(notes).href })];
  const [sentence, saw] = seen.said.splice(0);
  stops.push(await say("wait"));
  cancelling = true;
  stops.push(await say("ask"));
  return {
    protocolVersion: started.protocolVersion, agent: started.agentInfo.name,
    embeddedContext: started.agentCapabilities.promptCapabilities.embeddedContext,
    modes: session.modes.availableModes.map((mode) => mode.id), modeAtAnswer, echo, missing, stops, sentence,
    saw: JSON.parse(saw), updates: seen.updates, calls: seen.calls, plan: seen.plan, rawInput: seen.rawInput, diff: seen.diff,
    terminal: seen.terminal, title: seen.title, notes: files[notes], leftTerminals: terminals.size,
  };
});
child?.stdin.end();
console.log(JSON.stringify(report));
if (remote) process.exit(0);
