// Runs the unit tests: every test/*.test.ts is bundled and handed to Node's own test runner.
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
try {
  await build({
    absWorkingDir: here,
    entryPoints: tests.map((name) => join("test", name)),
    outdir: folder,
    bundle: true,
    platform: "node",
    format: "esm",
    outExtension: { ".js": ".mjs" },
    sourcemap: "inline",
    jsx: "automatic",
    jsxImportSource: "preact",
    define: { "process.env.WEB_FOLDER": JSON.stringify(here) },
    logLevel: "warning",
  });
  const made = tests.map((name) => join(folder, name.replace(/\.ts$/, ".mjs")));
  process.exitCode = spawnSync(process.execPath, ["--enable-source-maps", "--test", ...made], { stdio: "inherit" }).status ?? 1;
} finally {
  rmSync(folder, { recursive: true });
}
