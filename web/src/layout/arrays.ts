/** Small helpers over arrays and whole numbers, with the meaning they have in Python. */

/** The quotient of whole numbers, rounded down. */
export function quotient(a: number, b: number): number {
  return Math.floor(a / b);
}

/** The quotient of whole numbers, rounded up. */
export function quotientUp(a: number, b: number): number {
  return -Math.floor(-a / b);
}

/** An element that is known to be there. */
export function at<T>(items: readonly T[], k: number): T {
  return items[k] as T;
}

/** The last element of a list that is not empty. */
export function last<T>(items: readonly T[]): T {
  return items.at(-1) as T;
}

/** The largest number, or what is given where there is none. */
export function most(numbers: Iterable<number>, otherwise: number): number {
  let found: number | undefined;
  for (const n of numbers) found = found === undefined || n > found ? n : found;
  return found ?? otherwise;
}

/** The smallest number, or what is given where there is none. */
export function least(numbers: Iterable<number>, otherwise: number): number {
  let found: number | undefined;
  for (const n of numbers) found = found === undefined || n < found ? n : found;
  return found ?? otherwise;
}

/** So many of one thing. */
export function times<T>(count: number, make: (k: number) => T): T[] {
  return Array.from({ length: count }, (_, k) => make(k));
}

/** Sums from the first element to each. */
export function sums(numbers: Iterable<number>): number[] {
  let total = 0;
  return Array.from(numbers, (n) => (total += n));
}

/** How many elements of a sorted list are at most `value`. */
export function bisectRight(sorted: readonly number[], value: number): number {
  let low = 0;
  let high = sorted.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (value < at(sorted, middle)) high = middle;
    else low = middle + 1;
  }
  return low;
}

/** The list under a key, made if there is none. */
export function listOf<K, V>(map: Map<K, V[]>, key: K): V[] {
  let found = map.get(key);
  if (found === undefined) map.set(key, (found = []));
  return found;
}

/** The parts of a group path, without empty ones. */
export function pathParts(path: string): string[] {
  return path.split("/").filter((part) => part !== "");
}

/** A group and the groups around it, outermost first. */
export function pathsAround(path: string): string[] {
  const parts = pathParts(path);
  return parts.map((_, k) => parts.slice(0, k + 1).join("/"));
}
