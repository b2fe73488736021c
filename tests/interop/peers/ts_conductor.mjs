// The conductor of Thinkwell on stdin and stdout: PROXY... AGENT, each a command in one word.
import { Conductor, fromCommands } from "@thinkwell/conductor";
import { createInterface } from "node:readline";

async function* messages() {
  for await (const line of createInterface({ input: process.stdin, crlfDelay: Infinity })) {
    if (line.trim()) yield JSON.parse(line);
  }
}

const client = {
  messages: messages(),
  send: (message) => process.stdout.write(`${JSON.stringify(message)}\n`),
  close: async () => process.stdin.destroy(),
};
// Its bridge fails at a session with a stdio MCP server, which has no `url`.
const conductor = new Conductor({ instantiator: fromCommands(process.argv.slice(2)), mcpBridgeMode: "disabled" });
await conductor.connect({ connect: async () => client });
await conductor.shutdown();
