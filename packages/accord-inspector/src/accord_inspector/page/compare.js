// The view "Compare": the differences of two recordings, as `accord trace diff` finds them.

import { get, post, queryOf } from "./api.js";
import { count, fill, h, safe } from "./dom.js";
import { address, go, messageAddress, params, pathParts, router } from "./router.js";

const MAX_BYTES = 64 * 1024 * 1024;
const SIGNS = { "-": ["only in the first", "bad"], "+": ["only in the second", "good"], "~": ["different", "warn"] };

class CompareView extends HTMLElement {
  connectedCallback() {
    this.names = h("datalist", { id: "recording-names" });
    this.other = /** @type {HTMLInputElement} */ (h("input", { id: "compare-other", type: "text", list: "recording-names", autocomplete: "off", spellcheck: "false" }));
    this.file = /** @type {HTMLInputElement} */ (h("input", { id: "compare-file", type: "file" }));
    this.strict = /** @type {HTMLInputElement} */ (h("input", { id: "compare-strict", type: "checkbox" }));
    this.first = h("strong");
    this.folder = h("div", { class: "field" }, h("label", { for: "compare-other" }, "With another recording of this folder"), this.other, this.names);
    this.status = h("p", { role: "status" });
    this.result = h("div");
    this.button = /** @type {HTMLButtonElement} */ (h("button", { class: "primary" }, "Compare"));
    this.replaceChildren(h("h2", null, "Compare"),
      h("form", { class: "compare", "aria-label": "Compare", onsubmit: (/** @type {Event} */ event) => this.submit(event) },
        h("p", null, "Compare ", this.first, " message by message."), this.folder,
        h("div", { class: "field" }, h("label", { for: "compare-file" }, "With a file, up to 64 MB"), this.file),
        h("p", null, this.strict, h("label", { for: "compare-strict" }, " Compare values too, not only the shape")),
        this.button),
      this.status, this.result);
    this.onaddress = () => this.show();
    router.addEventListener("change", this.onaddress);
    this.begin();
  }

  disconnectedCallback() {
    router.removeEventListener("change", this.onaddress ?? null);
    this.asked?.abort();
  }

  async begin() {
    const inspection = await get("/api/inspection").catch(() => ({}));
    const isFolder = inspection.kind === "folder";
    /** @type {HTMLElement} */ (this.folder).hidden = !isFolder;
    fill(this.first, safe(params().get("recording") || inspection.title || "this recording"));
    this.show();
    if (isFolder) {
      const found = await get("/api/recordings").catch(() => ({ recordings: [] }));
      // The browser shows a value as it is, so a name that hides characters is not offered.
      const names = found.recordings.map((/** @type {any} */ one) => one.name).filter((/** @type {string} */ name) => safe(name) === name);
      fill(this.names, names.map((/** @type {string} */ name) => h("option", { value: name })));
    }
  }

  /** Compare what the address names. */
  show() {
    if (pathParts()[0] !== "compare") return;
    const query = params();
    const other = query.get("other") ?? "";
    const key = query.toString();
    if (key === this.shown) return;
    this.shown = key;
    this.strict.checked = query.get("strict") === "1";
    if (!other) return;
    this.other.value = other;
    this.compare(other, null);
  }

  /** @param {Event} event */
  submit(event) {
    event.preventDefault();
    const file = this.file.files?.[0];
    const other = this.other.value.trim();
    if (file) this.compare(file.name, file);
    else if (!other || this.folder.hidden) this.problem(this.folder.hidden ? "Choose a file to compare with" : "Name a recording of the folder, or choose a file");
    else {
      this.shown = "";
      go(address(["compare"], { other, strict: this.strict.checked }), { replace: true });
    }
  }

  /** @param {string} name @param {File | null} file */
  async compare(name, file) {
    if (file && file.size > MAX_BYTES) return this.problem(`${safe(name)} has more than 64 MB: use accord trace diff FIRST SECOND`);
    this.button.disabled = true;
    fill(this.result);
    this.status.className = "soft";
    fill(this.status, "Comparing…");
    const recording = params().get("recording") ?? "";
    const strict = this.strict.checked;
    try {
      const found = file
        ? await post(`/api/comparison?${queryOf({ recording, name, strict })}`, file)
        : await get("/api/comparison", { recording, other: name, strict });
      this.draw(found, file ? null : name, strict);
    } catch (error) {
      this.problem(/** @type {Error} */ (error).message);
    } finally {
      this.button.disabled = false;
    }
  }

  /** @param {string} text */
  problem(text) {
    this.status.className = "bad";
    fill(this.status, safe(text));
  }

  /** @param {any} found @param {string | null} other the second recording, if the page can show it @param {boolean} strict */
  draw(found, other, strict) {
    const { differences } = found;
    const how = strict ? "ids and times may differ" : "texts and numbers were not compared";
    const many = `${count(found.count)} difference${found.count === 1 ? "" : "s"}`;
    this.status.className = found.count ? "" : "good";
    fill(this.status, found.count ? `${many}; ${how}` : `No differences; ${how}`);
    const rows = differences.map((/** @type {any} */ one) => {
      const [meaning, level] = SIGNS[/** @type {"-"} */ (one.sign)] ?? [one.sign, ""];
      return h("tr", null, h("td", { class: level }, h("code", { "aria-hidden": "true" }, one.sign), " ", meaning), h("td", null, linked(one, other)));
    });
    fill(this.result, found.problems.length ? h("p", { class: "warn" }, safe(found.problems.join(" "))) : null,
      rows.length ? h("div", { class: "scroll" }, h("table", { class: "differences" },
        h("thead", null, h("tr", null, h("th", { scope: "col" }, "What"), h("th", { scope: "col" }, "Where"))), h("tbody", null, rows))) : null,
      found.count > differences.length ? h("p", { class: "soft" }, `The first ${count(differences.length)} are shown.`) : null);
  }
}

/** Return the text of a difference, in which the messages are links. @param {any} one @param {string | null} other */
function linked(one, other) {
  const text = safe(one.text);
  const place = /\(messages? (\d+)(?: and (\d+))?\)/.exec(text);
  if (!place) return text;
  const [all, first, second = first] = place;
  const link = (/** @type {string} */ number, /** @type {any} */ query) => h("a", { href: messageAddress(Number(number) - 1, query) }, `#${number}`);
  const links = [];
  if (one.sign !== "+") links.push(link(first, {}));
  if (one.sign !== "-") links.push(other === null ? `#${one.sign === "+" ? first : second} of the file` : [link(one.sign === "+" ? first : second, { recording: other }), " of the second"]);
  return [text.slice(0, place.index), "(", links.map((item, at) => [at > 0 && ", ", item]), ")", text.slice(place.index + all.length)];
}

customElements.define("view-compare", CompareView);
