/** The page: reads the address and the data block, and puts the explorer into its place. */
import { render } from "preact";
import { fromPage, type PageData } from "./state/data";
import type { Session } from "./state/session";
import { stateOf } from "./state/url";
import { badLink } from "./ui/address";
import { App } from "./ui/app";
import { DATA, ROOT, untouchedPage } from "./ui/save";

/** What the data block of the page holds; nothing if there is none. */
function dataBlock(): PageData {
  const text = document.getElementById(DATA)?.textContent?.trim();
  return text ? (JSON.parse(text) as PageData) : {};
}

function start(): void {
  const root = document.getElementById(ROOT);
  if (!root) return;
  const page = untouchedPage();
  const data = dataBlock();
  const session: Session = stateOf(location.hash) ?? fromPage(data);
  const notice = badLink(location.hash, "The first example is shown instead");
  render(<App first={session} page={page} notice={notice} whole />, root);
}

start();
