/**
 * What the first picture of a circuit has none of: cards, drawers, menus, the marks of a step, and what keys do. On a
 * page it is a script of its own, run once the page is loaded or something here is needed.
 */
export * from "./circuit-extras";
export { CompareTab } from "./compare";
export { FindTab } from "./find";
export { Outline } from "./group-card";
export { HeatTab } from "./heat";
export { Help } from "./help";
export { Inspector } from "./inspector";
export { answerKey } from "./key-commands";
export { LeavesPanel, SourcePanel } from "./leaves";
export { ShareItems } from "./share";
export { TableTab } from "./table";
export { Tabs } from "./tabs";
export { ViewItems } from "./view-items";
