// v1 client on the official TypeScript SDK: loads a session on a new connection by its URL, and prompts there.
import * as acp from "@agentclientprotocol/sdk";

const { agent: A, client: C } = acp.methods;
const url = process.argv[2];
const { connect } = await import(url.startsWith("ws") ? "./ts_websocket.mjs" : "./ts_http.mjs");
const said = [];
let heard = () => {};

async function connected(work) {
  said.length = 0;
  const app = acp.client({ name: "typescript" }).onNotification(C.session.update, ({ params }) => {
    said.push(params.update.content.text);
    heard();
  });
  return await app.connectWith(connect(url), async (agent) => {
    await agent.request(A.initialize, { protocolVersion: acp.PROTOCOL_VERSION, clientCapabilities: {} });
    return await work(agent);
  });
}

/** All updates up to `last`: over HTTP, a response has another stream, and can overtake them. */
async function taken(last) {
  while (!said.includes(last)) await new Promise((resolve) => (heard = resolve));
  return said.splice(0);
}

const place = { cwd: process.cwd(), mcpServers: [] };
const prompt = (sessionId, text) => ({ sessionId, prompt: [{ type: "text", text }] });
const sessionId = await connected(async (agent) => {
  const session = await agent.request(A.session.new, place);
  await agent.request(A.session.prompt, prompt(session.sessionId, "first"));
  return session.sessionId;
});
console.log(JSON.stringify(await connected(async (agent) => {
  await agent.request(A.session.load, { sessionId, ...place });
  const atResponse = said.length;
  const replayed = await taken("first: the end");
  await agent.request(A.session.prompt, prompt(sessionId, "second"));
  return { atResponse, replayed, said: await taken("second: the end") };
})));
process.exit(0);
