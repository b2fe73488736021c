// The agent of the benchmarks on npm @agentclientprotocol/sdk.
import * as acp from "@agentclientprotocol/sdk";
import { Readable, Writable } from "node:stream";
import { fileURLToPath } from "node:url";
import { CHUNKS_PER_TURN, DIFF_BYTES, FILE_BYTES, barrier, chunkText, nowNs, sourceText, spread } from "../workload.mjs";

const OLD_TEXT = sourceText(DIFF_BYTES);
const NEW_TEXT = OLD_TEXT.toUpperCase();
const METHODS = acp.methods.client;

const update = (client, sessionId, update) => client.notify(METHODS.session.update, { sessionId, update });
const text = (text) => ({ type: "text", text });
const say = (client, sessionId, words) =>
  update(client, sessionId, { sessionUpdate: "agent_message_chunk", content: text(words) });

const commands = {
  async nothing() {},

  async stream(client, sessionId, command) {
    if (command.together) await barrier(command.together);
    for (let number = 0; number < command.n; number++) {
      await say(client, sessionId, chunkText(number));
      if (command.polite) await new Promise((resolve) => setImmediate(resolve));
    }
  },

  async read(client, sessionId, command) {
    const times = [];
    const path = `/x/${command.size}`;
    for (let i = 0; i < command.n; i++) {
      const start = nowNs();
      await client.request(METHODS.fs.readTextFile, { sessionId, path });
      times.push(nowNs() - start);
    }
    await say(client, sessionId, "RESULT " + JSON.stringify(spread(times)));
  },

  async write(client, sessionId, command) {
    const content = sourceText(command.size);
    await client.request(METHODS.fs.writeTextFile, { sessionId, path: "/x/big", content });
  },

  async turn(client, sessionId) {
    const show = (what) => update(client, sessionId, what);
    const progress = (fields) => show({ sessionUpdate: "tool_call_update", toolCallId: "call_1", ...fields });
    await show({
      sessionUpdate: "plan",
      entries: Array.from({ length: 5 }, (_, i) => ({
        content: `Step ${i}: do the thing and check it`,
        priority: "high",
        status: "pending",
      })),
    });
    await show({
      sessionUpdate: "tool_call",
      toolCallId: "call_1",
      title: "Editing src/main.py",
      kind: "edit",
      status: "pending",
      locations: [{ path: "/w/src/main.py", line: 10 }],
      rawInput: { path: "/w/src/main.py", mode: "patch" },
    });
    const answer = await client.request(METHODS.session.requestPermission, {
      sessionId,
      toolCall: { toolCallId: "call_1", title: "Editing src/main.py", kind: "edit" },
      options: [
        { optionId: "allow", name: "Allow", kind: "allow_once" },
        { optionId: "reject", name: "Reject", kind: "reject_once" },
      ],
    });
    if (answer.outcome.outcome !== "selected") throw new Error("not allowed");
    await progress({ status: "in_progress" });
    const file = await client.request(METHODS.fs.readTextFile, { sessionId, path: `/x/${FILE_BYTES}` });
    if (file.content.length !== FILE_BYTES) throw new Error("wrong file");
    await progress({ content: [{ type: "diff", path: "/w/src/main.py", oldText: OLD_TEXT, newText: NEW_TEXT }] });
    await client.request(METHODS.fs.writeTextFile, { sessionId, path: "/w/src/main.py", content: NEW_TEXT });
    const { terminalId } = await client.request(METHODS.terminal.create, {
      sessionId,
      command: "pytest",
      args: ["-q", "tests"],
      cwd: "/w",
    });
    await client.request(METHODS.terminal.output, { sessionId, terminalId });
    await client.request(METHODS.terminal.waitForExit, { sessionId, terminalId });
    await client.request(METHODS.terminal.release, { sessionId, terminalId });
    for (let number = 0; number < CHUNKS_PER_TURN; number++) await say(client, sessionId, chunkText(number));
    await progress({ status: "completed", content: [{ type: "content", content: text("done") }] });
  },
};

let sessions = 0;
export const app = acp
  .agent({ name: "bench" })
  .onRequest(acp.methods.agent.initialize, async () => ({
    protocolVersion: acp.PROTOCOL_VERSION,
    agentCapabilities: {},
    agentInfo: { name: "bench", version: "1" },
  }))
  .onRequest(acp.methods.agent.session.new, async () => ({ sessionId: `s${++sessions}` }))
  .onRequest(acp.methods.agent.session.prompt, async ({ client, params }) => {
    const command = JSON.parse(params.prompt[0].text);
    await commands[command.do](client, params.sessionId, command);
    return { stopReason: "end_turn" };
  });

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const limit = Number(process.env.BENCH_MESSAGE_LIMIT);
  const [output, input] = [Writable.toWeb(process.stdout), Readable.toWeb(process.stdin)];
  app.connect(acp.ndJsonStream(output, input, limit ? { maxMessageBytes: limit } : {}));
}
