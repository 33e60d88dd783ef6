/** What is drawn on a circuit besides itself, once something happens on it; a page may bring it after the first picture. */
export { HoverCard } from "./circuit-hover";
export { LitPathMarks } from "./circuit-path";
export { DragHint, StepMarks } from "./circuit-step";
export { Minimap } from "./minimap";
