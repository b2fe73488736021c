// The view "Conversation": the sessions, and one of them as an editor would show it.

import { h, fill } from "./dom.js";
import { BrokenLine } from "./conversation_broken.js";
import { SessionView } from "./conversation_session.js";
import { SetupPanel } from "./conversation_setup.js";
import { Sessions } from "./conversation_store.js";
import "./agent_trouble.js";
import { QuestionCards } from "./conversation_questions.js";
import { isShortcut } from "./keys.js";
import { address, go, params, pathParts, router } from "./router.js";

/** Return whether the sessions are beside the conversation. */
const isWide = () => innerWidth > 700;

class ConversationView extends HTMLElement {
  connectedCallback() {
    this.recording = params().get("recording") ?? "";
    this.status = h("div", { class: "visually-hidden", role: "status" });
    this.heading = h("h2", { class: "visually-hidden" }, "Conversation");
    this.list = h("ul", { class: "sessions", "aria-label": "Sessions" });
    this.progress = h("p", { class: "soft" });
    const announce = (/** @type {string} */ text) => fill(/** @type {HTMLElement} */ (this.status), text);
    this.setup = new SetupPanel(announce);
    this.announce = announce;
    this.side = /** @type {HTMLDetailsElement} */ (h("details", { class: "side", open: isWide() },
      h("summary", null, "Sessions"), this.list, this.progress, this.setup.element));
    /** @type {Record<string, any>} */
    this.terminals = {};
    this.questions = new QuestionCards(announce, this.terminals);
    this.middle = h("div", { class: "middle" });
    const upper = h("div", { class: "upper" }, h("agent-trouble", { class: "trouble" }), this.middle);
    this.replaceChildren(this.heading, this.status, this.side, h("div", { class: "talk" }, upper, this.questions.element));
    // A question, or a notice, takes room: what has the focus above it stays visible.
    this.observer = new ResizeObserver(() => upper.contains(document.activeElement) && document.activeElement?.scrollIntoView({ block: "nearest" }));
    for (const element of [upper, this.middle]) this.observer.observe(element);
    /** @type {SessionView | null} */
    this.session = null;
    this.sessions = new Sessions(this.recording);
    this.sessions.addEventListener("change", () => this.update());
    /** @type {{session: string, text: () => string, before: Element | null} | null} a session whose prompt gets the focus */
    this.fresh = null;
    this.addEventListener("opened", (event) => this.opened(/** @type {CustomEvent} */ (event).detail));
    this.onChange = () => this.update();
    this.onKey = (/** @type {KeyboardEvent} */ event) => this.key(event);
    router.addEventListener("change", this.onChange);
    addEventListener("keydown", this.onKey, true); // before the digits choose a view
    this.setup.element.hidden = true;
    this.sessions.start().catch((error) => fill(/** @type {HTMLElement} */ (this.progress), error.message));
  }

  disconnectedCallback() {
    router.removeEventListener("change", this.onChange ?? null);
    removeEventListener("keydown", this.onKey ?? (() => {}), true);
    this.observer?.disconnect();
    this.sessions?.stop();
    this.session?.end();
  }

  /** @param {KeyboardEvent} event */
  key(event) {
    if (event.altKey && event.code === "KeyP") {
      event.preventDefault();
      this.questions?.focus();
    } else if (/^[1-9]$/.test(event.key) && isShortcut(event) && this.questions?.choose(Number(event.key))) {
      event.preventDefault();
      event.stopPropagation();
    }
  }

  /** Show the state of the sessions, and the session that the address names. */
  update() {
    const sessions = /** @type {Sessions} */ (this.sessions);
    const { value } = sessions;
    if (!value || pathParts()[0] !== "conversation") return;
    const wanted = pathParts()[1];
    const newest = value.sessions.at(-1);
    if (wanted === undefined && newest) {
      go(address(["conversation", newest.id]), { replace: true });
      return;
    }
    this.setup.element.hidden = !value.client;
    if (value.client) this.setup.update(value.client);
    fill(this.progress, value.behind > 1000 ? `${value.behind} messages are still to be read` : "");
    this.showList(value.sessions, wanted);
    this.showSession(wanted, sessions);
    this.questions.terminals = this.session?.entries.terminals ?? {};
    this.questions.show(value.client?.questions ?? [], wanted);
  }

  /** Show a session that the user has opened. @param {{session: string, text: () => string, before: Element | null}} detail */
  opened(detail) {
    this.fresh = detail;
    if (!isWide()) /** @type {HTMLDetailsElement} */ (this.side).open = false; // it is above the conversation
    go(address(["conversation", detail.session]));
  }

  /** Set the focus to the prompt of a session that the user has just opened, as soon as it is visible. */
  focusPrompt() {
    const { fresh, session } = this;
    if (!fresh || session?.id !== fresh.session || !session.isOpen) return;
    this.fresh = null;
    session.prompt.begin(fresh.text());
    const { activeElement } = document;
    const isElsewhere = activeElement !== fresh.before && activeElement?.matches("input, textarea, select");
    if (!isElsewhere) session.prompt.text.focus();
  }

  /** @param {any[]} listed @param {string | undefined} wanted */
  showList(listed, wanted) {
    const key = JSON.stringify([listed.map(({ id, label, running, closed, questions, opened }) => [id, label, running, closed, questions, opened]), wanted]);
    if (key === this.listKey) return;
    this.listKey = key;
    const hadFocus = this.list?.contains(document.activeElement) ? /** @type {any} */ (document.activeElement).dataset.id : null;
    fill(this.list, listed.toReversed().map((session) => {
      const open = !this.sessions?.value.client || this.sessions.isOpen(session.id);
      const state = session.questions ? "asks" : session.running && open && !session.closed ? "running" : "";
      return h("li", null, h("a", {
        href: address(["conversation", session.id]), "data-id": session.id, "aria-current": session.id === wanted ? "page" : null,
        class: [state, (session.closed || !open) && "closed", !session.opened && "unopened"],
      }, h("span", { class: "label" }, session.label), state ? h("span", { class: "badge status" }, state) : null,
      session.opened ? null : h("span", { class: "badge status", title: "The agent sends messages of this session, but it was not opened on this connection" }, "not opened")));
    }));
    if (!listed.length) fill(this.list, h("li", { class: "soft" }, "No sessions yet"));
    if (hadFocus) /** @type {any} */ (this.list?.querySelector(`[data-id="${CSS.escape(hadFocus)}"]`))?.focus();
  }

  /** @param {string | undefined} wanted @param {Sessions} sessions */
  showSession(wanted, sessions) {
    const listed = wanted === undefined ? undefined : sessions.find(wanted);
    if (!listed) {
      this.session?.end();
      this.session = null;
      if (wanted === undefined) fill(this.middle, this.welcome());
      else fill(this.middle, h("p", { class: "empty" }, `There is no session ${wanted}`));
      return;
    }
    if (this.session?.id !== wanted) {
      this.session?.end();
      this.session = new SessionView(listed.id, this.recording ?? "", this.announce ?? (() => {}), (items) => new BrokenLine(listed.id, this.recording ?? "", items));
      fill(this.middle, this.session.element);
    }
    this.session?.update(listed, sessions.isOpen(listed.id), sessions.value.client);
    this.focusPrompt();
  }

  welcome() {
    return h("div", { class: "empty" },
      h("p", null, this.welcomeText()));
  }

  welcomeText() {
    const client = this.sessions?.value.client;
    if (!client) return "There is no session in this recording.";
    return client.agent ? "No session is open. Open one at “Sessions”." : "No session can be opened: the agent is not running.";
  }
}

customElements.define("view-conversation", ConversationView);
