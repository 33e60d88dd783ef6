/** The drawer of the inspector: beside the picture, or in a narrow frame a sheet of three heights below it. */
import type { ComponentChildren } from "preact";
import { useRef } from "preact/hooks";

type Height = 0 | 1 | 2;
const NAMES = ["low", "middle", "high"];

/** The drawer; its handle is there only in a narrow frame, and can be pressed or dragged. */
export function Sheet({ height, onHeight, children }: { height: Height; onHeight: (height: Height) => void; children: ComponentChildren }) {
  const from = useRef<number | null>(null);
  const released = (event: PointerEvent): void => {
    const moved = from.current === null ? 0 : event.clientY - from.current;
    from.current = null;
    if (Math.abs(moved) < 8) onHeight(((height + 1) % 3) as Height);
    else onHeight(Math.max(0, Math.min(2, height - Math.sign(moved))) as Height);
  };
  const keyed = (event: KeyboardEvent): void => {
    if (event.key !== "Enter" && event.key !== " ") return;
    event.preventDefault();
    onHeight(((height + 1) % 3) as Height);
  };
  return (
    <div class="sheet" data-height={NAMES[height]}>
      <button type="button" class="grab" aria-label={`Height of the card: ${NAMES[height]}`} onKeyDown={keyed}
        onPointerDown={(event) => {
          from.current = event.clientY;
          event.currentTarget.setPointerCapture(event.pointerId);
        }}
        onPointerUp={released} />
      {children}
    </div>
  );
}
