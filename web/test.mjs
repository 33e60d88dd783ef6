// Runs the unit tests: all test/*.test.ts are bundled into one script, which Node's own test runner runs in one process.
import { build } from "esbuild";
import { spawnSync } from "node:child_process";
import { mkdtempSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const here = dirname(fileURLToPath(import.meta.url));
const wanted = process.argv.slice(2);
const tests = readdirSync(join(here, "test")).filter(
  (name) => name.endsWith(".test.ts") && (!wanted.length || wanted.some((part) => name.includes(part))),
);
const folder = mkdtempSync(join(tmpdir(), "explorer-tests-"));
const script = join(folder, "tests.mjs");
try {
  await build({
    absWorkingDir: here,
    stdin: { contents: tests.map((name) => `import "./test/${name}";`).join("\n"), resolveDir: here },
    outfile: script,
    bundle: true,
    // package.json says that no module of the page has side effects; those of the tests have.
    ignoreAnnotations: true,
    platform: "node",
    format: "esm",
    sourcemap: "inline",
    jsx: "automatic",
    jsxImportSource: "preact",
    define: { "process.env.WEB_FOLDER": JSON.stringify(here) },
    logLevel: "warning",
  });
  process.exitCode = spawnSync(process.execPath, ["--enable-source-maps", "--test", script], { stdio: "inherit" }).status ?? 1;
} finally {
  rmSync(folder, { recursive: true });
}
