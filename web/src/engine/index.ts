/**
 * The engine of the page: formulas in, circuits, runs and sentences out. Pure: no page, no network. What a person asks of
 * a run stands in `questions`, which a page needs only once somebody asks.
 */
export { active, assembled, expressionOf, nameOf, ranksOf, readers, split, titleOf, told } from "./circuits";
export { backward, branches, evaluate, forward, isRunnable, kinksOf, type Branch } from "./evaluate";
export { exact, isBad, isNan, MINUS, number, operand, short, sizeOf } from "./numbers";
export { CONSTANTS, LIMITS, OPS, PATTERNS, type OpRecord } from "./ops.generated";
export { spanOf, type Note } from "./expressions";
export { parse, parseWithNotes } from "./parser";
export { FormulaMistake } from "./scanner";
export { inWords, steps } from "./steps";
export { callable, expression, isSplitter, opOf } from "./table";
