// The rows of the timeline: fetched in blocks where the list shows them, and kept for a while.

import { get } from "./api.js";

const BLOCK = 200; // rows of one request
const MAX_BLOCKS = 50; // that are kept
const MAX_REQUESTS = 2; // at the same time

/**
 * @typedef {{n: number, ts: number, from: string, to: string, dir: string, kind: string,
 *   method?: string, session?: string, id?: string, bytes?: number, pair?: number, error?: boolean,
 *   conn?: string, seconds?: number, summary?: string, match?: string[], rules?: string[], severity?: string, fault?: string,
 *   waits?: number | null, seen?: number}} Row
 *
 * `waits` is for how many seconds a request had no response when it was fetched, at `seen`; null
 * says that none will come.
 */

/** The rows that a filter selects. `onrows` is called when more are known. */
export class RowStore {
  constructor() {
    this.total = 0; // messages of the recording
    this.matched = 0; // that the filter selects
    this.isComplete = false; // whether all messages were examined
    /** @type {Map<number, Row[]>} by block, the least recently used first */
    this.blocks = new Map();
    /** @type {Set<number>} blocks whose rows have to be fetched again */
    this.stale = new Set();
    /** @type {Map<number, AbortController>} */
    this.running = new Map();
    /** @type {number[]} the blocks that are shown, the most important first */
    this.wanted = [];
    this.filter = {};
    /** @type {() => void} */
    this.onrows = () => {};
    /** @type {(text: string) => void} */
    this.onproblem = () => {};
  }

  /** Forget all rows, and use another filter. @param {Record<string, any>} filter */
  reset(filter) {
    for (const one of this.running.values()) one.abort();
    this.running.clear();
    this.blocks.clear();
    this.stale.clear();
    this.filter = filter;
    this.total = this.matched = 0;
    this.isComplete = false;
    this.wanted = [0];
    this.fetchNext();
  }

  /** Return the row at a position of the list, if it is known. @param {number} position */
  at(position) {
    return this.blocks.get(Math.floor(position / BLOCK))?.[position % BLOCK];
  }

  /** Take new counts. @param {{total: number, matched: number, complete: boolean}} counts */
  counted(counts) {
    const before = this.matched;
    this.total = counts.total;
    this.matched = counts.matched;
    this.isComplete = counts.complete;
    if (this.matched !== before && /** @type {any} */ (this.filter).sort) {
      for (const block of this.blocks.keys()) this.stale.add(block); // every row may be elsewhere
      this.fetchNext();
    } else if (this.matched !== before) {
      const block = Math.floor(before / BLOCK);
      if (this.blocks.has(block)) this.stale.add(block); // it has grown
      for (const shown of this.wanted) {
        // A response may have come.
        if (this.blocks.get(shown)?.some((row) => row.waits !== undefined)) this.stale.add(shown);
      }
      this.fetchNext();
    }
  }

  /** Fetch all rows again, for example because more is known about them. */
  invalidate() {
    for (const block of this.blocks.keys()) this.stale.add(block);
    this.fetchNext();
  }

  /** Fetch the rows of a range, and a block around it. @param {number} first @param {number} last */
  want(first, last) {
    const from = Math.floor(first / BLOCK);
    const to = Math.floor(Math.max(first, last - 1) / BLOCK);
    const blocks = [];
    for (let block = from; block <= to; block++) blocks.push(block);
    this.wanted = [...blocks, to + 1, from - 1];
    for (const [block, request] of this.running) {
      if (!this.wanted.includes(block)) {
        request.abort();
        this.running.delete(block);
      }
    }
    this.fetchNext();
  }

  /** Return the row of a message by a request of its own. @param {number} position */
  async fetchRow(position) {
    const known = this.at(position);
    if (known) return known;
    const found = await get("/api/messages", { ...this.filter, from: position, count: 1 });
    return found.rows[0];
  }

  fetchNext() {
    for (const block of this.wanted) {
      if (this.running.size >= MAX_REQUESTS) return;
      const isPossible = block === 0 || (block > 0 && block * BLOCK < this.matched);
      const isKnown = this.blocks.has(block) && !this.stale.has(block);
      if (isPossible && !isKnown && !this.running.has(block)) this.fetch(block);
    }
  }

  /** @param {number} block */
  async fetch(block) {
    const request = new AbortController();
    this.running.set(block, request);
    this.stale.delete(block);
    const { filter } = this;
    try {
      const query = { ...filter, from: block * BLOCK, count: BLOCK };
      const found = await get("/api/messages", query, request.signal);
      if (filter !== this.filter) return;
      for (const row of found.rows) row.seen = performance.now();
      this.blocks.delete(block);
      this.blocks.set(block, found.rows);
      if (this.blocks.size > MAX_BLOCKS) this.forgetOne();
      if (found.matched > this.matched || !this.isComplete) this.counted(found);
      // The list has grown while the request was under way.
      if (found.rows.length < Math.min(BLOCK, this.matched - block * BLOCK)) this.stale.add(block);
      this.onrows();
    } catch (error) {
      if (/** @type {any} */ (error).name === "AbortError") return;
      this.onproblem(/** @type {Error} */ (error).message);
    } finally {
      if (this.running.get(block) === request) this.running.delete(block);
    }
    this.fetchNext();
  }

  forgetOne() {
    for (const block of this.blocks.keys()) {
      if (!this.wanted.includes(block)) {
        this.blocks.delete(block);
        return;
      }
    }
  }
}
