/** Ways to keep what is shown: a page, a picture, data. Everything is made from what the page already has. */
import type { RefObject } from "preact";
import { asJson, documentOf, pageData } from "../state/data";
import type { Session } from "../state/session";
import { DATA, type OwnPage } from "./page";

/** The ways to save a state. */
interface Saves {
  /** Null where the page cannot write itself down; fails with words where the server does. */
  html: (() => Promise<void>) | null;
  svg: () => void;
  json: () => void;
}

/** Return the ways to save a state. */
export function savesOf(state: Session, page: OwnPage | null, root: RefObject<HTMLElement>): Saves {
  const name = fileName(state.circuit.name);
  return {
    html: page && (async () => save(`${name}.html`, "text/html", pageText(await page(), state))),
    svg: () => {
      const drawn = root.current?.querySelector<SVGSVGElement>(".circuit > svg");
      if (drawn) save(`${name}.svg`, "image/svg+xml", svgText(drawn));
    },
    json: () => save(`${name}.json`, "application/json", asJson(documentOf(state))),
  };
}

function fileName(name: string): string {
  return name.replace(/[^\w-]+/g, "-").slice(0, 60) || "circuit";
}

/** The text of a page with other data in it. */
export function pageText(page: string, state: Session): string {
  // In the data there is no "<", whatever it is.
  return page.replace(new RegExp(`(id="${DATA}">)[^<]*`), (_, start: string) => start + asJson(pageData(state)));
}

/** A picture that stands alone: the drawing with the colours it has on the page. */
export function svgText(drawn: SVGSVGElement): string {
  const copy = drawn.cloneNode(true) as SVGSVGElement;
  copy.setAttribute("xmlns", "http://www.w3.org/2000/svg");
  paint(drawn, copy);
  showAll(drawn, copy);
  return new XMLSerializer().serializeToString(copy);
}

const PAINT = [
  "fill", "fill-opacity", "stroke", "stroke-width", "stroke-dasharray", "stroke-linecap", "opacity", "font-family",
  "font-size", "font-weight", "font-style", "text-anchor", "dominant-baseline", "visibility", "display", "color",
];

/** Write the look of every element onto its copy, since the page's style sheet does not come along. */
function paint(drawn: Element, copy: Element): void {
  const [from, to] = [[drawn, ...drawn.querySelectorAll("*")], [copy, ...copy.querySelectorAll("*")]];
  from.forEach((element, index) => {
    const style = getComputedStyle(element);
    // A style attribute would be against the page's content policy; these have attributes of their own.
    for (const name of PAINT) to[index]!.setAttribute(name, style.getPropertyValue(name));
  });
}

const MARGIN = 16;

/** Show the whole drawing, however far it is zoomed in on the page. */
function showAll(drawn: SVGSVGElement, copy: SVGSVGElement): void {
  const box = drawn.querySelector("g")?.getBBox();
  if (!box) return;
  const [width, height] = [box.width + 2 * MARGIN, box.height + 2 * MARGIN];
  // What a view moves: the drawing, or all of it.
  copy.removeAttribute("style");
  copy.querySelector("g")?.removeAttribute("transform");
  copy.setAttribute("viewBox", [box.x - MARGIN, box.y - MARGIN, width, height].map((size) => size.toFixed(1)).join(" "));
  copy.setAttribute("width", width.toFixed(0));
  copy.setAttribute("height", height.toFixed(0));
  const paper = document.createElementNS(copy.namespaceURI, "rect");
  const place = { x: box.x - MARGIN, y: box.y - MARGIN, width, height };
  for (const [name, size] of Object.entries(place)) paper.setAttribute(name, String(size));
  paper.setAttribute("fill", getComputedStyle(drawn.closest(".drawing") ?? drawn).backgroundColor);
  copy.prepend(paper);
}

/** Save a text to a file. */
export function save(name: string, type: string, text: string): void {
  const address = URL.createObjectURL(new Blob([text], { type }));
  const link = document.createElement("a");
  link.href = address;
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(address), 1000);
}
