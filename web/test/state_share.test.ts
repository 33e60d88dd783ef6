import { test } from "node:test";
import assert from "node:assert/strict";
import { fromFormula } from "../src/state/session";
import { commandOf, linkOf } from "../src/ui/share";

const state = fromFormula("y = a*b", { a: -0, b: NaN });
const at = (protocol: string, hostname: string): string | null =>
  linkOf(state, true, { protocol, hostname, href: `${protocol}//${hostname}/page#old` } as Location);

test("only the address of a site that others reach is a link", () => {
  const here = ["localhost", "a.localhost", "127.0.0.1", "127.1.2.3", "0.0.0.0", "[::1]"];

  assert.deepEqual(here.map((name) => at("http:", name)), here.map(() => null));
  assert.equal(at("file:", ""), null);
  assert.equal(at("https:", "example.org"), "https://example.org/page#v=1&f=y+=+a*b&x=a:-0,b:NaN");
  assert.equal(linkOf(state, false, { protocol: "https:", hostname: "example.org", href: "https://example.org/" } as Location), null);
});

test("a command is one that a shell reads as it was meant", () => {
  assert.equal(commandOf(state), 'wiregrad explore "y = a*b" a=-0 b=nan');
  assert.equal(commandOf(fromFormula("u = x\n\ny = u*u", { x: 2 })), 'wiregrad explore "u = x; y = u*u" x=2');
});
