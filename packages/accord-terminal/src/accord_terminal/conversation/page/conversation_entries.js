// The entries of a session as elements. An entry has a heading, and a link to its message.

import { count, fill, h } from "./dom.js";
import { folded, partElement, textElement } from "./conversation_parts.js";
import { address, messageAddress, shownNumber } from "./router.js";
import { duration } from "./dom.js";

/** @typedef {import("./conversation_store.js").Entry} Entry */

const NAMES = { user: "You", agent: "Agent", thought: "Thought" };
const STATES = {
  pending: "○", in_progress: "◐", paused: "◌", completed: "●", failed: "✗", cancelled: "⊘",
};

// Other ones begin with an underscore.
const STOPS = new Set(["end_turn", "max_tokens", "max_turn_requests", "refusal", "cancelled", "error"]);

/** Return a new element for an entry. @param {Entry} entry @param {Record<string, any>} terminals */
export function entryElement(entry, terminals) {
  const element = h("article", { class: "entry", id: `entry-${entry.id}`, "data-kind": entry.kind });
  updateEntry(element, entry, terminals);
  return element;
}

/**
 * Show the new state of an entry. Of a message, only parts that have changed are replaced.
 * @param {HTMLElement} element @param {Entry} entry @param {Record<string, any>} terminals
 */
export function updateEntry(element, entry, terminals) {
  if (entry.kind === "message" && element.firstElementChild) {
    updateMessage(element, entry);
    return;
  }
  const open = openDetails(element);
  element.className = ["entry", entry.kind, entry.role, entry.status, entry.severity].filter(isWord).join(" ");
  fill(element, (RENDER[/** @type {"tool"} */ (entry.kind)] ?? other)(entry, terminals));
  for (const [key, isOpen] of open) {
    for (const details of element.querySelectorAll("details")) {
      if (details.dataset.key === key) details.open = isOpen;
    }
  }
}

/** Whether a text can be the name of a class: states can be any text. @param {any} text */
function isWord(text) {
  return typeof text === "string" && /^[a-z_-]{1,30}$/.test(text);
}

/** @param {HTMLElement} element */
function openDetails(element) {
  return [...element.querySelectorAll("details")].map((item) => /** @type {[string, boolean]} */ ([item.dataset.key, item.open]));
}

/** Return the heading of an entry with a link to its message. @param {Entry} entry @param {...any} title */
function head(entry, ...title) {
  return h("header", null, h("h3", null, title), link(entry));
}

/** @param {Entry} entry */
function link(entry) {
  if (entry.message === null) return null;
  const number = shownNumber(entry.message);
  return h("a", { class: "message-link", "data-message": entry.message, href: messageAddress(entry.message), title: "Show the message in the timeline", "aria-label": `Message ${number} in the timeline` }, `#${number}`);
}

// Messages.

/** @param {Entry} entry */
function message(entry) {
  const name = [NAMES[/** @type {"user"} */ (entry.role)] ?? entry.role, entry.by ? h("span", { class: "by" }, ` (${entry.by})`) : null];
  const parts = h("div", { class: "parts" }, entry.parts.map((/** @type {any} */ part) => partElement(part)));
  if (entry.role !== "thought") return [head(entry, name), parts];
  return [h("details", { "data-key": "thought" }, h("summary", null, h("h3", null, name)), parts), link(entry)];
}

/** @param {HTMLElement} element @param {Entry} entry */
function updateMessage(element, entry) {
  const parts = /** @type {HTMLElement} */ (element.querySelector(".parts"));
  while (parts.children.length > entry.from) parts.lastElementChild?.remove();
  parts.append(...entry.parts.slice(parts.children.length).map((/** @type {any} */ part) => partElement(part)));
}

// Tool calls.

/** @param {Entry} call @param {Record<string, any>} terminals */
export function toolCall(call, terminals) {
  const mark = STATES[/** @type {"failed"} */ (call.status)] ?? "◐";
  const isShown = call.content.some((/** @type {any} */ part) => part.type === "diff" || part.type === "terminal") || call.status === "failed" || call.cancellable;
  const changed = call.content.map((/** @type {any} */ part) => part.path);
  const locations = call.locations.filter((/** @type {any} */ place) => place.line !== null || !changed.includes(place.path));
  const content = [
    locations.length ? h("p", { class: "locations" }, locations.map(
      (/** @type {any} */ place) => h("code", null, place.line === null ? place.path : `${place.path}:${place.line}`))) : null,
    call.content.map((/** @type {any} */ part) => partElement(part, terminals)),
    call.left ? h("p", { class: "soft" }, `… ${call.left} more parts: see the message`) : null,
    call.cancellable ? h("button", { type: "button", class: "cancel-call", "data-call": call.callId }, "Cancel this tool call") : null,
    call.input ? folded("Input", textElement(call.input)) : null,
    call.output ? folded("Output", textElement(call.output)) : null,
  ];
  const title = [
    h("span", { class: "mark", "aria-hidden": "true" }, mark), " ", call.title || call.name || "Tool call without a title",
    call.toolKind === "other" ? null : [h("span", { class: "visually-hidden" }, ", kind: "), h("span", { class: "badge" }, call.toolKind.replaceAll("_", " "))],
    h("span", { class: "visually-hidden" }, ", status: "), h("span", { class: "badge status" }, call.status.replaceAll("_", " ")),
  ];
  if (!content.flat().some(Boolean)) return [head(call, title)];
  return [
    h("details", { open: isShown, "data-key": "call" }, h("summary", null, h("h3", null, title)), content),
    link(call),
  ];
}

// Plans and the rest.

/** @param {Entry} plan */
function planEntry(plan) {
  const done = plan.entries.filter((/** @type {any} */ step) => ["completed", "cancelled"].includes(step.status)).length;
  const count = plan.entries.length ? ` ${done}/${plan.entries.length}` : "";
  const steps = plan.entries.map((/** @type {any} */ step) => h("li", { class: isWord(step.status) ? step.status : "" },
    h("span", { class: "mark", "aria-hidden": "true" }, STATES[/** @type {"failed"} */ (step.status)] ?? "○"), " ", step.text,
    h("span", { class: "visually-hidden" }, ` (${step.status.replaceAll("_", " ")})`),
    step.priority === "high" ? h("span", { class: "badge" }, "high priority") : null));
  return [
    head(plan, plan.removed ? "Plan (removed)" : `Plan${count}`),
    steps.length ? h("ol", null, steps) : null,
    plan.html ? partElement({ type: "text", html: plan.html }) : null,
    plan.uri ? h("p", { class: "address" }, plan.uri) : null,
  ];
}

/** @param {Entry} entry */
function end(entry) {
  const tokens = entry.tokens;
  const facts = [
    entry.took !== null && duration(entry.took),
    tokens && `${tokens.total} tokens (${tokens.input} in, ${tokens.output} out)`,
  ].filter(Boolean).join(" · ");
  const isGood = entry.stopReason === "end_turn" && !entry.problem;
  return [
    head(entry, h("span", { class: isGood ? "" : "bad" }, endText(entry)), " ", h("span", { class: "soft" }, facts)),
    entry.problem ? h("p", { class: "bad plain" }, entry.problem) : null,
    entry.error ? errorText(entry.error) : null,
  ];
}

/** Return how a turn ended, in words. @param {Entry} entry */
export function endText({ stopReason, problem }) {
  if (!STOPS.has(stopReason) && !stopReason.startsWith("_")) return `Turn ended with the unknown stop reason “${stopReason}”`;
  if (problem) return "Turn ended with an invalid response";
  return stopReason === "end_turn" ? "Turn ended" : `Turn ended: ${stopReason.replaceAll("_", " ")}`;
}

/** @param {any} error */
function errorText(error) {
  return [h("p", { class: "bad plain" }, `${error.text} (${error.code})`), error.data ? folded("Data", textElement(error.data)) : null];
}

/** @param {Entry} entry */
function permission(entry) {
  const outcome = entry.outcome;
  const isAllowed = outcome?.kind.startsWith("allow");
  return [
    head(entry, entry.title ? `Permission: ${entry.title}` : "Permission"),
    entry.command ? h("pre", null, entry.command) : null,
    h("p", { class: !outcome ? "warn" : isAllowed ? "good" : "bad" }, outcome ? `Answer: ${outcome.name}` : "Waits for an answer"),
  ];
}

const OUTCOMES = {
  waiting: "Waits for the agent",
  injected: "The agent has it in the running turn",
  startedNewTurn: "The agent works on it in a turn of its own",
  promptRequired: "The turn had ended: it is sent as the next prompt",
  unanswered: "The agent did not say what it has done with it",
};

/** What the user said while a turn ran. @param {Entry} entry */
function steer(entry) {
  const isGood = entry.outcome === "injected";
  return [
    head(entry, "Steer"),
    entry.parts.map((/** @type {any} */ part) => partElement(part)),
    h("p", { class: isGood ? "good" : entry.outcome in OUTCOMES ? "warn" : "bad" }, OUTCOMES[/** @type {"waiting"} */ (entry.outcome)] ?? entry.outcome),
  ];
}

const ASKED = { permission: "Permission", form: "Request for input", url: "Request to open an address" };

/** A question of the agent to all clients of a session. @param {Entry} entry */
function asked(entry) {
  return [
    head(entry, `${ASKED[/** @type {"form"} */ (entry.what)] ?? entry.what}: ${entry.title}`),
    h("p", { class: entry.answer ? "soft" : "warn" }, entry.answer ? `Answer: ${entry.answer}, by ${entry.by}` : "Waits for an answer"),
  ];
}

/** @param {Entry} entry */
function elicitation(entry) {
  return [
    head(entry, entry.mode === "url" ? "The agent asked to open an address" : "The agent asked for input"),
    h("p", { class: "plain" }, entry.text), entry.url ? h("p", { class: "address" }, entry.url) : null,
    h("p", { class: "soft" }, entry.outcome ? `Answer: ${entry.outcome}` : "Waits for an answer"),
  ];
}

/** @param {Entry} entry */
function other(entry) {
  return [head(entry, entry.kind), entry.text ? h("pre", null, entry.text) : null];
}

const RENDER = {
  message,
  tool: toolCall,
  plan: planEntry,
  end,
  permission,
  asked,
  elicitation,
  steer,
  error: (/** @type {Entry} */ entry) => [head(entry, `Error in ${entry.method}`), errorText(entry.error)],
  skipped: (/** @type {Entry} */ entry) => [head(entry, "Sampled"), h("p", { class: "warn plain" }, `${count(entry.count)} updates of this turn are not shown here: they came faster than the page can show. The timeline has all of them.`)],
  unanswered: (/** @type {Entry} */ entry) => [head(entry, h("span", { class: "bad" }, "The prompt was never answered")), h("p", { class: "soft" }, "The connection has ended before the agent responded.")],
  connection: (/** @type {Entry} */ entry) => [head(entry, `${entry.side} disconnected`), entry.reason ? h("p", { class: "plain" }, entry.reason) : null],
  unreadable: (/** @type {Entry} */ entry) => [head(entry, `A message that cannot be read: ${entry.method}`), h("p", { class: "plain" }, entry.reason)],
  failure: (/** @type {Entry} */ entry) => [head(entry, "Problem"), h("p", { class: "bad plain" }, entry.reason)],
  notice: (/** @type {Entry} */ entry) => [head(entry, `Notice: ${entry.title}`), entry.text ? h("p", { class: "plain" }, entry.text) : null],
  unknown: (/** @type {Entry} */ entry) => [h("details", { "data-key": "unknown" }, h("summary", null, h("h3", null, "An update of an unknown type")), textElement(/** @type {any} */ (entry))), link(entry)],
  compaction: (/** @type {Entry} */ entry) => [head(entry, `Compaction of the conversation: ${entry.status}`), entry.parts.map((/** @type {any} */ part) => partElement(part)), entry.reason ? h("p", { class: "bad" }, entry.reason) : null],
  subagent: (/** @type {Entry} */ entry) => [head(entry, "Subagent ", h("a", { href: address(["conversation", entry.session]) }, entry.title), h("span", { class: "badge status" }, entry.state?.state ?? "unknown")), entry.text ? h("p", { class: "plain" }, entry.text) : null],
  "session-message": (/** @type {Entry} */ entry) => [head(entry, `Message from ${entry.sender} to ${entry.recipient}`), entry.parts.map((/** @type {any} */ part) => partElement(part))],
};
