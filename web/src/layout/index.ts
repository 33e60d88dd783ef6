/** Layout and picture of a circuit: pure functions, no DOM. */
export { ANGLED, layout } from "./layout";
export { METRICS } from "./shapes";
export type { Joint, Layout, Metrics, Route, Shape, Spot } from "./shapes";
export { drawing, picture } from "./picture";
export type { Picture, PictureBox, PictureFrame, PictureOptions, PictureWire } from "./picture";
export { fitted, LARGEST, LEGIBLE, legibleScale, marginOf, refitted, scaleIn, type Fitted, type FrameSize } from "./fitted";
export { DETAIL, sizesOf, type Sizes } from "./sizes";
export type { OutputMark, Slot } from "./slots";
export { mathParts, type MathPart } from "./signs";
export type { Box, Drawing, Kind, Link } from "./boxes";
export { read, written } from "./readings";
export type { Reading, State } from "./readings";
export { clips, position, scaleOf, STEPS, thickness, tone } from "./scale";
export type { Scale } from "./scale";
