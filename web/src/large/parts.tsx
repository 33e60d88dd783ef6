/** What parts of the explorer of a large circuit share: numbers in words. */
import { readValue } from "../state/data";
import { show } from "../ui/text";
import type { Told } from "./answers";

/** A number of JSON for people. */
export function told(value: Told | undefined): string {
  return show(readValue(value));
}
