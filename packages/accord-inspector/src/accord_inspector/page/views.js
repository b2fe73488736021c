// The views of the page: each is a custom element in a module of its own.
//
// An element gets no attributes: it reads the address (`router.js`) when it is connected, and at
// every `change` of the router. `live` views need an agent that runs.

import "./timeline.js";
import "./conversation.js";
import "./send.js";
import "./faults.js";
import "./capabilities.js";
import "./process.js";
import "./statistics.js";
import "./recordings.js";
import "./waterfall.js";
import "./compare.js";

/** @typedef {{path: string, title: string, tag: string, key: string, live?: boolean}} View */

/** @type {View[]} */
export const VIEWS = [
  { path: "timeline", title: "Timeline", tag: "view-timeline", key: "1" },
  { path: "conversation", title: "Conversation", tag: "view-conversation", key: "2" },
  { path: "send", title: "Send", tag: "view-send", key: "3", live: true },
  { path: "faults", title: "Faults", tag: "view-faults", key: "4", live: true },
  { path: "capabilities", title: "Capabilities", tag: "view-capabilities", key: "5" },
  { path: "process", title: "Process", tag: "view-process", key: "6", live: true },
  { path: "statistics", title: "Statistics", tag: "view-statistics", key: "7" },
  { path: "waterfall", title: "Waterfall", tag: "view-waterfall", key: "8" },
  { path: "compare", title: "Compare", tag: "view-compare", key: "9" },
];

export const RECORDINGS = { path: "recordings", title: "Recordings", tag: "view-recordings", key: "0" };
