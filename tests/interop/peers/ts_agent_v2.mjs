// v2 agent on the official TypeScript SDK; the turn is described in ../README.md.
import * as acp from "@agentclientprotocol/sdk/experimental/v2";
import { Readable, Writable } from "node:stream";
import { fileURLToPath } from "node:url";

const { agent: A, client: C } = acp.methods;
const SENTENCE = ["Grüße 👋 ", '"quoted" \\ back\u2028slash\n'];
const PASSED = Buffer.from("2 passed ✓\n");
const COMMAND = { type: "command", name: "test", description: "Run the tests", input: { type: "text", hint: "which ones" } };
const sessions = new Map();
const anything = { parse: (params) => params };
let prompts = 0;

const modeOption = (currentValue) => ({
  configId: "mode", name: "Mode", category: "mode", type: "select", currentValue,
  options: [{ value: "ask", name: "Ask" }, { value: "code", name: "Code" }],
});

const plan = (first, second) => ({
  sessionUpdate: "plan_update",
  plan: {
    type: "items", planId: "plan-1",
    entries: [
      { content: "Edit the notes", priority: "high", status: first },
      { content: "Run the tests", priority: "low", status: second },
    ],
  },
});

class Turn {
  constructor(client, sessionId) {
    this.client = client;
    this.sessionId = sessionId;
    this.abort = new AbortController();
    this.cancelled = new Promise((resolve) => this.abort.signal.addEventListener("abort", resolve));
    sessions.set(sessionId, this);
  }
  update(update) {
    return this.client.notify(C.session.update, { sessionId: this.sessionId, update });
  }
  state(state, more = {}) {
    return this.update({ sessionUpdate: "state_update", state, ...more });
  }
  say(messageId, text, sessionUpdate = "agent_message_chunk") {
    return this.update({ sessionUpdate, messageId, content: { type: "text", text } });
  }
  async permission(toolCallId) {
    const params = {
      sessionId: this.sessionId, title: "Edit notes.txt?", description: "Line 2 in capitals.",
      subject: { type: "tool_call", toolCall: { toolCallId, status: "pending" } },
      options: [
        { optionId: "no", name: "Reject", kind: "reject_once" },
        { optionId: "yes", name: "Allow", kind: "allow_once" },
      ],
    };
    const { outcome } = await this.client.request(C.session.requestPermission, params, {
      cancellationSignal: this.abort.signal,
    });
    return outcome.outcome === "selected" ? outcome.optionId : outcome.outcome;
  }
}

async function work(turn, link) {
  const path = new URL(link.uri).pathname;
  await turn.say("thought-1", "Let me look.", "agent_thought_chunk");
  await turn.update(plan("in_progress", "pending"));
  await turn.update({ sessionUpdate: "available_commands_update", availableCommands: [COMMAND] });
  await turn.update({
    sessionUpdate: "tool_call_update", toolCallId: "edit-1", title: "Edit notes.txt", kind: "edit", status: "pending",
    locations: [{ path, line: 2 }], rawInput: { path, nested: [1, null, { deep: true }] },
  });
  const saw = { permission: await turn.permission("edit-1") };
  await turn.update({ sessionUpdate: "tool_call_update", toolCallId: "edit-1", status: "in_progress" });
  await turn.update({
    sessionUpdate: "tool_call_content_chunk", toolCallId: "edit-1",
    content: { type: "content", content: { type: "text", text: "one line" } },
  });
  const patch = { format: "git_patch", text: `--- ${path}\n+++ ${path}\n@@ -2 +2 @@\n-second\n+SECOND\n` };
  await turn.update({
    sessionUpdate: "tool_call_update", toolCallId: "edit-1", status: "completed",
    content: [{ type: "diff", changes: [{ operation: "modify", path }], patch }],
  });
  const terminalId = "terminal-1";
  await turn.update({ sessionUpdate: "terminal_update", terminalId, command: "pytest -q", cwd: "/" });
  await turn.update({
    sessionUpdate: "tool_call_update", toolCallId: "run-1", title: "pytest -q", kind: "execute", status: "in_progress",
    content: [{ type: "terminal", terminalId }],
  });
  for (const bytes of [PASSED.subarray(0, 10), PASSED.subarray(10)]) {
    await turn.update({ sessionUpdate: "terminal_output_chunk", terminalId, data: bytes.toString("base64") });
  }
  await turn.update({ sessionUpdate: "terminal_update", terminalId, exitStatus: { exitCode: 0 } });
  await turn.update({ sessionUpdate: "tool_call_update", toolCallId: "run-1", title: null, status: "completed" });
  await turn.update(plan("completed", "completed"));
  await turn.update({ sessionUpdate: "session_info_update", title: "Edit the notes" });
  await turn.update({ sessionUpdate: "usage_update", used: 10, size: 100 });
  saw.echo = await turn.client.request("_interop/echo", { n: 2 }).then(({ n }) => n, (error) => error.code);
  for (const part of SENTENCE) await turn.say("message-1", part);
  await turn.update({
    sessionUpdate: "agent_message", messageId: "message-2", content: [{ type: "text", text: JSON.stringify(saw) }],
  });
  return "end_turn";
}

async function wait(turn) {
  await turn.say("message-3", "waiting");
  await turn.cancelled;
  return "cancelled";
}

async function ask(turn) {
  const outcome = await turn.permission("edit-2");
  await turn.say("message-4", outcome);
  return "cancelled";
}

async function prompt({ params, client }) {
  const tasks = { work, wait, ask };
  const task = tasks[params.prompt[0].text];
  if (!task) throw acp.RequestError.invalidParams({ prompt: params.prompt[0].text });
  const turn = new Turn(client, params.sessionId);
  const messageId = `user-${++prompts}`;
  await turn.update({ sessionUpdate: "user_message", messageId, content: params.prompt });
  await turn.state("running");
  void task(turn, params.prompt[1]).then((stopReason) => turn.state("idle", { stopReason }));
  return { messageId };
}

export const app = acp
  .agent({ name: "ts" })
  .onRequest(A.initialize, () => ({
    protocolVersion: acp.PROTOCOL_VERSION,
    info: { name: "typescript", version: "1" },
    capabilities: { session: { prompt: { embeddedContext: {} }, mcp: { stdio: {} } } },
  }))
  .onRequest(A.session.new, ({ params, client }) => {
    if (params.mcpServers[0]?.env[0]?.value !== "b") throw acp.RequestError.invalidParams();
    new Turn(client, "session-1").cwd = params.cwd;
    return { sessionId: "session-1", configOptions: [modeOption("ask")], availableCommands: [COMMAND] };
  })
  .onRequest(A.session.setConfigOption, ({ params }) => ({ configOptions: [modeOption(params.value)] }))
  .onRequest(A.session.prompt, prompt)
  .onNotification(A.session.cancel, ({ params }) => sessions.get(params.sessionId)?.abort.abort())
  .onRequest(A.session.list, () => ({ sessions: [...sessions.keys()].map((sessionId) => ({ sessionId, cwd: "/" })) }))
  .onRequest(A.session.resume, async ({ params, client }) => {
    await new Turn(client, params.sessionId).state("idle");
    return {};
  })
  .onRequest(A.session.close, ({ params }) => {
    sessions.delete(params.sessionId);
    return {};
  })
  .onRequest("_interop/echo", anything, ({ params }) => params);

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  app.connect(acp.ndJsonStream(Writable.toWeb(process.stdout), Readable.toWeb(process.stdin)));
}
