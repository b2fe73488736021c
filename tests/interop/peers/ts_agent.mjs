// v1 agent on the official TypeScript SDK; the turn is described in ../README.md.
import * as acp from "@agentclientprotocol/sdk";
import { Readable, Writable } from "node:stream";
import { fileURLToPath } from "node:url";

const { agent: A, client: C } = acp.methods;
const SENTENCE = 'Grüße 👋 "quoted" \\ back\u2028slash\n';
const running = new Map();
const anything = { parse: (params) => params };

class Turn {
  constructor(client, sessionId) {
    this.client = client;
    this.sessionId = sessionId;
    this.cancelled = new Promise((resolve) => running.set(sessionId, resolve));
  }
  update(update) {
    return this.client.notify(C.session.update, { sessionId: this.sessionId, update });
  }
  call(method, params) {
    return this.client.request(method, { sessionId: this.sessionId, ...params });
  }
  say(text) {
    return this.update({ sessionUpdate: "agent_message_chunk", content: { type: "text", text } });
  }
  async permission(toolCallId) {
    const { outcome } = await this.call(C.session.requestPermission, {
      toolCall: { toolCallId, title: "Edit notes.txt", kind: "edit", status: "pending" },
      options: [
        { optionId: "no", name: "Reject", kind: "reject_once" },
        { optionId: "yes", name: "Allow", kind: "allow_once" },
      ],
    });
    return outcome.outcome === "selected" ? outcome.optionId : outcome.outcome;
  }
}

const plan = (first, second) => ({
  sessionUpdate: "plan",
  entries: [
    { content: "Edit the notes", priority: "high", status: first },
    { content: "Run the tests", priority: "low", status: second },
  ],
});

async function work(turn, link) {
  const path = new URL(link.uri).pathname;
  await turn.update({ sessionUpdate: "agent_thought_chunk", content: { type: "text", text: "Let me look." } });
  await turn.update(plan("in_progress", "pending"));
  await turn.update({
    sessionUpdate: "available_commands_update",
    availableCommands: [{ name: "test", description: "Run the tests", input: { hint: "which ones" } }],
  });
  await turn.update({
    sessionUpdate: "tool_call", toolCallId: "edit-1", title: "Edit notes.txt", kind: "edit", status: "pending",
    locations: [{ path, line: 2 }], rawInput: { path, nested: [1, null, { deep: true }] },
  });
  const saw = { permission: await turn.permission("edit-1") };
  await turn.update({ sessionUpdate: "tool_call_update", toolCallId: "edit-1", status: "in_progress" });
  saw.read = (await turn.call(C.fs.readTextFile, { path, line: 2, limit: 1 })).content;
  const before = (await turn.call(C.fs.readTextFile, { path })).content;
  const after = before.replace(saw.read, saw.read.toUpperCase());
  await turn.call(C.fs.writeTextFile, { path, content: after });
  await turn.update({
    sessionUpdate: "tool_call_update", toolCallId: "edit-1", status: "completed",
    content: [{ type: "diff", path, oldText: before, newText: after }],
  });
  const { terminalId } = await turn.call(C.terminal.create, {
    command: "pytest", args: ["-q"], env: [{ name: "CI", value: "1" }], outputByteLimit: 1024,
  });
  await turn.update({
    sessionUpdate: "tool_call", toolCallId: "run-1", title: "pytest -q", kind: "execute", status: "in_progress",
    content: [{ type: "terminal", terminalId }],
  });
  const early = await turn.call(C.terminal.output, { terminalId });
  saw.runningAtFirst = early.exitStatus == null;
  saw.exitCode = (await turn.call(C.terminal.waitForExit, { terminalId })).exitCode;
  const late = await turn.call(C.terminal.output, { terminalId });
  saw.output = late.output;
  saw.exitStatus = late.exitStatus.exitCode;
  await turn.call(C.terminal.release, { terminalId });
  const second = (await turn.call(C.terminal.create, { command: "sleep", args: ["60"] })).terminalId;
  await turn.call(C.terminal.kill, { terminalId: second });
  saw.signal = (await turn.call(C.terminal.waitForExit, { terminalId: second })).signal;
  await turn.call(C.terminal.release, { terminalId: second });
  await turn.update({
    sessionUpdate: "tool_call_update", toolCallId: "run-1", status: "completed", rawOutput: { exitCode: saw.exitCode },
  });
  await turn.update(plan("completed", "completed"));
  await turn.update({ sessionUpdate: "session_info_update", title: "Edit the notes" });
  await turn.update({ sessionUpdate: "usage_update", used: 10, size: 100 });
  saw.echo = await turn.client.request("_interop/echo", { n: 2 }).then(({ n }) => n, (error) => error.code);
  await turn.say(SENTENCE);
  await turn.say(JSON.stringify(saw));
  return "end_turn";
}

async function prompt({ params, client }) {
  const turn = new Turn(client, params.sessionId);
  switch (params.prompt[0].text) {
    case "work":
      return { stopReason: await work(turn, params.prompt[1]) };
    case "wait":
      await turn.say("waiting");
      await turn.cancelled;
      return { stopReason: "cancelled" };
    case "ask": {
      const outcome = await turn.permission("edit-2");
      await turn.cancelled;
      return { stopReason: outcome === "cancelled" ? "cancelled" : "refusal" };
    }
    default:
      throw acp.RequestError.invalidParams({ prompt: params.prompt[0].text });
  }
}

export const app = acp
  .agent({ name: "ts" })
  .onRequest(A.initialize, () => ({
    protocolVersion: acp.PROTOCOL_VERSION,
    agentInfo: { name: "typescript", version: "1" },
    agentCapabilities: { promptCapabilities: { embeddedContext: true } },
  }))
  .onRequest(A.session.new, ({ params }) => {
    if (params.mcpServers[0]?.env[0]?.value !== "b") throw acp.RequestError.invalidParams();
    const modes = [{ id: "ask", name: "Ask" }, { id: "code", name: "Code" }];
    return { sessionId: "session-1", modes: { currentModeId: "ask", availableModes: modes } };
  })
  .onRequest(A.session.setMode, async ({ params, client }) => {
    await new Turn(client, params.sessionId).update({ sessionUpdate: "current_mode_update", currentModeId: params.modeId });
    return {};
  })
  .onRequest(A.session.prompt, prompt)
  .onNotification(A.session.cancel, ({ params }) => running.get(params.sessionId)?.())
  .onRequest("_interop/echo", anything, ({ params }) => params);

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  app.connect(acp.ndJsonStream(Writable.toWeb(process.stdout), Readable.toWeb(process.stdin)));
}
