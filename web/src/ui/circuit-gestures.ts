/** Pan and zoom: drag, wheel, pinch, keys. The view follows the picture until a person moves it. */
import type { RefObject } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { legibleScale, marginOf, scaleIn, type Picture } from "../layout";
import type { Point } from "../types";

const [SMALLEST, LARGEST] = [0.05, 4];
/** A pointer that moves less than this does not drag. */
const SHAKE = 4;
/** The legend stands below the picture. */
const BELOW = 20;
/** A picture that would be smaller than the first is seen from its beginning, in a size that is easily read. */
const [SMALL, LEGIBLE] = [0.6, 0.7];

/** Where the picture stands in the window: its origin and how large it is drawn. */
export interface View {
  x: number;
  y: number;
  zoom: number;
}

/** The extent of a window. */
export interface Extent {
  width: number;
  height: number;
}

/** What stays free of the picture: the sides, and on a narrow page the buttons above, which have no room beside it. */
function free({ width, height }: Extent): { margin: number; above: number; high: number } {
  const [margin, above] = width < 600 ? [10, 40] : [24, 0];
  return { margin, above, high: height - above - BELOW };
}

/** Return the view in which the whole picture is seen, not enlarged by much. */
export function fitted(picture: Picture, window: Extent): View {
  const { margin, above, high } = free(window);
  const room = (size: number, extent: number) => Math.max(1, size - 2 * margin) / Math.max(1, extent);
  const zoom = Math.max(SMALLEST, Math.min(room(window.width, picture.width), room(high, picture.height), 1.25));
  const x = (window.width - picture.width * zoom) / 2 - picture.left * zoom;
  const y = above + (high - picture.height * zoom) / 2 - picture.top * zoom;
  return { x, y, zoom };
}

/** Return the view in which a picture is seen first. */
export function opening(picture: Picture, window: Extent): View {
  const whole = fitted(picture, window);
  if (whole.zoom >= SMALL) return whole;
  const { margin, above, high } = free(window);
  const start = (size: number, extent: number, corner: number) =>
    Math.max(margin, (size - extent * LEGIBLE) / 2) - corner * LEGIBLE;
  const x = start(window.width, picture.width, picture.left);
  return { x, y: above + start(high, picture.height, picture.top), zoom: LEGIBLE };
}

/**
 * Return the view of a picture that was made for a frame: all of it, also where a drawer has made the window smaller; or
 * its beginning at the smallest legible scale, if it did not fit the frame.
 */
export function framed(picture: Picture, window: Extent, minimap: boolean): View {
  const margin = marginOf(window);
  const zoom = minimap ? legibleScale(picture) : Math.max(SMALLEST, scaleIn(picture, window));
  const start = (size: number, extent: number, corner: number) =>
    (minimap ? Math.max(margin, (size - extent * zoom) / 2) : (size - extent * zoom) / 2) - corner * zoom;
  return { x: start(window.width, picture.width, picture.left), y: start(window.height, picture.height, picture.top), zoom };
}

/** What a callout keeps from the edges of the window, and from the legend at the bottom, in px. */
const [EDGE, FOOT] = [4, 26];

/** Return the paper around a whole picture that is seen in a window, in the units of the picture. */
export function paperIn(picture: Picture, window: Extent): Point & Extent {
  const { x, y, zoom } = framed(picture, window, false);
  return {
    x: (EDGE - x) / zoom,
    y: (EDGE - y) / zoom,
    width: (window.width - 2 * EDGE) / zoom,
    height: (window.height - EDGE - FOOT) / zoom,
  };
}

/** Return the view zoomed about a point that keeps its place. */
export function zoomed(view: View, by: number, about: Point): View {
  const zoom = Math.min(LARGEST, Math.max(SMALLEST, view.zoom * by));
  const share = zoom / view.zoom;
  return { x: about.x - (about.x - view.x) * share, y: about.y - (about.y - view.y) * share, zoom };
}

/** Return the view moved as little as it takes to show a rectangle of the picture. */
export function revealed(view: View, window: Extent, rect: Extent & Point): View {
  const { margin, above, high } = free(window);
  const shift = (start: number, size: number, extent: number) => {
    const before = margin - start;
    const past = extent - margin - start - size;
    return before > 0 ? before : past < 0 ? Math.max(before, past) : 0;
  };
  const { zoom } = view;
  const x = view.x + shift(view.x + rect.x * zoom, rect.width * zoom, window.width);
  const y = view.y + shift(view.y + rect.y * zoom - above, rect.height * zoom, high);
  return { x, y, zoom };
}

/** How long a picture has to rest before it is drawn in the view that it was moved to, in milliseconds. */
const REST = 150;

/**
 * Return the view in which a picture is drawn. Painting a crowded one takes longer than a frame; so while a person moves
 * it, what was painted is moved as it is, and painted anew when it rests.
 */
function useDrawnView(view: View, held: boolean): View {
  const drawn = useRef(view);
  const [, setRested] = useState(view);
  if (!held) drawn.current = view;
  useEffect(() => {
    const rest = (): void => {
      drawn.current = view;
      setRested(view);
    };
    const timer = held ? setTimeout(rest, REST) : 0;
    return () => clearTimeout(timer);
  }, [view.x, view.y, view.zoom, held]);
  return drawn.current;
}

/** Return the transform that moves what was drawn in one view to where it is in another. */
export function movedBetween(drawn: View, view: View): string {
  const scale = view.zoom / drawn.zoom;
  return `translate(${view.x - drawn.x * scale}px, ${view.y - drawn.y * scale}px) scale(${scale})`;
}

/** What the circuit needs to be moved about. */
export interface Gestures {
  view: View;
  /** The view in which the picture is drawn: the same, unless a crowded picture moves. */
  drawn: View;
  window: Extent;
  /** Whether the pointer has moved so far that a press is no click. */
  dragged: () => boolean;
  zoomBy: (by: number) => void;
  fit: () => void;
  /** Show the picture in a view that was chosen elsewhere. */
  show: (view: View) => void;
  reveal: (rect: Extent & Point) => void;
  handlers: {
    onPointerDown: (event: PointerEvent) => void;
    onPointerMove: (event: PointerEvent) => void;
    onPointerUp: (event: PointerEvent) => void;
    onPointerCancel: (event: PointerEvent) => void;
  };
}

/** Keep the view of a picture in an element; one that is crowded is not drawn anew at each frame of a move. */
export function useGestures(picture: Picture, frame: RefObject<HTMLElement>, crowded: boolean, minimap?: boolean): Gestures {
  const window = useExtent(frame);
  const [moved, setMoved] = useState<View | null>(null);
  const first = minimap === undefined ? opening(picture, window) : framed(picture, window, minimap);
  const view = moved ?? first;
  const drawn = useDrawnView(view, crowded && moved !== null);
  const now = useRef({ view, window, picture, moved });
  now.current = { view, window, picture, moved };
  const pointers = useRef(new Map<number, Point>());
  const path = useRef(0);
  // Another structure is another picture: it is seen whole again.
  const structure = `${picture.boxes.map((box) => box.label).join(" ")} ${picture.down}`;
  useEffect(() => setMoved(null), [structure]);
  useWheel(frame, now, setMoved);
  const end = (event: PointerEvent): void => void pointers.current.delete(event.pointerId);
  const middle = { x: window.width / 2, y: window.height / 2 };
  const zoomBy = (by: number): void => setMoved(zoomed(now.current.view, by, middle));
  return {
    view,
    drawn,
    window,
    dragged: () => path.current > SHAKE,
    zoomBy,
    show: setMoved,
    fit: () => setMoved(minimap === undefined ? fitted(now.current.picture, now.current.window) : minimap ? framed(now.current.picture, now.current.window, false) : null),
    reveal: (rect) => {
      // What is seen whole stays where it is.
      if (now.current.window === UNKNOWN || (minimap === false && !now.current.moved)) return;
      const found = revealed(now.current.view, now.current.window, rect);
      if (found.x !== now.current.view.x || found.y !== now.current.view.y) setMoved(found);
    },
    handlers: {
      onPointerDown: (event) => {
        if (!pointers.current.size) path.current = 0;
        pointers.current.set(event.pointerId, pointIn(event));
      },
      onPointerMove: (event) => {
        const before = pointers.current.get(event.pointerId);
        if (!before) return;
        const here = pointIn(event);
        path.current = Math.max(path.current, Math.abs(here.x - before.x) + Math.abs(here.y - before.y));
        if (path.current <= SHAKE) return;
        capture(event);
        setMoved(dragged(now.current.view, pointers.current, event.pointerId, here));
        pointers.current.set(event.pointerId, here);
      },
      onPointerUp: end,
      onPointerCancel: end,
    },
  };
}

/** Keep getting the pointer's moves once it drags, even outside the circuit. */
function capture(event: PointerEvent): void {
  const element = event.currentTarget as Element;
  if (!element.hasPointerCapture(event.pointerId)) element.setPointerCapture(event.pointerId);
}

/** Return the view after one of one or two pointers went to a place. */
function dragged(view: View, pointers: ReadonlyMap<number, Point>, id: number, here: Point): View {
  const before = pointers.get(id) ?? here;
  const other = [...pointers].find(([key]) => key !== id)?.[1];
  if (!other) return { ...view, x: view.x + here.x - before.x, y: view.y + here.y - before.y };
  const apart = (point: Point) => Math.max(1, Math.hypot(point.x - other.x, point.y - other.y));
  return zoomed(view, apart(here) / apart(before), other);
}

function pointIn(event: MouseEvent): Point {
  const rect = (event.currentTarget as Element).getBoundingClientRect();
  return { x: event.clientX - rect.left, y: event.clientY - rect.top };
}

type Now = RefObject<{ view: View; window: Extent; picture: Picture }>;

/** Wheel pans what is larger than the window, and zooms with Ctrl (which is how pinching a trackpad arrives). */
function useWheel(frame: RefObject<HTMLElement>, now: Now, setMoved: (view: View) => void): void {
  useEffect(() => {
    const element = frame.current;
    const listen = (event: WheelEvent): void => {
      if (!now.current) return;
      const { view, window, picture } = now.current;
      const zooming = event.ctrlKey || event.metaKey;
      const fits = picture.width * view.zoom <= window.width && picture.height * view.zoom <= window.height;
      if (!zooming && fits) return;
      event.preventDefault();
      const panned = { ...view, x: view.x - event.deltaX, y: view.y - event.deltaY };
      setMoved(zooming ? zoomed(view, Math.exp(-event.deltaY / 300), pointIn(event)) : panned);
    };
    element?.addEventListener("wheel", listen, { passive: false });
    return () => element?.removeEventListener("wheel", listen);
  }, []);
}

const UNKNOWN: Extent = { width: 800, height: 480 };

/** The extent of an element, kept up to date. */
function useExtent(frame: RefObject<HTMLElement>): Extent {
  const [extent, setExtent] = useState(UNKNOWN);
  useEffect(() => {
    const element = frame.current;
    if (!element) return undefined;
    const measure = (): void => {
      // Not clientWidth: that is rounded, and a picture that just fits would not.
      const { width, height } = element.getBoundingClientRect();
      if (width && height) setExtent((old) => (old.width === width && old.height === height ? old : { width, height }));
    };
    measure();
    const observer = new ResizeObserver(measure);
    observer.observe(element);
    return () => observer.disconnect();
  }, []);
  return extent;
}
