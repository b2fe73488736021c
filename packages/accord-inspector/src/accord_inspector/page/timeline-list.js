// A list of fixed row height that has elements for the visible rows only: a million rows are as fast
// as a hundred.

import { h } from "./dom.js";

// Browsers limit the height of an element to about 33 million pixels, less on zoomed pages.
const MAX_HEIGHT = 8_000_000;
const SPARE_ROWS = 6; // above and below the visible ones

/**
 * A scrolling list. `render(element, position)` fills the element of a row.
 *
 * If the rows are higher than a browser allows, the scroll bar is scaled: a jump of the scroll bar
 * moves by its share of the list, a small movement by as many pixels as in any other list.
 */
export class VirtualList {
  /**
   * @param {{rowHeight: number, create: () => HTMLElement,
   *   render: (element: HTMLElement, position: number) => void, label: string}} options
   */
  constructor({ rowHeight, create, render, label }) {
    this.rowHeight = rowHeight;
    this.create = create;
    this.render = render;
    this.total = 0;
    /** @type {number} the position of the active row, -1 if there is none */
    this.active = -1;
    this.top = 0; // of the visible part, in pixels of an unscaled list
    this.scrolled = 0; // the last known position of the scroll bar
    this.isDue = false;
    /** @type {HTMLElement[]} the row at position p is pool[p % pool.length] */
    this.pool = [];
    /** @type {() => void} called after rows have been placed */
    this.onrendered = () => {};
    /** @type {(isUsers: boolean) => void} called after the list has been scrolled */
    this.onscrolled = () => {};
    this.height = 0; // of the visible part, without the header
    /** @type {HTMLElement | null} */
    this.header = null;
    this.spacer = h("div", { class: "spacer", role: "rowgroup" });
    this.element = h(
      "div",
      { class: "viewport", role: "grid", tabindex: "0", "aria-label": label, onscroll: () => this.scrolledBy() },
      this.spacer,
    );
    this.element.addEventListener("scrollend", () => this.align());
    this.resized = new ResizeObserver(() => this.measure());
    this.resized.observe(this.element);
  }

  /** Show a row that stays at the top. @param {HTMLElement} header */
  setHeader(header) {
    this.header = header;
    this.element.replaceChildren(header, this.spacer);
    this.measure();
  }

  measure() {
    const height = Math.max(0, this.element.clientHeight - (this.header?.offsetHeight ?? 0));
    if (height === this.height) return;
    this.height = height;
    if (this.top > this.maxTop) this.scrollTo(this.maxTop);
    this.draw();
  }

  /** The greatest value of `top`. */
  get maxTop() {
    return Math.max(0, this.total * this.rowHeight - this.height);
  }

  /** Whether the last row is visible. */
  get isAtEnd() {
    return this.top >= this.maxTop - this.rowHeight / 2;
  }

  /** The positions of the visible rows: the first, and the one after the last. */
  get range() {
    const first = Math.floor(this.top / this.rowHeight);
    return [Math.max(0, first), Math.min(this.total, first + Math.ceil(this.height / this.rowHeight) + 1)];
  }

  /** Set the number of rows. @param {number} total */
  setTotal(total) {
    this.total = total;
    const height = `${Math.min(total * this.rowHeight, MAX_HEIGHT)}px`;
    if (this.spacer.style.height !== height) this.spacer.style.height = height;
    this.element.setAttribute("aria-rowcount", String(total + 1));
    if (this.active >= total) this.active = total - 1;
    if (this.top > this.maxTop) this.scrollTo(this.maxTop);
    this.draw();
  }

  /** Change the height of the rows; the first visible row stays. @param {number} rowHeight */
  setRowHeight(rowHeight) {
    const first = this.top / this.rowHeight;
    this.rowHeight = rowHeight;
    this.setTotal(this.total);
    this.scrollTo(first * rowHeight);
  }

  /** Remove all row elements: the next ones are created anew. */
  reset() {
    for (const element of this.pool) element.remove();
    this.pool = [];
    this.draw();
  }

  /** Fill all visible rows again. */
  refresh() {
    for (const element of this.pool) delete element.dataset.position;
    this.draw();
  }

  /** Scroll to a position in pixels. @param {number} top */
  scrollTo(top) {
    this.top = Math.min(Math.max(0, top), this.maxTop);
    this.align();
    this.draw();
    this.onscrolled(false);
  }

  /** Scroll until a row is visible. @param {number} position @param {boolean} [center] */
  show(position, center = false) {
    const above = position * this.rowHeight;
    const below = above + this.rowHeight - this.height;
    if (this.top <= above && this.top >= below) return;
    if (center) this.scrollTo(above - (this.height - this.rowHeight) / 2);
    else this.scrollTo(this.top > above ? above : below);
  }

  /** Return the element of a row, if it is visible. @param {number} position */
  elementAt(position) {
    const element = this.pool[position % (this.pool.length || 1)];
    return element?.dataset.position === String(position) && !element.hidden ? element : undefined;
  }

  /** Draw before the next frame. */
  draw() {
    if (this.isDue) return;
    this.isDue = true;
    requestAnimationFrame(() => {
      this.isDue = false;
      this.place();
    });
  }

  /** How many pixels of the list are one pixel of the scroll bar. */
  scale() {
    const room = Math.min(this.total * this.rowHeight, MAX_HEIGHT) - this.height;
    return room > 0 ? this.maxTop / room : 1;
  }

  scrolledBy() {
    const now = this.element.scrollTop;
    const moved = now - this.scrolled;
    if (!moved) return;
    this.scrolled = now;
    const scale = this.scale();
    if (scale <= 1) this.top = now;
    else if (Math.abs(moved) < this.height) this.top += moved;
    else this.top = now * scale;
    if (now <= 0) this.top = 0;
    if (now >= this.element.scrollHeight - this.element.clientHeight - 1) this.top = this.maxTop;
    this.top = Math.min(Math.max(0, this.top), this.maxTop);
    this.draw();
    this.onscrolled(true);
  }

  /** Move the scroll bar to where it belongs, without moving the rows. */
  align() {
    const wanted = this.top / this.scale();
    if (Math.abs(this.element.scrollTop - wanted) < 1) return;
    this.element.scrollTop = wanted;
    this.scrolled = this.element.scrollTop;
    this.draw();
  }

  place() {
    const [first, last] = this.range;
    const from = Math.max(0, first - SPARE_ROWS);
    const to = Math.min(this.total, last + SPARE_ROWS);
    const size = Math.ceil(this.height / this.rowHeight) + 2 + 2 * SPARE_ROWS;
    while (this.pool.length < size) {
      const element = this.create();
      element.hidden = true;
      this.pool.push(element);
      this.spacer.append(element);
      for (const other of this.pool) delete other.dataset.position; // their places have changed
    }
    const shift = this.element.scrollTop - this.top;
    const used = new Set();
    for (let position = from; position < to; position++) {
      const element = this.pool[position % this.pool.length];
      used.add(element);
      element.style.transform = `translateY(${Math.round(position * this.rowHeight + shift)}px)`;
      if (element.dataset.position !== String(position)) {
        element.dataset.position = String(position);
        element.setAttribute("aria-rowindex", String(position + 2));
        this.render(element, position);
        element.hidden = false;
      }
    }
    for (const element of this.pool) {
      if (!used.has(element)) {
        element.hidden = true;
        element.removeAttribute("id");
        element.classList.remove("active");
        delete element.dataset.position;
      }
    }
    this.onrendered();
  }
}
