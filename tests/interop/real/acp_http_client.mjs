// A turn with acp-http-client. It has one stream for all sessions and sends no headers of ACP, so `fetch` adds
// them and joins the streams of the sessions.
import { AcpHttpClient } from "acp-http-client";

const ids = Promise.withResolvers ? Promise.withResolvers() : {};
ids.promise ??= new Promise((resolve) => (ids.resolve = resolve));
const joined = new TransformStream();
const writer = joined.writable.getWriter();
const open = new Map();

async function read(url, headers) {
  const response = await fetch(url, { headers });
  if (!response.ok) throw new Error(`GET: ${response.status}`);
  (async () => {
    let event = "";
    const decoder = new TextDecoder();
    for await (const chunk of response.body) {
      event += decoder.decode(chunk, { stream: true });
      const end = event.lastIndexOf("\n\n") + 2;
      if (end > 1) await writer.write(new TextEncoder().encode(event.slice(0, end)));
      event = event.slice(end > 1 ? end : 0);
    }
  })().catch(() => {});
}

function stream(url, headers, session) {
  if (!open.has(session)) {
    const given = { Accept: "text/event-stream", Authorization: headers.get("Authorization") };
    given["Acp-Connection-Id"] = headers.get("Acp-Connection-Id");
    if (session) given["Acp-Session-Id"] = session;
    open.set(session, read(url, given));
  }
  return open.get(session);
}

async function fetchWithHeaders(url, init) {
  const headers = new Headers(init.headers);
  const message = init.body ? JSON.parse(init.body) : {};
  if (message.method !== "initialize") headers.set("Acp-Connection-Id", await ids.promise);
  if (init.method === "GET") {
    await stream(url, headers, undefined);
    return new Response(joined.readable, { headers: { "Content-Type": "text/event-stream" } });
  }
  const session = message.params?.sessionId;
  if (session) {
    headers.set("Acp-Session-Id", session);
    await stream(url, headers, session);
  }
  const response = await fetch(url, { ...init, headers });
  if (message.method === "initialize") ids.resolve(response.headers.get("Acp-Connection-Id"));
  return response;
}

const saw = { text: "", asked: [] };
const url = new URL(process.argv[2]);
const client = new AcpHttpClient({
  baseUrl: url.origin,
  token: process.env.ACCORD_TOKEN,
  fetch: fetchWithHeaders,
  transport: { path: url.pathname },
  client: {
    sessionUpdate: async ({ update }) => {
      if (update.sessionUpdate === "agent_message_chunk") saw.text += update.content.text;
    },
    requestPermission: async ({ options }) => {
      saw.asked.push(options.map((option) => option.kind));
      const optionId = options.find((option) => option.kind === "allow_once").optionId;
      return { outcome: { outcome: "selected", optionId } };
    },
  },
});
const { protocolVersion } = await client.initialize();
const { sessionId } = await client.newSession({ cwd: process.cwd(), mcpServers: [] });
const prompt = (text) => client.prompt({ sessionId, prompt: [{ type: "text", text }] });
const stops = [(await prompt("permission")).stopReason, (await prompt("echo hello")).stopReason];
await client.disconnect();
console.log(JSON.stringify({ protocolVersion, stops, ...saw }));
process.exit(0);
