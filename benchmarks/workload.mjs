// What agents and clients say to each other: workload.py, for Node.
export const CHUNKS_PER_TURN = 200;
export const UPDATES_PER_TURN = 5;
export const FILE_BYTES = 8 * 1024;
export const DIFF_BYTES = 10 * 1024;

const SOURCE =
  "def handler(request, *, timeout=30.0):\n" +
  '    """Return the "value" of a request — é → ok."""\n' +
  '    path = "C:\\\\dir\\\\file.txt"\n' +
  "    for key, value in request.items():\n" +
  "        if key not in seen and value != '':\n" +
  "            yield (key, value)\t# comment\n\n";

export const nowNs = () => Number(process.hrtime.bigint());
export const chunkText = (number) => `chunk ${String(number).padStart(8, "0")} lorem ipsum dolor sit am.`;
export const sourceText = (size) => SOURCE.repeat(Math.floor(size / SOURCE.length) + 1).slice(0, size);

const files = new Map();
export function fileText(path) {
  const name = path.slice(path.lastIndexOf("/") + 1);
  if (!files.has(name)) files.set(name, sourceText(Number(name)));
  return files.get(name);
}

// Lets all go on once as many wait as there are to be.
let waiting = 0;
let complete;
const completed = new Promise((resolve) => (complete = resolve));
export async function barrier(count) {
  if (++waiting >= count) complete();
  await completed;
}

export function percentile(values, percent) {
  const ordered = [...values].sort((a, b) => a - b);
  return ordered[Math.min(ordered.length - 1, Math.round((percent / 100) * (ordered.length - 1)))];
}

export const spread = (timesNs) => ({ p50_us: percentile(timesNs, 50) / 1e3, p99_us: percentile(timesNs, 99) / 1e3 });
