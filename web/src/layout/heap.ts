/** A heap of whole numbers in an array, smallest first; a sorted array is one. */
import { at } from "./arrays";

/** Add a number. */
export function push(heap: number[], value: number): void {
  let k = heap.length;
  heap.push(value);
  while (k > 0) {
    const parent = (k - 1) >> 1;
    if (at(heap, parent) <= value) break;
    heap[k] = at(heap, parent);
    k = parent;
  }
  heap[k] = value;
}

/** Take the smallest number out of a heap that is not empty. */
export function pop(heap: number[]): number {
  const found = at(heap, 0);
  const value = heap.pop() as number;
  if (!heap.length) return found;
  let k = 0;
  for (let child = 1; child < heap.length; child = 2 * k + 1) {
    if (child + 1 < heap.length && at(heap, child + 1) < at(heap, child)) child += 1;
    if (at(heap, child) >= value) break;
    heap[k] = at(heap, child);
    k = child;
  }
  heap[k] = value;
  return found;
}
