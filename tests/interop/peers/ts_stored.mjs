// v1 agent on the official TypeScript SDK whose sessions can be loaded.
import * as acp from "@agentclientprotocol/sdk";

const { agent: A, client: C } = acp.methods;
const COUNT = 20;

async function say(client, sessionId, text) {
  for (let number = 0; number < COUNT; number++) {
    const content = { type: "text", text: `${text} ${number}, ` };
    await client.notify(C.session.update, { sessionId, update: { sessionUpdate: "agent_message_chunk", content } });
  }
}

export const app = acp
  .agent({ name: "stored" })
  .onRequest(A.initialize, () => ({
    protocolVersion: acp.PROTOCOL_VERSION,
    agentCapabilities: { loadSession: true },
  }))
  .onRequest(A.session.new, () => ({ sessionId: "stored-1" }))
  .onRequest(A.session.load, async ({ params, client }) => {
    await say(client, params.sessionId, "first");
    return {};
  })
  .onRequest(A.session.prompt, async ({ params, client }) => {
    await say(client, params.sessionId, params.prompt[0].text);
    return { stopReason: "end_turn" };
  });
