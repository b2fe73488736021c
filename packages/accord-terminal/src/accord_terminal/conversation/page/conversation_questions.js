// Questions of the agent that wait for the user: permissions, forms and addresses to open.
//
// They are in a fixed place outside the conversation, in a frame that no text of an agent has.

import { act } from "./conversation_store.js";
import { toolCall } from "./conversation_entries.js";
import { fill, h } from "./dom.js";
import { address } from "./router.js";

const GUARD_MS = 400; // for which a new question takes no click that was meant for something else
const KINDS = {
  allow_once: "allows this once", allow_always: "allows this always",
  reject_once: "rejects this once", reject_always: "rejects this always",
};

/** The questions, and their cards. */
export class QuestionCards {
  /** @param {(text: string) => void} announce @param {Record<string, any>} terminals */
  constructor(announce, terminals) {
    this.announce = announce;
    this.terminals = terminals;
    /** @type {Map<number, HTMLElement>} */
    this.cards = new Map();
    this.element = h("section", { class: "questions", "aria-label": "Questions of the agent", hidden: true });
  }

  /**
   * Show these questions; those of another session say so.
   * @param {any[]} questions @param {string | undefined} session
   */
  show(questions, session) {
    const numbers = new Set(questions.map((question) => question.number));
    for (const [number, card] of this.cards) {
      if (numbers.has(number)) continue;
      const hadFocus = card.contains(document.activeElement);
      card.remove();
      this.cards.delete(number);
      if (hadFocus) document.querySelector(/** @type {any} */ ("view-conversation textarea.prompt"))?.focus();
    }
    for (const question of questions) {
      const known = this.cards.get(question.number);
      known?.querySelector(".of-session")?.toggleAttribute("hidden", question.session === session);
      if (known && known.dataset.ended === String(question.ended)) continue;
      const card = this.card(question);
      card.querySelector(".of-session")?.toggleAttribute("hidden", question.session === session);
      if (known) known.replaceWith(card);
      else this.element.append(card);
      this.cards.set(question.number, card);
      if (question.ended) this.announce(`A question ended: ${question.ended}`);
      else this.announce(`The agent asks: ${question.title || "without a title"}. Press Alt P to answer.`);
    }
    this.element.hidden = !questions.length;
  }

  /** Move the focus to the first question. */
  focus() {
    /** @type {HTMLElement | null} */ (this.element.querySelector(".question"))?.focus();
  }

  /**
   * Choose an option of the question that has the focus, else of the first one that is visible.
   * @param {number} number from 1 @returns {boolean} whether it has an option of this number
   */
  choose(number) {
    const cards = [...this.element.querySelectorAll(".question.permission:not(.ended)")];
    const card = cards.find((one) => one.contains(document.activeElement)) ?? cards.find((one) => isVisible(one, this.element));
    const option = card?.querySelectorAll("button.option")[number - 1];
    /** @type {any} */ (option)?.click(); // of a disabled one nothing happens
    return Boolean(option);
  }

  /** @param {any} question */
  card(question) {
    const name = `question-${question.number}`;
    const problem = h("p", { class: "bad", role: "alert" });
    const labels = { permission: "Permission request", form: "Request for input", url: "Request to open an address" };
    const card = h("div", {
      class: ["question", question.kind, question.ended && "ended"], tabindex: "-1", role: "group",
      "aria-labelledby": `${name}-title`, "data-ended": String(question.ended), "data-number": question.number,
    },
      h("p", { class: "kind" }, h("strong", null, labels[/** @type {"form"} */ (question.kind)]),
        h("span", { class: "soft" }, " asked by the agent, answered by you"),
        question.session === null ? null : h("span", { class: "of-session" }, " in ",
          h("a", { href: address(["conversation", question.session]) }, "another session"))),
      h("h3", { id: `${name}-title` }, question.title || "Without a title"));
    const send = (/** @type {any} */ body) => answer(question, body, problem);
    if (question.ended) {
      card.append(h("p", { class: "plain" }, `It ended without an answer: ${question.ended}`),
        h("button", { type: "button", onclick: () => send({ dismiss: true }) }, "Dismiss"));
      return card;
    }
    if (question.kind === "permission") permission(card, question, send, this.terminals);
    else if (question.kind === "form") form(card, question, send, problem);
    else url(card, question, send);
    card.append(problem);
    guard(card);
    return card;
  }
}

/** Return whether a card is in the visible part of its box. @param {Element} card @param {Element} box */
function isVisible(card, box) {
  const [inner, outer] = [card.getBoundingClientRect(), box.getBoundingClientRect()];
  return inner.bottom > outer.top && inner.top < outer.bottom && inner.height > 0;
}

/** Take no clicks for a moment. @param {HTMLElement} card */
function guard(card) {
  const buttons = [...card.querySelectorAll("button")].filter((button) => !button.disabled);
  for (const button of buttons) button.disabled = true;
  setTimeout(() => {
    for (const button of buttons) button.disabled = false;
  }, GUARD_MS);
}

/** @param {any} question @param {any} body @param {HTMLElement} problem */
async function answer({ number, session }, body, problem) {
  try {
    await act("answer", { question: number, session, ...body });
  } catch (error) {
    fill(problem, error.message);
  }
}

/** @param {HTMLElement} card @param {any} question @param {(body: any) => void} send @param {any} terminals */
function permission(card, question, send, terminals) {
  if (question.description) card.append(h("p", { class: "plain" }, question.description));
  if (question.command) card.append(h("pre", { tabindex: "0", "aria-label": "Command" }, question.command.text));
  if (question.call) card.append(h("div", { class: "entry tool asked" }, toolCall({ ...question.call, message: null }, terminals)));
  for (const details of card.querySelectorAll("details")) details.open = true;
  const buttons = question.options.map((/** @type {any} */ option, /** @type {number} */ number) => {
    const about = KINDS[/** @type {"allow_once"} */ (option.kind)] ?? `of the unknown kind ${option.kind}`;
    return h("button", {
      type: "button", class: `option ${option.kind.startsWith("allow") ? "allows" : "rejects"}`,
      disabled: option.ambiguous, "aria-keyshortcuts": number < 9 ? String(number + 1) : null,
      onclick: () => send({ answer: { option: number } }),
    }, h("kbd", null, number < 9 ? String(number + 1) : ""), " ", option.name,
    h("small", null, option.ambiguous ? "cannot be chosen: its id is not unique" : about));
  });
  const cancel = h("button", { type: "button", onclick: () => send({ answer: { option: null } }) }, "Answer “cancelled”");
  card.append(h("div", { class: "answers" }, buttons, cancel));
  card.addEventListener("keydown", (event) => {
    const isTyping = /^(input|select|textarea)$/.test(/** @type {HTMLElement} */ (event.target).localName);
    const number = Number(event.key);
    if (isTyping || !(number >= 1 && number <= buttons.length) || event.altKey || event.ctrlKey || event.metaKey) return;
    event.preventDefault();
    event.stopPropagation();
    buttons[number - 1].click();
  });
}

/** @param {HTMLElement} card @param {any} question @param {(body: any) => void} send */
function url(card, question, send) {
  card.append(h("p", { class: "plain" }, question.message), h("p", { class: "address" }, question.url));
  const open = h("button", {
    type: "button", class: "option allows", disabled: !question.opens,
    onclick: () => {
      window.open(question.opens, "_blank", "noopener,noreferrer");
      send({ answer: { open: true } });
    },
  }, "Open this address", h("small", null, question.opens ? "in a new tab" : "only http and https are opened"));
  const decline = h("button", { type: "button", class: "option rejects", onclick: () => send({ answer: { open: false } }) }, "Decline");
  card.append(h("div", { class: "answers" }, open, decline));
}

// Forms.

/** @param {HTMLElement} card @param {any} question @param {(body: any) => void} send @param {HTMLElement} problem */
function form(card, question, send, problem) {
  if (question.message) card.append(h("p", { class: "plain" }, question.message));
  if (question.description) card.append(h("p", { class: "plain soft" }, question.description));
  const inputs = question.fields.map((/** @type {any} */ field) => fieldElement(field, `field-${question.number}`));
  const element = h("form", {
    onsubmit: (/** @type {Event} */ event) => {
      event.preventDefault();
      fill(problem);
      /** @type {Record<string, any>} */
      const values = {};
      for (const input of inputs) {
        const value = input.value();
        if (value !== undefined) values[input.name] = value;
      }
      send({ answer: { values } });
    },
  }, inputs.map((/** @type {any} */ input) => input.element),
  h("div", { class: "answers" }, h("button", { class: "option allows" }, "Send"),
    h("button", { type: "button", class: "option rejects", onclick: () => send({ answer: { values: null } }) }, "Decline")));
  card.append(element);
}

/** Return the element of a form field, and what reads its value. @param {any} field @param {string} prefix */
function fieldElement(field, prefix) {
  const id = `${prefix}-${field.name}`;
  const about = field.description ? h("small", { id: `${id}-about` }, field.description) : null;
  const shared = { id, required: field.required && field.kind !== "boolean", "aria-describedby": about && `${id}-about` };
  const label = h("label", { for: id }, field.title, field.required ? h("span", { class: "soft" }, " (required)") : null);
  /** @type {any} */
  let input;
  let value = () => (input.value === "" ? undefined : input.value);
  if (field.kind === "boolean") {
    input = h("input", { ...shared, type: "checkbox", checked: field.default === true });
    value = () => input.checked;
  } else if (field.kind === "integer" || field.kind === "number") {
    input = h("input", { ...shared, type: "number", step: field.kind === "integer" ? "1" : "any", min: field.minimum, max: field.maximum, value: field.default ?? "" });
    value = () => (input.value === "" ? undefined : Number(input.value));
  } else if (field.kind === "choice" || field.kind === "choices") {
    const isMultiple = field.kind === "choices";
    const chosen = [field.default ?? []].flat();
    const empty = isMultiple || field.required && field.default !== null ? null : h("option", { value: "" }, "—");
    input = h("select", { ...shared, multiple: isMultiple }, empty, field.choices.map((/** @type {any} */ choice) =>
      h("option", { value: choice.value, selected: chosen.includes(choice.value), title: choice.description }, choice.name)));
    if (isMultiple) value = () => [...input.selectedOptions].map((option) => option.value);
  } else if (field.kind === "text") {
    const types = { email: "email", date: "date" };
    input = h("input", { ...shared, type: types[/** @type {"date"} */ (field.format)] ?? "text", minlength: field.minimum, maxlength: field.maximum, value: field.default ?? "", autocomplete: "off" });
  } else {
    return { name: field.name, value: () => undefined, element: h("p", { class: "soft" }, `${field.title}: a field of an unknown kind`) };
  }
  return { name: field.name, value, element: h("div", { class: "field" }, label, input, about) };
}
