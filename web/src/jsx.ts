/** What JSX is turned into: calls with the children at the end, which are shorter than the automatic ones. */
export { Fragment, h } from "preact";
