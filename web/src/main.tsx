/** The page: reads the address and the data block, and puts the explorer into its place. */
import { render } from "preact";
import { fromPage, type PageData } from "./state/data";
import type { Session } from "./state/session";
import { stateOf } from "./state/url";
import { badLink } from "./ui/address";
import { App } from "./ui/app";
import { provideDrawers, type Drawers } from "./ui/late";
import { DATA, ROOT, untouchedPage } from "./ui/page";

/** What the data block of the page holds; nothing if there is none. */
function dataBlock(): PageData {
  const text = document.getElementById(DATA)?.textContent?.trim();
  return text ? (JSON.parse(text) as PageData) : {};
}

/** What the two scripts of the page hand to each other; the build writes both names. */
const page = globalThis as { wgShared?: object; wgDrawers?: (shared: object) => Drawers };

function start(): void {
  provideDrawers(() => page.wgDrawers?.(page.wgShared!) ?? null);
  const root = document.getElementById(ROOT);
  if (!root) return;
  const own = untouchedPage();
  const data = dataBlock();
  const session: Session = stateOf(location.hash) ?? fromPage(data);
  const notice = badLink(location.hash, "The first example is shown instead");
  render(<App first={session} page={own} notice={notice} whole />, root);
}

start();
