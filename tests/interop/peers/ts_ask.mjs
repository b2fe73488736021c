// One question to an agent's command, by a v1 client on the official TypeScript SDK; prints the answer.
import * as acp from "@agentclientprotocol/sdk";
import { spawn } from "node:child_process";
import { Readable, Writable } from "node:stream";

const [question, command, ...words] = process.argv.slice(2);
const child = spawn(command, words, { stdio: ["pipe", "pipe", "inherit"] });
const said = [];
const { agent: A, client: C } = acp.methods;
const app = acp.client({ name: "question" }).onNotification(C.session.update, ({ params }) => {
  if (params.update.sessionUpdate === "agent_message_chunk") said.push(params.update.content.text);
});
await app.connectWith(acp.ndJsonStream(Writable.toWeb(child.stdin), Readable.toWeb(child.stdout)), async (agent) => {
  const initialize = { protocolVersion: acp.PROTOCOL_VERSION, clientCapabilities: {} };
  await agent.request(A.initialize, initialize);
  const { sessionId } = await agent.request(A.session.new, { cwd: process.cwd(), mcpServers: [] });
  const prompt = [{ type: "text", text: question }];
  const { stopReason } = await agent.request(A.session.prompt, { sessionId, prompt });
  console.log(JSON.stringify({ text: said.join(""), stopReason }));
});
child.stdin.end();
process.exit(0);
