// The codec of npm @agentclientprotocol/sdk: the same calls that its connection makes.
import fs from "node:fs";
import {
  isNotificationMessage,
  isRequestMessage,
  isResponseMessage,
  isResponseShapedMessage,
} from "../node_modules/@agentclientprotocol/sdk/dist/core/jsonrpc.js";
import * as zod from "../node_modules/@agentclientprotocol/sdk/dist/v1/schema/zod.gen.js";

const REPEATS = 7;
const UPDATE_PASSES = 2; // its client parses each session/update twice
const PARAMS = {
  initialize: zod.zInitializeRequest,
  "session/new": zod.zNewSessionRequest,
  "session/prompt": zod.zPromptRequest,
  "session/cancel": zod.zCancelNotification,
  "session/update": zod.zSessionNotification,
  "session/request_permission": zod.zRequestPermissionRequest,
  "fs/read_text_file": zod.zReadTextFileRequest,
  "fs/write_text_file": zod.zWriteTextFileRequest,
  "terminal/create": zod.zCreateTerminalRequest,
  "terminal/output": zod.zTerminalOutputRequest,
  "terminal/wait_for_exit": zod.zWaitForTerminalExitRequest,
  "terminal/release": zod.zReleaseTerminalRequest,
};
const encoder = new TextEncoder();
const decoder = new TextDecoder();

function decode(lines) {
  for (const line of lines) {
    const message = JSON.parse(decoder.decode(line).trim());
    if (!isRequestMessage(message) && !isNotificationMessage(message) && !isResponseShapedMessage(message)) continue;
    if ("method" in message) {
      const passes = message.method === "session/update" ? UPDATE_PASSES : 1;
      for (let i = 0; i < passes; i++) PARAMS[message.method].parse(message.params);
    } else isResponseMessage(message);
  }
}

function encode(messages) {
  for (const message of messages) encoder.encode(JSON.stringify(message) + "\n");
}

function microseconds(work, inputs) {
  const passes = [];
  for (let i = 0; i < REPEATS; i++) {
    const start = process.hrtime.bigint();
    work(inputs);
    passes.push(Number(process.hrtime.bigint() - start) / inputs.length / 1e3);
  }
  return Math.min(...passes); // the one least disturbed
}

const mix = fs
  .readFileSync(0, "utf8")
  .split("\n")
  .slice(0, -1)
  .map((line) => encoder.encode(line.split("\t").slice(2).join("\t")));
const chunks = mix.filter((line) => decoder.decode(line).includes('"agent_message_chunk"'));
const result = {};
for (const [name, lines] of Object.entries({ mix, chunk: chunks })) {
  result[`decode_${name}`] = microseconds(decode, lines);
  result[`encode_${name}`] = microseconds(encode, lines.map((line) => JSON.parse(decoder.decode(line))));
}
console.log("RESULT " + JSON.stringify(result));
