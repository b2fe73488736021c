// The line above the list: how many messages, and how far they are judged.

import { count } from "./dom.js";

/**
 * Return the line.
 * @param {import("./timeline-rows.js").RowStore} store @param {boolean} hasFilter
 * @param {{judged: number, total: number, found: number, problem: string} | undefined} judged
 */
export function statusText(store, hasFilter, judged) {
  const { total, matched, isComplete } = store;
  const parts = [hasFilter ? `${count(matched)} of ${count(total)} messages` : `${count(total)} messages`];
  if (!isComplete) parts[0] += " so far";
  if (judged?.problem) parts.push(`Rules: ${judged.problem}`);
  else if (judged && judged.total > 0) {
    parts.push(judged.found ? `${count(judged.found)} broken rules` : "no broken rules");
    if (judged.judged < judged.total) parts.push(`${Math.floor((100 * judged.judged) / judged.total)} % judged`);
  }
  return parts.join(" · ");
}
