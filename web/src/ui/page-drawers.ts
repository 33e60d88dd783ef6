/** What comes late on a page of its own: all that a notebook has, and what is printed. */
export * from "./drawers";
export { PrintSheet } from "./print-sheet";
