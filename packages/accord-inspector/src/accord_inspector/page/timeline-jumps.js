// Finds a message in the list of the timeline: the one of the address, a pair, the next error.

import { get } from "./api.js";

export class Jumps {
  /** @param {any} view the timeline */
  constructor(view) {
    this.view = view;
    /** @type {number | undefined} the message that the list does not have yet */
    this.pending = undefined;
    /** @type {Promise<void>} ends when the message of the address is the active row */
    this.located = Promise.resolve();
  }

  /** Make a message the active row; the list may not have it yet. @param {number} n */
  locate(n) {
    this.located = this.find(n);
    return this.located;
  }

  /** Look again for the message that the list did not have. */
  again() {
    if (this.pending !== undefined) this.locate(this.pending);
  }

  /** @param {number} n */
  async find(n) {
    const { store, list, filterText } = this.view;
    this.pending = undefined;
    const found = await get(`/api/position/${n}`, store.filter).catch(() => null);
    if (!found || filterText !== this.view.filterText) return;
    if (found.position === null || found.position >= list.total) {
      if (!store.isComplete || found.position !== null) this.pending = n;
      return;
    }
    list.active = found.position;
    list.show(found.position, true);
    list.refresh();
  }

  /** Jump to the response of the active request, or back. */
  async pair() {
    const { store, list } = this.view;
    const row = await store.fetchRow(list.active);
    if (row && typeof row.pair === "number") await this.open(row.pair);
  }

  /**
   * Go to the next message that another filter selects, too.
   * @param {Record<string, any>} more @param {string} what it is, to say that there is none
   */
  async next(more, what) {
    const { store, list } = this.view;
    const row = list.active < 0 ? undefined : await store.fetchRow(list.active);
    const found = await get(`/api/next/${row ? row.n + 1 : 0}`, { ...store.filter, ...more });
    if (found.n === null) this.view.showState(`no further ${what}`);
    else await this.open(found.n);
  }

  /** Show a message as the others are shown: beside the list, or as its active row. @param {number} n */
  async open(n) {
    if (this.view.marks.chosen >= 0) this.view.goTo(n);
    else await this.locate(n);
  }
}
