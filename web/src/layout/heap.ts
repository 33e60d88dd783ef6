/** A heap of whole numbers in an array, smallest first; a sorted array is one. */

/** Add a number. */
export function push(heap: number[], value: number): void {
  let k = heap.length;
  heap.push(value);
  while (k > 0) {
    const parent = (k - 1) >> 1;
    if (heap[parent]! <= value) break;
    heap[k] = heap[parent]!;
    k = parent;
  }
  heap[k] = value;
}

/** Take the smallest number out of a heap that is not empty. */
export function pop(heap: number[]): number {
  const found = heap[0]!;
  const value = heap.pop() as number;
  if (!heap.length) return found;
  let k = 0;
  for (let child = 1; child < heap.length; child = 2 * k + 1) {
    if (child + 1 < heap.length && heap[child + 1]! < heap[child]!) child += 1;
    if (heap[child]! >= value) break;
    heap[k] = heap[child]!;
    k = child;
  }
  heap[k] = value;
  return found;
}
