/** What parts of the explorer of a large circuit share: what they may do, and numbers in words. */
import { readValue } from "../state/data";
import { show } from "../ui/text";
import type { Told } from "./answers";
import type { Picked, Where } from "./where";

/** What panels may do: show a part, pick something, go to one node, search. */
export interface Ways {
  go: (where: Where) => void;
  pick: (picked: Picked | null) => void;
  visit: (node: number) => void;
  find: (query: string) => void;
}

/** A number of JSON for people. */
export function told(value: Told | undefined): string {
  return show(readValue(value));
}
