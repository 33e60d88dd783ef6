// Builds the page into the Python package: classic scripts for the page and the single file, one module for notebooks.
// `node build.mjs --check` builds nothing: it fails where what is committed is not what would be built.
import { build } from "esbuild";
import { readFile, writeFile, mkdir } from "node:fs/promises";
import { basename, dirname, extname, join } from "node:path";
import { fileURLToPath } from "node:url";
import ts from "typescript";

const here = dirname(fileURLToPath(import.meta.url));
const target = join(here, "..", "src", "wiregrad", "explorer", "static");

// The page is 3 % smaller where functions are arrows. They stand before everything else in their module, as if hoisted.
const arrows = {
  name: "arrows",
  setup: ({ onLoad }) =>
    onLoad({ filter: /\/src\/.*\.tsx?$/ }, async ({ path }) => {
      const text = await readFile(path, "utf8");
      return { contents: withArrows(path, text), loader: extname(path).slice(1) };
    }),
};

function withArrows(path, text) {
  const { statements } = ts.createSourceFile(path, text, ts.ScriptTarget.Latest);
  const isFunction = (found) => ts.isFunctionDeclaration(found) && !found.asteriskToken;
  const rest = statements.filter((found) => !isFunction(found)).map((found) => text.slice(found.pos, found.end));
  return [...statements.filter(isFunction).map((found) => arrow(text, found)), ...rest].join("\n");
}

function arrow(text, { modifiers = [], name, body, end }) {
  const has = (kind) => modifiers.some((modifier) => modifier.kind === kind);
  const before = `${has(ts.SyntaxKind.ExportKeyword) ? "export " : ""}const ${name.text} =`;
  const signature = `${has(ts.SyntaxKind.AsyncKeyword) ? "async " : ""}${text.slice(name.end, body.pos)}`;
  return `${before} ${signature} => ${text.slice(body.pos, end)};`;
}

const common = {
  absWorkingDir: here,
  bundle: true,
  minify: true,
  write: false,
  target: "es2022",
  legalComments: "inline",
  charset: "utf8",
  // Children as arguments and not as a property: the page is 2 % smaller.
  tsconfigRaw: { compilerOptions: { jsx: "react", jsxFactory: "h", jsxFragmentFactory: "Fragment" } },
  inject: ["src/jsx.ts"],
  plugins: [arrows],
};

async function made(entry, format, more = {}) {
  const result = await build({ ...common, entryPoints: [entry], format, ...more });
  return result.outputFiles[0].text;
}

// esbuild keeps the space before the value of a custom property, of which there are many.
async function madeStyle(entry) {
  return (await made(entry)).replace(/(?<=--[\w-]+:) /g, "");
}

// The explorer is two classic scripts: the first draws the circuit, the second is one function that makes the drawers from
// what the first shares with it. esbuild splits modules only, so its imports and exports are turned into plain names here.
async function madeInTwo(entry, late) {
  const { outputFiles } = await build({
    ...common, entryPoints: { entry, late }, format: "esm", splitting: true, outdir: "out", chunkNames: "shared",
  });
  const parts = Object.fromEntries(outputFiles.map(({ path, text }) => [basename(path), withoutModules(text)]));
  const { "entry.js": first, "late.js": second, "shared.js": shared, ...rest } = parts;
  if (Object.keys(rest).length) throw new Error(`more parts than two scripts can hold: ${Object.keys(rest)}`);
  return [
    `globalThis.wgShared=(()=>{${shared.body}return{${shared.exported}}})();(()=>{const{${first.imported}}=wgShared;${first.body}})();`,
    `globalThis.wgDrawers=$shared=>{const{${second.imported}}=$shared;${second.body}return{${second.exported}}};`,
  ];
}

// Take imports and exports from a minified module: `a as b` is `a:b` where it is imported, and `b:a` where it is exported.
function withoutModules(text) {
  const [imports, exports] = [/\bimport\{([^}]*)\}from"\.\/shared\.js";/g, /\bexport\{([^}]*)\};?\s*$/];
  const names = (list) => list.split(",").map((name) => name.trim().split(" as "));
  const imported = [...text.matchAll(imports)].flatMap(([, list]) => names(list).map(([name, own = name]) => `${name}:${own}`));
  const exported = names(text.match(exports)?.[1] ?? "").map(([own, name = own]) => (own ? `${name}:${own}` : ""));
  const body = text.replace(imports, "").replace(exports, "");
  if (/\b(import|export)\{/.test(body)) throw new Error("the modules of the page could not be taken apart");
  return { body, imported: imported.join(), exported: exported.join() };
}

const [explorer, drawers] = await madeInTwo("src/main.tsx", "src/ui/page-drawers.ts");
const files = {
  "explorer.js": explorer,
  "drawers.js": drawers,
  "large.js": await made("src/large/main.tsx", "iife"),
  "learn.js": await made("src/learn/main.tsx", "iife"),
  "widget.js": await made("src/widget.tsx", "esm"),
  "sheet.js": await made("src/learn/sheet.tsx", "iife"),
  "explorer.css": await madeStyle("src/explorer.css"),
  "large.css": await madeStyle("src/large.css"),
  "learn.css": await madeStyle("src/learn.css"),
  "sheet.css": await madeStyle("src/sheet.css"),
};

if (process.argv.includes("--check")) {
  const stale = [];
  for (const [name, text] of Object.entries(files)) {
    const found = await readFile(join(target, name), "utf8").catch(() => "");
    if (found !== text) stale.push(name);
  }
  if (stale.length) {
    console.error(`stale: ${stale.join(", ")}; run \`make derive\` and commit what it writes`);
    process.exit(1);
  }
} else {
  await mkdir(target, { recursive: true });
  for (const [name, text] of Object.entries(files)) {
    await writeFile(join(target, name), text);
    console.log(`${name}: ${Buffer.byteLength(text)} bytes`);
  }
}
