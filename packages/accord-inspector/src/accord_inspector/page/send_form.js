// A form for a value with a JSON Schema: each change is applied to the value in place.

import { fill, h, safe } from "./dom.js";
import { isObject } from "./send_schema.js";

/** @typedef {import("./send_schema.js").Schema} Schema */
/** @typedef {import("./send_schema.js").Shape} Shape */
/** @typedef {(string | number)[]} Path keys and indexes from the root */

const LONG = new Set(["text", "content", "message", "description", "data"]);

/** Shows a value as fields; `changed` is called with the new value after each change. */
export class SchemaForm {
  /** @param {Schema} schema @param {any} value @param {(value: any) => void} changed */
  constructor(schema, value, changed) {
    this.schema = schema;
    this.value = value;
    this.changed = changed;
    this.element = h("div", { class: "schema-form" });
    this.draw();
  }

  /** Show another value. @param {any} value */
  show(value) {
    this.value = value;
    this.draw();
  }

  /** Show what is wrong, at its place or the nearest one around it. @param {{text: string, path: Path}[]} problems */
  mark(problems) {
    for (const old of this.element.querySelectorAll(".field-problem")) old.remove();
    for (const old of this.element.querySelectorAll("[aria-invalid]")) old.removeAttribute("aria-invalid");
    for (const problem of problems) {
      let path = problem.path;
      while (path.length && !this.element.querySelector(`#${idOf(path)}`)) path = path.slice(0, -1);
      const field = this.element.querySelector(`#${idOf(path)}`) ?? this.element;
      field.setAttribute("aria-invalid", "true");
      const inner = problem.path.slice(path.length).join(".");
      const text = h("p", { class: "field-problem bad", role: "alert" }, inner ? `${inner}: ` : "", safe(problem.text));
      if (field.localName === "fieldset") field.querySelector(":scope > legend")?.after(text);
      else if (field === this.element) field.prepend(text);
      else (field.closest(".control") ?? field).after(text);
    }
  }

  /** Show the value again after a change of its structure; the focus stays. */
  draw() {
    const focused = this.element.contains(document.activeElement) ? document.activeElement?.id : "";
    fill(this.element, this.field(this.schema.root, this.value, [], "params"));
    if (focused) /** @type {any} */ (this.element.querySelector(`#${focused}`))?.focus();
  }

  /** Set the value at a path. @param {Path} path @param {any} value @param {boolean} [isStructure] */
  set(path, value, isStructure = false) {
    if (path.length === 0) this.value = value;
    else this.parent(path)[path[path.length - 1]] = value;
    if (isStructure) this.draw();
    this.changed(this.value);
  }

  /** Remove what is at a path. @param {Path} path */
  remove(path) {
    const parent = this.parent(path);
    const last = path[path.length - 1];
    if (Array.isArray(parent)) parent.splice(Number(last), 1);
    else delete parent[last];
    this.draw();
    this.changed(this.value);
  }

  /** @param {Path} path */
  parent(path) {
    return path.slice(0, -1).reduce((value, step) => value[step], this.value);
  }

  /**
   * Return the fields of a value.
   * @param {any} node @param {any} value @param {Path} path @param {string} name
   * @param {HTMLElement | null} [remove] the button that removes it
   * @returns {HTMLElement}
   */
  field(node, value, path, name, remove = null) {
    const shape = this.schema.shape(node);
    if (value === null && shape.nullable) return this.line(path, name, remove, h("code", { id: idOf(path) }, "null"));
    if (!this.schema.fits(shape, value)) return this.json(value, path, name, remove, "Not of the expected type");
    switch (shape.kind) {
      case "group":
        return this.group(shape, value, path, name, remove);
      case "list":
        return this.list(shape, value, path, name, remove);
      case "variants":
        return this.variants(shape, value, path, name, remove);
      case "json":
        return this.json(value, path, name, remove);
      default:
        return this.line(path, name, remove, this.leaf(shape, value, path, name));
    }
  }

  /** @param {Shape} shape @param {any} value @param {Path} path @param {string} name */
  leaf(shape, value, path, name) {
    const id = idOf(path);
    /** @param {(element: any) => any} read */
    const onchange = (read) => (/** @type {any} */ event) => this.set(path, read(event.target));
    if (shape.kind === "flag") {
      return h("input", { id, type: "checkbox", checked: value, onchange: onchange((box) => box.checked) });
    }
    if (shape.kind === "fixed") return h("code", { id }, safe(String(value)));
    if (shape.kind === "number") {
      return h("input", { id, type: "number", step: "any", value, oninput: onchange((box) => Number(box.value)) });
    }
    if (shape.kind === "choice" && !shape.open) {
      const options = (shape.values ?? []).map((one) => h("option", { selected: one === value }, one));
      return h("select", { id, onchange: onchange((box) => box.value) }, options);
    }
    const values = shape.values ?? this.schema.suggestions[name] ?? [];
    const oninput = onchange((box) => box.value);
    if (!values.length && (LONG.has(name) || value.length > 60)) {
      return h("textarea", { id, rows: Math.min(value.split("\n").length + 1, 8), value, oninput });
    }
    const list = values.length ? h("datalist", { id: `${id}-list` }, values.map((one) => h("option", { value: one }))) : null;
    const input = h("input", { id, type: "text", value, list: list && list.id, oninput, autocomplete: "off", spellcheck: "false" });
    return list ? [input, list] : input;
  }

  /** @param {Path} path @param {string} name @param {HTMLElement | null} remove @param {any} control */
  line(path, name, remove, control) {
    const isFixed = [control].flat()[0].localName === "code";
    const label = isFixed ? h("span", { class: "label" }, safe(name)) : h("label", { class: "label", for: idOf(path) }, safe(name));
    return h("div", { class: "field" }, label, h("div", { class: "control" }, control, remove));
  }

  /** @param {Shape} shape @param {any} value @param {Path} path @param {string} name @param {HTMLElement | null} remove */
  group(shape, value, path, name, remove) {
    const properties = shape.node.properties;
    const required = new Set(shape.node.required ?? []);
    const known = Object.keys(properties).filter((key) => key in value);
    const unknown = Object.keys(value).filter((key) => !(key in properties));
    const absent = Object.keys(properties).filter((key) => !(key in value)).sort((a, b) => Number(a === "_meta") - Number(b === "_meta"));
    const fields = known.map((key) =>
      this.field(properties[key], value[key], [...path, key], key, required.has(key) ? null : this.remover([...path, key])),
    );
    fields.push(...unknown.map((key) => this.json(value[key], [...path, key], key, this.remover([...path, key]), "Not in the schema")));
    const add = absent.length
      ? h("select", { class: "add", id: `${idOf(path)}-add`, "aria-label": `Add a field to ${name}`, onchange: (/** @type {any} */ event) => {
          const key = event.target.value;
          this.set([...path, key], this.schema.first(properties[key], key), true);
        } }, h("option", { value: "" }, "Add a field…"), absent.map((key) => h("option", { value: key }, required.has(key) ? `${key} (required)` : key)))
      : null;
    const empty = !fields.length && !absent.length && h("p", { class: "soft" }, "No fields");
    return h("fieldset", { id: idOf(path) }, h("legend", null, safe(name), remove), about(shape.node), fields, empty, add);
  }

  /** @param {Shape} shape @param {any[]} value @param {Path} path @param {string} name @param {HTMLElement | null} remove */
  list(shape, value, path, name, remove) {
    const items = value.map((item, place) =>
      this.field(shape.node.items, item, [...path, place], `${name}[${place}]`, this.remover([...path, place])),
    );
    const add = h("button", { type: "button", id: `${idOf(path)}-add`, onclick: () =>
      this.set([...path, value.length], this.schema.first(shape.node.items, name), true) }, `Add to ${name}`);
    return h("fieldset", { id: idOf(path) }, h("legend", null, safe(name), remove), items.length ? items : h("p", { class: "soft" }, "Empty"), add);
  }

  /** @param {Shape} shape @param {any} value @param {Path} path @param {string} name @param {HTMLElement | null} remove */
  variants(shape, value, path, name, remove) {
    const variants = shape.variants ?? [];
    const current = this.schema.variantOf(shape, value);
    const id = `${idOf(path)}-variant`;
    const choose = h("select", { id, "aria-label": `Variant of ${name}`, onchange: (/** @type {any} */ event) =>
      this.set(path, this.schema.first(variants[Number(event.target.value)].node, name), true) },
      variants.map((variant, place) => h("option", { value: place, selected: place === current }, variant.name)));
    return h("div", { class: "variants" }, choose, this.field(variants[current].node, value, path, name, remove));
  }

  /** @param {any} value @param {Path} path @param {string} name @param {HTMLElement | null} remove @param {string} [note] */
  json(value, path, name, remove, note = "") {
    const text = JSON.stringify(value, null, 2) ?? "null";
    const area = h("textarea", { id: idOf(path), class: "json", rows: Math.min(text.split("\n").length, 8), value: text, spellcheck: "false",
      oninput: (/** @type {any} */ event) => {
        try {
          const parsed = JSON.parse(event.target.value);
          event.target.removeAttribute("aria-invalid");
          this.set(path, parsed);
        } catch {
          event.target.setAttribute("aria-invalid", "true");
        }
      } });
    const kind = isObject(value) || Array.isArray(value) ? "JSON" : "JSON value";
    return this.line(path, `${name} (${note ? `${note}; ` : ""}${kind})`, remove, area);
  }

  /** @param {Path} path */
  remover(path) {
    const name = path[path.length - 1];
    return h("button", { type: "button", class: "remove", id: `${idOf(path)}-remove`, "aria-label": `Remove ${name}`, onclick: () => this.remove(path) }, "✕");
  }
}

/** @param {any} node */
function about(node) {
  return node.description ? h("p", { class: "soft about" }, node.description) : null;
}

/** @param {Path} path */
function idOf(path) {
  return ["param", ...path].map((step) => String(step).replace(/[^\w-]/g, "_")).join("-");
}
