"""The steps of a program in the order they run, and the slots each of them uses: what both tiers are made from."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wiregrad.backends.native import plan
from wiregrad.backends.native.emit import Real
from wiregrad.backends.native.kinds import Kinds, numbered
from wiregrad.backends.native.stencils import ARRIVED, GRADIENTS, OUTPUT, Back, Key, Plain
from wiregrad.ir import Circuit

Offsets = Callable[[int], NDArray[np.int32]]
"""Gives, for a hole, the offset into the buffer at each of some steps."""


class Stream:
    """What a program does, step by step: which stencil, and whose slots belong into its holes.

    Forward in order, then the seed, then backward in reverse; a subject is a node, or for a step that belongs to none
    the slot it reads and the slot it writes.
    """

    def __init__(
        self, circuit: Circuit, kinds: Kinds, found: plan.Plan, real: Real, root: int, copies: list[tuple[int, int]]
    ) -> None:
        self.real, self.inputs, self.outputs = real, len(circuit.inputs), len(circuit.outputs)
        self.columns, self.found = circuit.columns, found
        self.keys: list[Key] = []
        self._kinds = kinds
        self._which, self._subjects = list[NDArray[Any]](), list[NDArray[Any]]()
        self._forward()
        self._plain("copy", [(int(found.values[node]), slot) for node, slot in copies])
        if root >= 0:
            self._back_from(root, np.array(circuit.input_indices(), np.intp))
        self._plain("return", [(0, 0)])
        # Sorting 16 bits takes one pass; a program has a few hundred stencils.
        self.which = np.concatenate(self._which).astype(np.uint16 if len(self.keys) < 2**16 else np.int64)
        self.subjects = np.concatenate(self._subjects)

    def __len__(self) -> int:
        return len(self.which)

    def offsets(self, key: int, steps: NDArray[np.intp]) -> Offsets:
        """Return, for the steps of one stencil, what gives the offset that belongs into a hole at each of them."""
        subjects, found, columns, width = self.subjects[steps], self.found, self.columns, np.int32(self.real.width)
        if isinstance(self.keys[key], Plain):
            pairs = subjects.astype(np.int64)
            return lambda hole: (pairs & 0xFFFFFFFF if hole == OUTPUT else pairs >> 32).astype(np.int32) * width

        def offset(hole: int) -> NDArray[np.int32]:
            nodes, slots = subjects, found.values if hole <= OUTPUT else found.gradients
            if hole not in (OUTPUT, ARRIVED):
                nodes = columns.sources[columns.starts[subjects] + (hole if hole < OUTPUT else hole - GRADIENTS)]
            return np.asarray(slots[nodes] * width, np.int32)

        return offset

    def steps(self) -> list[tuple[Key, dict[int, int]]]:
        """Return each step's stencil and the slot for each of its holes."""
        pairs = zip(self.which.tolist(), self.subjects.tolist(), strict=True)
        return [(self.keys[which], self._slots(self.keys[which], subject)) for which, subject in pairs]

    def _slots(self, key: Key, subject: int) -> dict[int, int]:
        if isinstance(key, Plain):
            return {0: subject >> 32, OUTPUT: subject & 0xFFFFFFFF}
        values, gradients, columns = self.found.values, self.found.gradients, self.columns
        sources = columns.sources[columns.starts[subject] : columns.starts[subject + 1]].tolist()
        own = {OUTPUT: int(values[subject]), ARRIVED: int(gradients[subject])}
        reads = {slot: int(values[source]) for slot, source in enumerate(sources)}
        return own | reads | {GRADIENTS + slot: int(gradients[source]) for slot, source in enumerate(sources)}

    def _add(self, keys: list[Key], which: NDArray[Any], subjects: NDArray[Any]) -> None:
        self._which.append(which + len(self.keys))
        self._subjects.append(subjects)
        self.keys += keys

    def _plain(self, name: str, pairs: list[tuple[int, int]]) -> None:
        """Add steps of one stencil, each with the slot it reads and the one it writes."""
        if pairs:
            subjects = np.array([read << 32 | written for read, written in pairs], np.int64)
            self._add([Plain(name)], np.zeros(len(pairs), np.int64), subjects)

    def _forward(self) -> None:
        steps = np.flatnonzero(self.found.live & (self.columns.starts[1:] > self.columns.starts[:-1]))
        used, which, _ = numbered(self._kinds.nodes[steps])
        self._add([kind for kind in (self._kinds.table[k] for k in used.tolist()) if kind is not None], which, steps)

    def _back_from(self, root: int, inputs: NDArray[np.intp]) -> None:
        """Add the seed, the steps back, and what makes the gradient whole: 0 where nothing came back."""
        found = self.found
        reached, absent = found.reached[inputs], found.absent[inputs]
        self._plain("zero", [(0, slot) for slot in found.gradients[inputs[reached == 0]].tolist()])
        self._plain("seed", [(0, int(found.gradients[root]))] if found.reached[root] else [])
        self._backward()
        self._plain("settle", [(0, slot) for slot in found.gradients[inputs[(reached & absent) != 0]].tolist()])

    def _backward(self) -> None:
        steps = np.flatnonzero(self.found.variants)[::-1]
        codes = self._kinds.nodes[steps].astype(np.int64) << 16 | self.found.variants[steps]
        used, which, _ = numbered(codes)
        keys = list[Key]()
        for code in used.tolist():
            kind = self._kinds.table[code >> 16]
            assert kind is not None
            ways = tuple(code >> 2 * slot & 3 for slot in range(len(kind.types)))
            keys.append(Back(kind, bool(code >> plan.MASK_BIT & 1), ways))
        self._add(keys, which, steps)
