// The line above the list: how many messages, and how far they are judged.

import { count } from "./dom.js";

/**
 * Return the line.
 * @param {import("./timeline-rows.js").RowStore} store @param {boolean} hasFilter
 * @param {{rules?: any[], judged: number, total: number, found: number, problem: string, finished: boolean} | undefined} judged
 * @param {string} note what the last key did
 */
export function statusText(store, hasFilter, judged, note) {
  const { total, matched, isComplete } = store;
  const parts = [hasFilter ? `${count(matched)} of ${count(total)} messages` : `${count(total)} messages`];
  if (!isComplete) parts[0] += " so far";
  if (judged?.problem) parts.push(`Rules: ${judged.problem}`);
  else if (judged && total > 0) {
    const isDone = judged.judged >= total && isComplete && judged.finished;
    const kinds = judged.rules?.length ?? 0;
    const times = judged.found > kinds ? `, ${count(judged.found)} times` : "";
    if (judged.found) parts.push(`${count(kinds)} broken ${kinds === 1 ? "rule" : "rules"}${times}`);
    else if (isDone) parts.push("no broken rules");
    if (!isDone) parts.push(`checking the rules: ${Math.floor((100 * judged.judged) / Math.max(total, judged.judged))} %`);
  }
  if (note) parts.push(note);
  return parts.join(" · ");
}
