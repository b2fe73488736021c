// Agent on the official TypeScript SDK that speaks v1 and v2: the client settles which.
import { agentProtocolRouter, ndJsonStream } from "@agentclientprotocol/sdk/experimental/v2";
import { Readable, Writable } from "node:stream";
import { app as v1 } from "./ts_agent.mjs";
import { app as v2 } from "./ts_agent_v2.mjs";

agentProtocolRouter()
  .withV1(v1)
  .withV2(v2)
  .connect(ndJsonStream(Writable.toWeb(process.stdout), Readable.toWeb(process.stdin)));
