// The client of the benchmarks on npm @agentclientprotocol/sdk; harness.py in JavaScript.
import * as acp from "@agentclientprotocol/sdk";
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import fs from "node:fs";
import { Readable, Writable } from "node:stream";
import { setTimeout as sleep } from "node:timers/promises";
import {
  CHUNKS_PER_TURN,
  DIFF_BYTES,
  UPDATES_PER_TURN,
  fileText,
  nowNs,
  percentile,
  sourceText,
  spread,
} from "../workload.mjs";

const TERMINAL_TEXT = sourceText(2048);
const CONNECTING = 50; // clients that connect at the same time
const AGENT = acp.methods.agent;
const CLIENT = acp.methods.client;
const nowS = () => nowNs() / 1e9;

function cpuS(pid) {
  let total = 0;
  for (const thread of fs.readdirSync(`/proc/${pid}/task`)) {
    try {
      total += Number(fs.readFileSync(`/proc/${pid}/task/${thread}/schedstat`, "utf8").split(" ")[0]);
    } catch {
      // the thread has ended
    }
  }
  return total / 1e9;
}

function megabytes(file, key) {
  return Number(new RegExp(`^${key}:\\s+(\\d+)`, "m").exec(fs.readFileSync(file, "utf8"))[1]) / 1024;
}

const peakMb = (pid) => megabytes(`/proc/${pid}/status`, "VmHWM");
const shareMb = (pid) => megabytes(`/proc/${pid}/smaps_rollup`, "Pss");
const resetPeak = (pid) => fs.writeFileSync(`/proc/${pid}/clear_refs`, "5");

class Meter {
  constructor(agent) {
    this.agent = agent;
    resetPeak("self");
    resetPeak(agent);
    [this.clientCpu, this.agentCpu, this.start] = [cpuS("self"), cpuS(agent), nowS()];
  }

  read() {
    const s = nowS() - this.start;
    return {
      s,
      client_cpu_s: cpuS("self") - this.clientCpu,
      agent_cpu_s: cpuS(this.agent) - this.agentCpu,
      client_peak_mb: peakMb("self"),
      agent_peak_mb: peakMb(this.agent),
    };
  }
}

// Whether the agent is reached by a URL, which its process id follows.
const isUrl = (argv) => argv[0].includes("://");

async function networkStream(url) {
  if (url.startsWith("ws")) {
    const { createWebSocketStream } = await import("@agentclientprotocol/sdk/experimental/ws-client");
    const { WebSocket } = await import("ws");
    return createWebSocketStream(url, { WebSocket });
  }
  const { createHttpStream } = await import("@agentclientprotocol/sdk/experimental/http-client");
  return createHttpStream(url);
}

class Bench {
  chunks = 0;
  characters = 0;
  others = 0;
  written = 0;
  result = null;
  lastChunk = null;
  chunksOf = new Map();

  onText(sessionId, text) {
    if (text.startsWith("RESULT ")) {
      this.result = JSON.parse(text.slice(7));
      return;
    }
    this.chunks++;
    this.characters += text.length;
    if (this.lastChunk) {
      this.lastChunk.set(sessionId, nowS());
      this.chunksOf.set(sessionId, (this.chunksOf.get(sessionId) ?? 0) + 1);
    }
  }

  async start(argv) {
    const stream = isUrl(argv) ? await networkStream(argv[0]) : this.processStream(argv);
    const app = acp
      .client({ name: "bench" })
      .onNotification(CLIENT.session.update, async ({ params: { sessionId, update } }) => {
        if (update.sessionUpdate === "agent_message_chunk" && update.content.type === "text")
          this.onText(sessionId, update.content.text);
        else this.others++;
      })
      .onRequest(CLIENT.session.requestPermission, async ({ params }) => ({
        outcome: { outcome: "selected", optionId: params.options[0].optionId },
      }))
      .onRequest(CLIENT.fs.readTextFile, async ({ params }) => ({ content: fileText(params.path) }))
      .onRequest(CLIENT.fs.writeTextFile, async ({ params }) => {
        this.written += params.content.length;
        return {};
      })
      .onRequest(CLIENT.terminal.create, async () => ({ terminalId: "t1" }))
      .onRequest(CLIENT.terminal.output, async () => ({ output: TERMINAL_TEXT, truncated: false }))
      .onRequest(CLIENT.terminal.waitForExit, async () => ({ exitCode: 0 }))
      .onRequest(CLIENT.terminal.release, async () => ({}));
    this.agent = app.connect(stream).agent;
    await this.agent.request(AGENT.initialize, {
      protocolVersion: acp.PROTOCOL_VERSION,
      clientCapabilities: { fs: { readTextFile: true, writeTextFile: true }, terminal: true },
    });
    return isUrl(argv) ? Number(argv[1]) : this.process.pid;
  }

  processStream(argv) {
    this.process = spawn(argv[0], argv.slice(1), { stdio: ["pipe", "pipe", "inherit"] });
    const limit = Number(process.env.BENCH_MESSAGE_LIMIT);
    return acp.ndJsonStream(
      Writable.toWeb(this.process.stdin),
      Readable.toWeb(this.process.stdout),
      limit ? { maxMessageBytes: limit } : {},
    );
  }

  async newSession() {
    return (await this.agent.request(AGENT.session.new, { cwd: "/tmp", mcpServers: [] })).sessionId;
  }

  async do(sessionId, what, params = {}, texts = []) {
    const prompt = [JSON.stringify({ do: what, ...params }), ...texts].map((text) => ({ type: "text", text }));
    const { stopReason } = await this.agent.request(AGENT.session.prompt, { sessionId, prompt });
    assert.equal(stopReason, "end_turn");
  }

  async allHandled(count) {
    for (let i = 0; i < 10_000 && this.chunks < count; i++) await sleep(1);
    assert(this.chunks >= count, "updates were lost");
  }

  stop() {
    this.process?.stdin.end();
    this.process?.kill();
  }
}

const experiments = {
  async stream(bench, params, argv) {
    const agent = await bench.start(argv);
    const session = await bench.newSession();
    await bench.do(session, "stream", { n: params.warm });
    await bench.allHandled(params.warm);
    bench.chunks = bench.characters = 0;
    const meter = new Meter(agent);
    await bench.do(session, "stream", { n: params.n });
    await bench.allHandled(params.n);
    const used = meter.read();
    assert.equal(bench.chunks, params.n);
    assert.equal(bench.characters, 40 * params.n);
    return { ...used, per_s: params.n / used.s };
  },

  async roundtrip(bench, params, argv) {
    await bench.start(argv);
    const session = await bench.newSession();
    const times = [];
    const ask = () => (params.by === "prompt" ? bench.do(session, "nothing") : bench.newSession());
    for (let i = 0; i < 100; i++) await ask();
    for (let i = 0; i < params.n; i++) {
      const start = nowNs();
      await ask();
      times.push(nowNs() - start);
    }
    await bench.do(session, "read", { n: 100, size: 1024 });
    bench.result = null;
    await bench.do(session, "read", { n: params.n, size: 1024 });
    for (let i = 0; i < 10_000 && !bench.result; i++) await sleep(1);
    return { to_agent: spread(times), to_client: bench.result };
  },

  async turn(bench, params, argv) {
    const agent = await bench.start(argv);
    const session = await bench.newSession();
    for (let i = 0; i < params.warm; i++) await bench.do(session, "turn");
    await bench.allHandled(CHUNKS_PER_TURN * params.warm);
    await sleep(50);
    bench.chunks = bench.others = bench.written = 0;
    const meter = new Meter(agent);
    for (let i = 0; i < params.n; i++) await bench.do(session, "turn");
    const used = meter.read();
    await bench.allHandled(CHUNKS_PER_TURN * params.n);
    await sleep(50);
    assert.equal(bench.chunks, CHUNKS_PER_TURN * params.n);
    assert.equal(bench.others, UPDATES_PER_TURN * params.n);
    assert.equal(bench.written, DIFF_BYTES * params.n);
    return { ...used, per_s: params.n / used.s };
  },

  async large(bench, params, argv) {
    const agent = await bench.start(argv);
    const session = await bench.newSession();
    const texts = params.to === "agent" ? [sourceText(params.size)] : [];
    const meter = new Meter(agent);
    if (params.to === "agent") await bench.do(session, "nothing", {}, texts);
    else {
      await bench.do(session, "write", { size: params.size });
      assert.equal(bench.written, params.size);
    }
    return meter.read();
  },

  async sessions(bench, params, argv) {
    const agent = await bench.start(argv);
    await bench.do(await bench.newSession(), "stream", { n: 500 });
    await bench.allHandled(500);
    const ids = [];
    for (let i = 0; i < params.n; i++) ids.push(await bench.newSession());
    const total = params.n * params.chunks;
    bench.chunks = 0;
    bench.lastChunk = new Map();
    const start = nowS();
    const meter = new Meter(agent);
    await Promise.all(ids.map((session) => bench.do(session, "stream", { n: params.chunks, polite: true })));
    await bench.allHandled(total);
    const used = meter.read();
    for (const session of ids) assert.equal(bench.chunksOf.get(session), params.chunks);
    const finished = ids.map((session) => bench.lastChunk.get(session) - start);
    return { ...used, per_s: total / used.s, fairness: Math.min(...finished) / Math.max(...finished) };
  },

  async clients(bench, params, argv) {
    const benches = Array.from({ length: params.n }, () => new Bench());
    const ids = [];
    let agent;
    for (let at = 0; at < benches.length; at += CONNECTING) {
      const batch = benches.slice(at, at + CONNECTING);
      [agent] = await Promise.all(batch.map((one) => one.start(argv)));
      ids.push(...(await Promise.all(batch.map((one) => one.newSession()))));
    }
    for (const one of benches) one.lastChunk = new Map();
    const start = nowS();
    const meter = new Meter(agent);
    const { n, chunks } = params;
    await Promise.all(benches.map((one, i) => one.do(ids[i], "stream", { n: chunks, polite: true, together: n })));
    for (const one of benches) await one.allHandled(chunks);
    const used = meter.read();
    for (const one of benches) assert.equal(one.chunks, chunks);
    const finished = benches.map((one, i) => one.lastChunk.get(ids[i]) - start);
    return { ...used, per_s: (n * chunks) / used.s, fairness: Math.min(...finished) / Math.max(...finished) };
  },

  async fanout(bench, params, argv) {
    const start = nowS();
    const benches = Array.from({ length: params.n }, () => new Bench());
    const ready = [];
    const agents = await Promise.all(
      benches.map(async (one) => {
        const agent = await one.start(argv);
        ready.push(nowS() - start);
        return agent;
      }),
    );
    const result = {
      s: Math.max(...ready),
      half_s: percentile(ready, 50),
      agents_mb: agents.reduce((sum, agent) => sum + shareMb(agent), 0),
      client_peak_mb: peakMb("self"),
    };
    for (const one of benches) one.stop();
    return result;
  },
};

const [name, params, ...argv] = process.argv.slice(2);
const bench = new Bench();
const result = await experiments[name](bench, JSON.parse(params), argv);
fs.writeSync(1, "RESULT " + JSON.stringify(result) + "\n");
if (name !== "fanout" && name !== "clients") bench.stop();
process.exit(0);
