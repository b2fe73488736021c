// The kinds of faults, and what each of them needs to know.

/** @typedef {{kind: string, title: string, about: string, fields: string[]}} FaultKind */

const CHOICE = ["method", "every", "probability", "seed", "times"];

/** @type {FaultKind[]} */
export const KINDS = [
  { kind: "delay", title: "Delay", about: "Messages arrive later, in the same order.", fields: ["delay_ms", ...CHOICE] },
  { kind: "slow", title: "Slow down", about: "Each message takes time, and each byte does.", fields: ["delay_ms", "bytes_per_s", ...CHOICE] },
  { kind: "drop", title: "Drop", about: "Messages are lost.", fields: CHOICE },
  { kind: "duplicate", title: "Duplicate", about: "Messages arrive twice.", fields: CHOICE },
  { kind: "reorder", title: "Reorder", about: "A message arrives after the next one.", fields: CHOICE },
  { kind: "corrupt", title: "Corrupt", about: "Messages arrive damaged.", fields: ["corruption", ...CHOICE] },
  { kind: "freeze", title: "Freeze", about: "Nothing passes, and the sender is no longer read: its pipe fills up.", fields: [] },
  { kind: "cut", title: "Cut", about: "The connection ends: at once, or at a chosen message.", fields: ["method", "every", "probability", "seed"] },
  { kind: "suspend", title: "Suspend the process", about: "The agent's process stops (SIGSTOP) until this is switched off (SIGCONT).", fields: [] },
];

/** @type {Record<string, {label: string, type: string, value: any, min?: number, max?: number, step?: string, options?: string[][]}>} */
export const FIELDS = {
  delay_ms: { label: "Time of each message (ms)", type: "number", value: 1000, min: 0 },
  bytes_per_s: { label: "Bytes per second (0: no limit)", type: "number", value: 0, min: 0 },
  method: { label: "Only this method (* matches any text)", type: "text", value: "" },
  every: { label: "Every n-th of these", type: "number", value: 1, min: 1 },
  probability: { label: "Probability (0 to 1)", type: "number", value: 1, min: 0, max: 1, step: "any" },
  seed: { label: "Seed of the probability", type: "number", value: 0, min: 0 },
  times: { label: "Switch off after n messages (0: never)", type: "number", value: 0, min: 0 },
  corruption: {
    label: "How",
    type: "select",
    value: "truncated",
    options: [["truncated", "The second half is missing"], ["garbled", "Some bytes are different"], ["not_json", "It is not JSON"]],
  },
};

/** Return what a fault does, in a few words. @param {any} fault */
export function describe(fault) {
  const kind = KINDS.find((one) => one.kind === fault.kind);
  const parts = [kind?.title ?? fault.kind];
  if (kind?.fields.includes("delay_ms")) parts.push(`${fault.delay_ms} ms`);
  if (kind?.fields.includes("bytes_per_s") && fault.bytes_per_s) parts.push(`${fault.bytes_per_s} B/s`);
  if (fault.method) parts.push(fault.method);
  if (fault.every > 1) parts.push(`every ${fault.every}.`);
  if (fault.probability < 1) parts.push(`${Math.round(fault.probability * 100)} %`);
  if (fault.times) parts.push(fault.times === 1 ? "once" : `${fault.times} times`);
  return parts.join(", ");
}
