// What is known about the fields of a message, and about the rules that it breaks.

import { fill, h, safe } from "./dom.js";
import { messageAddress, params, shownNumber } from "./router.js";

const SEVERITY = { error: "must", warning: "should", advice: "advice" };

/** Show what is known of a field. @param {HTMLElement} element @param {string} path @param {any} explained */
export function fieldDoc(element, path, explained) {
  const doc = explained.docs[explained.places[path]];
  if (!doc) {
    fill(element, h("p", { class: "soft" }, path ? `${safe(path)}: the protocol does not describe it.` : "Point at a field, or move to it with the arrow keys, to read about it."));
    return;
  }
  fill(
    element,
    h("p", null, h("code", null, safe(path)), " ", h("span", { class: "soft" }, doc.type), doc.required && h("strong", null, " required")),
    doc.doc && h("p", null, doc.doc),
    doc.rules?.length > 0 && h("ul", null, doc.rules.map((id) => ruleLine(explained.rules[id]))),
  );
}

/** @param {any} rule */
function ruleLine(rule) {
  return h("li", null, ruleLink(rule), ` ${rule.rule}`);
}

/** @param {any} rule */
function ruleLink(rule) {
  return rule.url ? h("a", { href: rule.url, target: "_blank", rel: "noreferrer" }, rule.id) : h("strong", null, rule.id);
}

/** Return the list of broken rules, with their sentences. @param {any[]} broken */
export function ruleItems(broken) {
  return broken.map((one) =>
    h(
      "article",
      { class: ["rule", one.severity] },
      h("p", null, h("span", { class: ["mark", one.severity === "error" ? "bad" : "warn"] }, `⚠ ${SEVERITY[one.severity] ?? ""}`), " ",
        ruleLink(one.text), ` By the ${one.by}: expected ${safe(one.expected) || "–"}; got ${safe(one.got) || "–"}.`,
        one.others.length > 0 && [" With ", one.others.map((n, at) => [at > 0 && ", ", h("a", { href: messageAddress(n, params()) }, `#${shownNumber(n)}`)]), "."]),
      h("p", { class: "soft" }, `The rule: ${one.text.rule}`),
      one.text.hint && h("p", null, one.text.hint),
    ),
  );
}

/** Return the explanation of a whole message. @param {any} explained */
export function explanationView(explained) {
  const { title, doc, notes, places, docs, rules } = explained;
  const fields = Object.entries(places).map(([path, number]) => ({ path, doc: docs[number] }));
  const shown = fields.filter((one, at) => fields.findIndex((other) => other.doc === one.doc) === at);
  return [
    title && h("h4", null, title),
    doc && h("p", null, doc),
    notes.length > 0 && h("ul", { class: "notes" }, notes.map((note) => h("li", null, safe(note)))),
    shown.length > 0 && h("dl", { class: "fields" }, shown.map((one) => [
      h("dt", null, h("code", null, safe(one.path))),
      h("dd", null, h("span", { class: "soft" }, one.doc.type), one.doc.required && h("strong", null, " required"), one.doc.doc && ` ${one.doc.doc}`,
        one.doc.rules?.length > 0 && [" ", one.doc.rules.map((id, at) => [at > 0 && ", ", ruleLink(rules[id])])]),
    ])),
    Object.keys(rules).length > 0 && [
      h("h4", null, "Rules about these fields"),
      h("ul", null, Object.values(rules).map(ruleLine)),
    ],
    shown.length === 0 && notes.length === 0 && h("p", { class: "soft" }, "The protocol does not describe this frame."),
  ];
}
