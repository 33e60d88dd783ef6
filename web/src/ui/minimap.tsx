/** A small picture of the whole circuit with the part that is on show; a press or a drag on it moves the view. */
import type { Picture } from "../layout";
import type { Extent, View } from "./circuit-gestures";

interface Props {
  picture: Picture;
  gestures: { view: View; window: Extent; show: (view: View) => void };
}

const [WIDE, HIGH] = [168, 112];

/** The minimap, while not all of the picture is in the window. */
export function Minimap({ picture, gestures: { view, window, show } }: Props) {
  const { left, top, width, height } = picture;
  const seen = { x: -view.x / view.zoom, y: -view.y / view.zoom, width: window.width / view.zoom, height: window.height / view.zoom };
  // Half a pixel more or less is no crop.
  const slack = 1 / view.zoom;
  const whole = seen.x <= left + slack && seen.y <= top + slack && seen.x + seen.width >= left + width - slack
    && seen.y + seen.height >= top + height - slack;
  if (whole || !width || !height) return null;
  const scale = Math.min(WIDE / width, HIGH / height);
  const move = (event: PointerEvent): void => {
    event.stopPropagation();
    const map = event.currentTarget as SVGElement;
    if (event.type === "pointerdown") map.setPointerCapture(event.pointerId);
    if (!event.buttons) return;
    const { left: x, top: y } = map.getBoundingClientRect();
    const at = { x: left + (event.clientX - x) / scale, y: top + (event.clientY - y) / scale };
    show({ ...view, x: window.width / 2 - at.x * view.zoom, y: window.height / 2 - at.y * view.zoom });
  };
  const boxes = picture.boxes.map((box) => `M${box.x} ${box.y}h${box.width}v${box.height}h${-box.width}z`).join("");
  return (
    // The circuit has keys for this, so the map is for the pointer alone.
    <svg class="minimap" aria-hidden="true" width={width * scale} height={height * scale} viewBox={`${left} ${top} ${width} ${height}`}
      onPointerDown={move} onPointerMove={move} onClick={(event) => event.stopPropagation()}>
      <path class="boxes" d={boxes} />
      <rect class="seen" {...seen} />
    </svg>
  );
}
