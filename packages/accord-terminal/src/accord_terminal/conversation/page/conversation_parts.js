// Content of messages and tool calls: Markdown, images, links, diffs, terminals.

import { diffElement } from "./conversation_diff.js";
import { count, h, size } from "./dom.js";

/**
 * Return Markdown that the server has rendered: it has no HTML of the agent, and its links lead
 * only to http, https and mailto. This is the only place where text is parsed as HTML.
 * @param {string} html
 */
function markdown(html) {
  const element = h("div", { class: "markdown" });
  element.innerHTML = html;
  for (const block of element.querySelectorAll("pre")) block.tabIndex = 0; // it may scroll
  return element;
}

/** Return a part of a message or of a tool call. @param {any} part @param {Record<string, any>} terminals */
export function partElement(part, terminals = {}) {
  switch (part.type) {
    case "text":
      return h("div", null, markdown(part.html), part.left ? left(part.left) : null);
    case "plain":
      return h("p", { class: "plain" }, part.text);
    case "image":
      return imageElement(part);
    case "audio":
      return h("p", { class: "file" }, `Audio ${part.mime}, ${size(part.bytes)}`);
    case "link":
      return linkElement(part);
    case "resource":
      return folded(`File ${part.uri}${part.mime ? ` (${part.mime})` : ""}`,
        part.text === undefined ? h("p", null, size(part.bytes)) : textElement(part));
    case "diff":
      return diffElement(part);
    case "terminal":
      return h("div", { class: "terminal", "data-terminal": part.id }, terminalElement(terminals[part.id]));
    default:
      return folded("Content of an unknown type", textElement(part));
  }
}

/** @param {any} part */
function imageElement(part) {
  const about = `Image ${part.mime}, ${size(part.bytes)}`;
  if (!part.source) return h("p", { class: "file" }, `${about} (not shown)`);
  return h("figure", { class: "image" },
    h("img", { src: part.source, alt: "Image without a description", loading: "lazy" }),
    h("figcaption", null, about));
}

/** @param {any} part */
function linkElement(part) {
  const isWeb = /^https?:\/\//i.test(part.uri);
  const name = isWeb
    ? h("a", { href: part.uri, target: "_blank", rel: "noopener noreferrer nofollow" }, part.name)
    : h("span", null, part.name);
  const details = [part.mime, part.bytes !== null && size(part.bytes)].filter(Boolean).join(", ");
  return h("p", { class: "file" }, "Link: ", name, " ", h("span", { class: "address" }, `‹${part.uri}›`),
    details ? ` ${details}` : "", part.description ? h("br") : null, part.description);
}

/** Return text with the number of characters that are left out. @param {{text: string, left: number}} part */
export function textElement(part) {
  return h("div", { class: "text" }, h("pre", { tabindex: "0" }, part.text), part.left ? left(part.left) : null);
}

/** @param {number} characters */
function left(characters) {
  return h("p", { class: "soft" }, `… ${count(characters)} more characters: see the message`);
}

/** Return what can be opened. @param {string} title @param {any} content @param {boolean} [isOpen] */
export function folded(title, content, isOpen = false) {
  return h("details", { open: isOpen, "data-key": title }, h("summary", null, title), content);
}

// Terminals.

/** Return the content of a terminal. @param {any} terminal */
export function terminalElement(terminal) {
  if (!terminal) return h("p", { class: "soft" }, "A terminal without output");
  const ended = terminal.signal ? `ended by ${terminal.signal}`
    : terminal.exitCode !== null ? `exit status ${terminal.exitCode}` : "ended";
  const isBad = Boolean(terminal.signal || terminal.exitCode);
  return h("div", null,
    h("p", { class: "command" }, h("code", null, `$ ${terminal.command ?? ""}`),
      terminal.cwd ? h("span", { class: "soft" }, ` in ${terminal.cwd}`) : null),
    terminal.left ? h("p", { class: "soft" }, `… ${count(terminal.left)} bytes before`) : null,
    h("pre", { class: "output", tabindex: "0", "aria-label": "Output" }, terminal.output),
    h("p", { class: ["soft", isBad && "bad"] }, terminal.exited ? ended : "running"));
}
