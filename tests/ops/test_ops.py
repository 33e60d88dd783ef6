"""The op table: every record is checked by the checks that follow from it."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import wiregrad as wg
from wiregrad import ops
from wiregrad.errors import RecordError, UnknownOpError
from wiregrad.ops import TABLE, Advice, Elementwise, Interval, Kink, Pattern

from ..support.op_checks import OP_CHECKS, check_identities, check_literal_kinks

TABLE.load_deferred()
RECORDS = [op for op in TABLE if isinstance(op, Elementwise)]
CASES = [
    pytest.param(op, id=op.name, marks=[pytest.mark.full] if op.name.endswith("_moment") else []) for op in RECORDS
]
"""Every record; a moment is an integral, which takes long to check."""
REQUIRED = """
    add subtract multiply divide power negative absolute sign square sqrt cbrt reciprocal exp exp2 expm1 log log2
    log10 log1p sin cos tan arcsin arccos arctan arctan2 sinh cosh tanh arcsinh arccosh arctanh sigmoid softplus
    relu leaky_relu gelu silu erf hypot logaddexp maximum minimum fmax fmin clip where floor ceil round trunc mod
    floor_divide copysign greater greater_equal less less_equal equal not_equal logical_and logical_or logical_xor
    logical_not
""".split()


@contextmanager
def registered(op: Elementwise) -> Iterator[Elementwise]:
    TABLE.register(op)
    try:
        yield op
    finally:
        TABLE.unregister(op)


def cube(**changes: object) -> Elementwise:
    record = Elementwise(
        name="cube",
        doc="Third power of the wire.",
        inputs=("x",),
        pattern=Pattern.SCALE,
        forward=lambda x: x * x * x,
        partials=(lambda x, y: 3.0 * ops.square(x),),
        exact=lambda mp, x: x**3,
        c="{x} * {x} * {x}",
    )
    return replace(record, **changes)


@pytest.mark.parametrize("op", CASES)
@pytest.mark.parametrize("check", OP_CHECKS, ids=lambda check: check.__name__)
def test_every_record_passes_every_check(op: Elementwise, check: Callable[[Elementwise], None]) -> None:
    check(op)


def test_the_elementwise_set_is_there() -> None:
    assert set(REQUIRED) <= {op.name for op in RECORDS}


def test_adding_an_op_is_one_record() -> None:
    with registered(cube()) as op:
        for check in OP_CHECKS:
            check(op)
        circuit = wg.circuit("y = cube(x)")
        second = circuit.backward_circuit().run(x=2.0)

        assert circuit.run(x=2.0).grads == {"x": 12.0}
        assert second.grads == {"x": 12.0}
        assert "y = cube x" in circuit.to_text()
        assert wg.Circuit.from_text(circuit.to_text()) == circuit
        assert "| `cube` | `cube(x)` | scale | Third power of the wire. |" in ops.docs_table()
        assert ops.cube is op
        assert "cube" in dir(ops)
    with pytest.raises(UnknownOpError):
        TABLE["cube"]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"partials": (lambda x, y: 2.0 * ops.square(x),)}, r"cube\(0\.3,\), 0: 0\.18 is .* ulps off"),
        ({"forward": np.tanh, "exact": None}, "cube has no exact form: .* so add exact="),
        ({"forward": lambda x: x * x}, r"cube\(0\.3,\), value: 0\.09 is .* ulps off"),
        ({"forward": lambda x: x * x * x * (1 + 1e-13)}, "ulps off"),
        ({"partials": (lambda x, y: np.float64(3.0) * x * x,)}, "float64 from float32"),
        ({"kinks": (Kink(doc="x = 1", at=lambda x: x - 1.0, slopes=(0.5,)),)}, r"3\.0, not 0\.5"),
        ({"partials": (None,)}, "depends on x, which has no rule"),
        ({"pattern": Pattern.DISTRIBUTE}, "not what DISTRIBUTE says"),
        ({"pattern": Pattern.BLOCK}, "not what BLOCK says"),
        ({"copies": True}, "cube: .* is not"),
        ({"idempotent": True}, "cube: .* is not"),
        ({"involution": True}, "cube: .* is not"),
    ],
)
def test_a_wrong_record_fails_its_own_checks(changes: dict[str, object], message: str) -> None:
    def run_all(op: Elementwise) -> None:
        for check in OP_CHECKS:
            check(op)

    with registered(cube(**changes)) as op, pytest.raises(AssertionError, match=message):
        run_all(op)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"name": "multiply"}, "registered already"),
        ({"name": "two words"}, "plain identifier"),
        ({"name": "lambda"}, "plain identifier"),
        ({"name": "group"}, "cannot be called group"),
        ({"name": "register"}, "cannot be called register"),
        ({"name": "abs"}, "registered already, by absolute"),
        ({"aliases": ("tanh",)}, "registered already, by tanh"),
        ({"infix": ("a b",)}, "cannot be spelled"),
        ({"infix": ("=",)}, "cannot be spelled"),
        ({"doc": " "}, "no doc"),
        ({"ulps": 9.0}, "it must say why"),
        ({"partials": ()}, "one partial"),
        ({"infix": ("*",)}, "multiply's"),
        ({"prefix": "-"}, "negative's"),
        ({"inputs": ("x", "x"), "partials": (None, None)}, "needs distinct inputs"),
        ({"pattern": Pattern.BLOCK, "kinks": (Kink(doc="0", at=lambda x: x, slopes=(0.0,)),)}, "jumps"),
        ({"remedies": Advice.INTERVAL}, "its domain must be an Interval"),
    ],
)
def test_a_record_that_contradicts_itself_is_refused(changes: dict[str, object], message: str) -> None:
    before = len(TABLE)
    with pytest.raises(RecordError, match=message):
        TABLE.register(cube(**changes))

    assert len(TABLE) == before


TEN_POINTS = tuple((k / 16,) for k in range(1, 11))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"doc": " "}, "no doc: add doc="),
        ({"c": ""}, "no c: add c=, the op on numbers as a C expression"),
        ({"c": "{z} * {z}"}, r"c='\{z\} \* \{z\}' must use every input and no other name in braces: x"),
        ({"c": "3.0"}, "must use every input"),
        ({"forward": np.log}, r"no remedies: it breaks at x = 0, so add remedies="),
        ({"forward": math.log1p}, r"forward fails on arrays \(.*\): write it with NumPy functions"),
        ({"domain": lambda x: 0 <= x <= 1, "samples": TEN_POINTS}, r"domain fails on arrays \(.*\): join comparisons"),
        ({"domain": lambda x: 0 <= x <= 1}, "domain fails on arrays"),
        ({"domain": Interval(0.0, 1.0)}, "no samples: few of the usual points are in the domain"),
        ({"domain": Interval(0.0), "samples": ((-1.0,), *TEN_POINTS)}, r"samples outside the domain: \(-1\.0,\)"),
        ({"samples": TEN_POINTS[:9]}, "too few samples: 9 different points; add 10 or more"),
        ({"samples": ((1.0,),) * 10}, "too few samples: 1 different points"),
        ({"samples": ((1.0, 2.0),) * 10}, r"samples must have one number per input \(x\)"),
    ],
)
def test_an_incomplete_record_is_refused_and_told_what_to_add(changes: dict[str, object], message: str) -> None:
    before = len(TABLE)
    with pytest.raises(RecordError, match=r"the record of op cube is incomplete:\n") as caught:
        TABLE.register(cube(**changes))

    assert re.search(message, str(caught.value))
    assert len(TABLE) == before


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"samples": None}, "no samples: add samples="),
        ({"numpy": "", "forward": lambda x, **settings: x}, "no numpy: add numpy="),
    ],
)
def test_an_incomplete_record_of_an_array_op_is_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(RecordError, match=message):
        TABLE.register(replace(TABLE["cumsum"], name="running_sum", **changes))


def test_everything_that_a_record_lacks_is_told_at_once() -> None:
    with pytest.raises(RecordError) as caught:
        TABLE.register(cube(doc="", c="", forward=np.log, domain=Interval(0.0, 1.0)))

    assert [line.split(":")[0].strip() for line in str(caught.value).splitlines()[1:]] == [
        "no doc",
        "no c",
        "no samples",
        "no remedies",
    ]


def test_an_op_that_a_user_defines_needs_no_text_and_no_remedy() -> None:
    with registered(cube(c="", forward=np.log, partials=(lambda x, y: 1.0 / x,), opaque=True)) as op:
        assert ops.cube is op


@pytest.mark.parametrize("name", TABLE.callable_names())
def test_every_record_of_the_table_is_complete(name: str) -> None:
    assert TABLE[name].missing_parts() == []


def test_false_facts_of_a_kink_fail() -> None:
    kinked = replace(ops.maximum, name="larger", kinks=(replace(ops.maximum.kinks[0], alone=(1.0, 1.0)),))
    with pytest.raises(AssertionError, match=r"alone: 1\.0, not 0\.0"):
        check_literal_kinks(kinked)


def test_a_false_neutral_operand_fails() -> None:
    with pytest.raises(AssertionError, match=r"add: 0\.0 is not -0\.0"):
        check_identities(replace(ops.add, neutral=(0.0, None)))


def test_only_the_newest_op_can_be_forgotten() -> None:
    with pytest.raises(RecordError, match="registered last"):
        TABLE.unregister(ops.multiply)


def test_an_unregistered_record_cannot_be_applied() -> None:
    builder = wg.Builder()
    with pytest.raises(UnknownOpError, match=r"cube is not registered; call wiregrad\.ops\.register"):
        builder.apply(cube(), builder.input("x"))


def test_an_op_applied_to_numbers_is_numpy() -> None:
    assert ops.hypot(3.0, 4.0) == 5.0
    assert ops.leaky_relu(-1.0) == -0.01
