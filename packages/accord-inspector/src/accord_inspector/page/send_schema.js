// Reads JSON Schemas for the form: what kind of field a schema is, and a first value for it.

/** @typedef {Record<string, any>} Node a JSON Schema */

/**
 * @typedef {object} Shape what the form shows for a schema
 * @property {"text"|"choice"|"number"|"flag"|"list"|"group"|"variants"|"fixed"|"json"} kind
 * @property {Node} node the schema without references and without null
 * @property {boolean} nullable
 * @property {string[]} [values] of a choice
 * @property {boolean} [open] whether other values than those are allowed
 * @property {{name: string, node: Node}[]} [variants]
 */

/** The definitions that a schema refers to, and values for fields by their names. */
export class Schema {
  /** @param {Node} root @param {Record<string, string[]>} suggestions */
  constructor(root, suggestions) {
    this.root = root;
    this.defs = root.$defs ?? {};
    this.suggestions = suggestions;
  }

  /** Return a schema without references. @param {Node} node @returns {Node} */
  resolve(node) {
    let found = node;
    while (found.$ref) {
      const { $ref, ...rest } = found;
      found = { ...this.defs[$ref.replace("#/$defs/", "")], ...rest };
    }
    return found;
  }

  /** @param {Node} node @returns {Shape} */
  shape(node) {
    const found = this.resolve(node);
    if (found.properties) return this.group(found);
    const choices = found.anyOf ?? found.oneOf;
    if (choices) return this.choices(choices);
    const types = [found.type ?? []].flat();
    const nullable = types.includes("null");
    const type = types.find((name) => name !== "null");
    if (found.enum?.length === 1) return { kind: "fixed", node: found, nullable, values: found.enum };
    if (found.enum) return { kind: "choice", node: found, nullable, values: found.enum };
    if (type === "string") return { kind: "text", node: found, nullable };
    if (type === "integer" || type === "number") return { kind: "number", node: found, nullable };
    if (type === "boolean") return { kind: "flag", node: found, nullable };
    if (type === "array") return { kind: "list", node: found, nullable };
    return { kind: "json", node: found, nullable };
  }

  /** @param {Node} node @returns {Shape} */
  group(node) {
    const properties = { ...node.properties };
    for (const choice of node.oneOf ?? node.anyOf ?? []) Object.assign(properties, choice.properties);
    return { kind: "group", node: { ...node, properties }, nullable: false };
  }

  /** @param {Node[]} all @returns {Shape} */
  choices(all) {
    const some = all.filter((node) => node.type !== "null");
    const nullable = some.length < all.length;
    if (some.length === 1) return { ...this.shape(some[0]), nullable };
    const resolved = some.map((node) => this.resolve(node));
    const values = resolved.find((node) => node.enum)?.enum;
    if (values && resolved.every((node) => node.type === "string")) {
      return { kind: "choice", node: resolved[0], nullable, values, open: true };
    }
    const variants = some.map((node, place) => ({ name: this.nameOf(node, place), node }));
    return { kind: "variants", node: {}, nullable, variants };
  }

  /** @param {Node} node @param {number} place */
  nameOf(node, place) {
    const name = node.$ref?.replace("#/$defs/", "");
    const type = this.resolve(node).type;
    return name ?? (Array.isArray(type) ? type[0] : type) ?? `variant ${place + 1}`;
  }

  /** Return the number of the variant that a value is of, or -1. @param {Shape} shape @param {any} value */
  variantOf(shape, value) {
    const scores = (shape.variants ?? []).map(({ node }) => this.score(node, value));
    const best = Math.max(...scores);
    return best < 0 ? -1 : scores.indexOf(best);
  }

  /** Return how well a value fits a schema; less than 0 if it does not. @param {Node} node @param {any} value */
  score(node, value) {
    const shape = this.shape(node);
    if (shape.kind === "variants") {
      return Math.max(...(shape.variants ?? []).map((variant) => this.score(variant.node, value)));
    }
    if (shape.kind !== "group") return this.fits(shape, value) ? 0 : -1;
    if (!isObject(value)) return -1;
    let score = 0;
    for (const [key, property] of Object.entries(shape.node.properties)) {
      const tag = this.resolve(property).enum;
      if (tag?.length === 1 && key in value) {
        if (value[key] !== tag[0]) return -1;
        score += 10;
      } else if (key in value) score += 1;
    }
    const missing = (shape.node.required ?? []).filter((/** @type {string} */ key) => !(key in value));
    return Math.max(score - missing.length, 0);
  }

  /** Return whether a value has the type of a field. @param {Shape} shape @param {any} value */
  fits(shape, value) {
    switch (shape.kind) {
      case "text":
        return typeof value === "string";
      case "choice":
        return typeof value === "string" && (shape.open || (shape.values ?? []).includes(value));
      case "fixed":
        return value === shape.values?.[0];
      case "number":
        return typeof value === "number";
      case "flag":
        return typeof value === "boolean";
      case "list":
        return Array.isArray(value);
      case "group":
        return isObject(value);
      case "variants":
        return this.variantOf(shape, value) >= 0;
      default:
        return true;
    }
  }

  /** Return a first value for a schema. @param {Node} node @param {string} name @returns {any} */
  first(node, name) {
    const shape = this.shape(node);
    switch (shape.kind) {
      case "text":
        return this.suggestions[name]?.[0] ?? "";
      case "choice":
      case "fixed":
        return shape.values?.[0];
      case "number":
        return shape.node.minimum ?? 0;
      case "flag":
        return true;
      case "list":
        return [];
      case "variants":
        return this.first(/** @type {any} */ (shape.variants)[0].node, name);
      case "group":
        return Object.fromEntries(
          (shape.node.required ?? []).map((/** @type {string} */ key) => [key, this.first(shape.node.properties[key], key)]),
        );
      default:
        return {};
    }
  }
}

/** @param {any} value */
export function isObject(value) {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
