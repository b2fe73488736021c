// A front end: uses an agent by @ag-ui/client, and prints what it has found as JSON.
// Usage: node client.mjs URL TOKEN
import { HttpAgent, buildResumeArray } from "@ag-ui/client";

const [url, token] = process.argv.slice(2);
const lookup = {
  name: "lookup",
  description: "Look a term up.",
  parameters: { type: "object", properties: { term: { type: "string" } } },
};

function front(threadId) {
  return new HttpAgent({ url, threadId, headers: { Authorization: `Bearer ${token}` } });
}

let number = 0;

async function say(agent, content, parameters = {}, subscriber = {}) {
  if (content !== undefined) {
    number += 1;
    agent.addMessage({ id: `u${number}`, role: "user", content });
  }
  let finished;
  const { newMessages } = await agent.runAgent(parameters, {
    ...subscriber,
    onRunFinishedEvent: (params) => {
      finished = params;
    },
  });
  return { newMessages, finished };
}

const spoken = ({ newMessages }) =>
  newMessages.filter((m) => m.role === "assistant").map((m) => m.content ?? "").join("");

const scenarios = {
  async conversation() {
    const agent = front("conversation");
    const first = await say(agent, "think hm\nsay one\nls x\nplan step\npid");
    const again = await say(agent, "pid");
    return {
      roles: first.newMessages.map((m) => m.role),
      tool: first.newMessages.find((m) => m.role === "tool").content,
      calls: first.newMessages.flatMap((m) => m.toolCalls ?? []).map((c) => c.function),
      same: spoken(first).endsWith(spoken(again)) && spoken(again) !== "",
      plan: agent.state.acp.plan[0].content,
      outcome: first.finished.outcome,
      result: first.finished.result,
    };
  },

  async tools() {
    const agent = front("tools");
    const question = 'call lookup {"term": "a"} & lookup {"term": "b"}';
    let run = await say(agent, question, { tools: [lookup] });
    const calls = agent.messages.flatMap((m) => m.toolCalls ?? []);
    const pending = run.finished.pendingToolCallIds;
    for (const id of pending) {
      const call = calls.find((one) => one.id === id);
      const { term } = JSON.parse(call.function.arguments);
      agent.addMessage({ id: `t-${id}`, role: "tool", toolCallId: id, content: `<${term}>` });
    }
    run = await say(agent, undefined, { tools: [lookup] });
    const more = await say(agent, "tools", { tools: [lookup] });
    return { pending: pending.length, text: spoken(run), more: spoken(more) };
  },

  async interrupts() {
    const agent = front("interrupts");
    const asked = await say(agent, "edit");
    const [interrupt] = agent.pendingInterrupts;
    const blocked = await say(agent, "say on").then(
      () => "",
      (error) => error.message,
    );
    agent.setMessages(agent.messages.slice(0, -1));
    const resume = buildResumeArray(agent.pendingInterrupts, {
      [interrupt.id]: { status: "resolved", payload: { approved: true } },
    });
    const answered = await say(agent, undefined, { resume });
    const form = await say(agent, "form Where to?");
    const [question] = agent.pendingInterrupts;
    const values = buildResumeArray(agent.pendingInterrupts, {
      [question.id]: { status: "resolved", payload: { city: "Rome" } },
    });
    const filled = await say(agent, undefined, { resume: values });
    return {
      outcomes: [asked, answered, form, filled].map((run) => run.finished.outcome),
      reasons: [interrupt.reason, question.reason],
      blocked: blocked.includes("pending interrupt"),
      open: agent.pendingInterrupts.length,
      texts: [spoken(answered), spoken(filled)],
      result: answered.newMessages.some((m) => m.toolCallId === interrupt.toolCallId),
    };
  },

  async abort() {
    const agent = front("abort");
    await say(agent, "wait", {}, { onTextMessageContentEvent: () => agent.abortRun() });
    return { text: spoken(await say(agent, "say next")) };
  },

  async errors() {
    const agent = front("errors");
    const codes = [];
    const onRunErrorEvent = ({ event }) => void codes.push(event.code);
    await say(agent, "die", {}, { onRunErrorEvent }).catch(() => {});
    agent.setMessages([]);
    const text = spoken(await say(agent, "say on"));
    agent.url = `${url}x`;
    const status = await say(agent, "say on").then(
      () => 0,
      (error) => error.status,
    );
    return { codes, text, status };
  },
};

const found = {};
for (const [name, play] of Object.entries(scenarios)) {
  console.error(name);
  found[name] = await play();
}
console.log(JSON.stringify(found));
