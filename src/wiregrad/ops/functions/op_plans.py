"""Plans: a function made of ops, written down once for operands of given shapes as a list of ops.

Which ops a function such as `einsum` applies depends on the shapes of its operands alone, and finding them takes longer
than applying them to small arrays. So the function is run once on wires that have nothing but a shape; after that only
the ops are applied.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from wiregrad.dtypes import WireType
from wiregrad.ir.op import Op, OperatorMethods

NUMBER = np.dtype(float)


class PlannedOp(NamedTuple):
    """One op of a plan, and the numbers of its operands: first those of the plan, then the results of its ops."""

    op: Op
    sources: tuple[int, ...]


class OpPlan:
    """The ops that a function applies to operands of given shapes."""

    def __init__(self, function: Callable[..., Any], shapes: Sequence[tuple[int, ...]]) -> None:
        self.steps: list[PlannedOp] = []
        self._shapes = list(shapes)
        result: PlannedWire = function(*[PlannedWire(self, number) for number in range(len(shapes))])
        self.result = result.number

    def shape_at(self, number: int) -> tuple[int, ...]:
        """Return the shape of an operand or of the result of an op."""
        return self._shapes[number]

    def add_op(self, op: Op, operands: Sequence[PlannedWire]) -> PlannedWire:
        """Note that an op is applied."""
        shapes = [self._shapes[x.number] for x in operands]
        self.steps.append(PlannedOp(op, tuple([x.number for x in operands])))
        self._shapes.append(_infer_shape(op, shapes))
        return PlannedWire(self, len(self._shapes) - 1)

    def run(self, operands: Sequence[Any]) -> Any:
        """Apply the ops to arrays or wires of the shapes that the plan was made for."""
        wires = list(operands)
        for op, sources in self.steps:
            wires.append(op(*[wires[k] for k in sources]))
        return wires[self.result]


class PlannedWire(OperatorMethods):
    """Stands for an array while a plan is made: it has a shape, and notes the ops that are applied to it."""

    __slots__ = ("number", "plan")

    def __init__(self, plan: OpPlan, number: int) -> None:
        self.plan = plan
        self.number = number

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape."""
        return self.plan.shape_at(self.number)

    def __wiregrad_apply__(self, op: Op, operands: Sequence[Any]) -> PlannedWire:
        return self.plan.add_op(op, operands)


def _infer_shape(op: Op, shapes: Sequence[tuple[int, ...]]) -> tuple[int, ...]:
    if op.by_element:
        return np.broadcast_shapes(*shapes)
    return op.infer(tuple([WireType(NUMBER, shape) for shape in shapes])).shape
