/** A card beside the pointer that says what assistive technology reads of a wire or box. */
import { useEffect, useState } from "preact/hooks";
import type { RefObject } from "preact";
import type { Point } from "../types";

interface Props {
  /** What the pointer is on; the card is for as long as that stays the same. */
  pointed: object | null;
  frame: RefObject<HTMLElement>;
}

/** Milliseconds that the pointer rests before the card appears. */
const PATIENCE = 350;

/** The card of the wire that the pointer rests on. */
export function HoverCard({ pointed, frame }: Props) {
  const [card, setCard] = useState<(Point & { text: string }) | null>(null);
  useEffect(() => {
    setCard(null);
    const element = frame.current;
    if (!element || !pointed) return undefined;
    let timer = 0;
    const rest = (event: PointerEvent): void => {
      clearTimeout(timer);
      if (event.pointerType !== "mouse" || event.buttons) return setCard(null);
      const symbol = event.target instanceof Element ? event.target.closest("[data-wire], [data-box]") : null;
      const text = symbol?.getAttribute("aria-label") ?? "";
      const { left, top } = element.getBoundingClientRect();
      timer = window.setTimeout(() => setCard(text ? { x: event.clientX - left, y: event.clientY - top, text } : null), PATIENCE);
    };
    element.addEventListener("pointermove", rest);
    return () => {
      clearTimeout(timer);
      element.removeEventListener("pointermove", rest);
    };
  }, [JSON.stringify(pointed)]);
  if (!card) return null;
  const { clientWidth, clientHeight } = frame.current!;
  const right = card.x > clientWidth / 2;
  const below = card.y < 120;
  const place = {
    [right ? "right" : "left"]: `${12 + (right ? clientWidth - card.x : card.x)}px`,
    [below ? "top" : "bottom"]: `${below ? card.y + 16 : clientHeight - card.y + 12}px`,
  };
  const [title, ...rest] = card.text.split(", ");
  return (
    <div class="hover-card" aria-hidden="true" style={place}>
      <b>{title}</b>
      {rest.map((line) => <span key={line}>{line}</span>)}
    </div>
  );
}
