// The official TypeScript SDK's client over streamable HTTP.
import { createHttpStream } from "@agentclientprotocol/sdk/experimental/http-client";

export function connect(url) {
  return createHttpStream(url, { headers: { Authorization: `Bearer ${process.env.ACCORD_TOKEN}` } });
}
