// Which rows are marked: the active one, the open one, and the other message of a pair.

/** Keeps the classes of the visible rows of a timeline. */
export class RowMarks {
  /**
   * @param {import("./timeline-list.js").VirtualList} list
   * @param {import("./timeline-rows.js").RowStore} store
   */
  constructor(list, store) {
    this.list = list;
    this.store = store;
    this.under = -1; // the position under the pointer
    this.chosen = -1; // the number of the open message
  }

  /** Mark one row. @param {HTMLElement} element @param {number} position */
  mark(element, position) {
    const row = this.store.at(position);
    const isActive = position === this.list.active;
    const near = [this.store.at(this.list.active), this.store.at(this.under)];
    const isPair = row && near.some((one) => one && typeof one.pair === "number" && one.pair === row.n);
    element.classList.toggle("active", isActive);
    element.classList.toggle("pair", Boolean(isPair));
    element.classList.toggle("chosen", Boolean(row) && row?.n === this.chosen);
    element.setAttribute("aria-selected", String(isActive));
  }

  /** Mark all visible rows. */
  markAll() {
    for (const element of this.list.pool) {
      if (element.dataset.position !== undefined) this.mark(element, Number(element.dataset.position));
    }
  }

  /** Follow the pointer. @param {Event | null} event */
  hovered(event) {
    const position = event ? positionAt(event) : -1;
    if (position === this.under) return;
    this.under = position;
    this.markAll();
  }
}

/** Return the position of the row that an event is about, or -1. @param {Event} event */
export function positionAt(event) {
  const row = /** @type {HTMLElement} */ (event.target).closest("[data-position]");
  return row instanceof HTMLElement ? Number(row.dataset.position) : -1;
}
