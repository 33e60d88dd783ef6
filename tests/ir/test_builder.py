"""Building circuits by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest

import wiregrad as wg
from wiregrad.errors import (
    ArityError,
    CircuitError,
    CycleError,
    DomainError,
    DuplicateNameError,
    FanoutError,
    LiteralError,
    NameSyntaxError,
    OperandError,
    UnknownNameError,
    UnknownOpError,
)
from wiregrad.ir import Place, Port, verify


def test_a_builder_not_strict_implies_splitters() -> None:
    b = wg.Builder()
    x = b.input("x")
    circuit = b.build(b.multiply(x, x, name="y"))

    assert len(circuit.splitters) == 0
    assert circuit.run(x=3).grads == {"x": 6.0}


def test_a_strict_builder_names_both_readers_and_shows_the_fix() -> None:
    b = wg.Builder(strict=True)
    x = b.input("x")
    b.exp(x, name="e")
    with pytest.raises(FanoutError) as caught:
        b.tanh(x, name="t")

    message = str(caught.value)
    assert "the wire x is read twice" in message
    assert "by e (input x) and by t (input x)" in message
    assert "p, q = builder.split(x)" in message


def test_a_strict_builder_sees_one_node_read_a_wire_twice() -> None:
    b = wg.Builder(strict=True)
    x = b.input("x")
    with pytest.raises(FanoutError, match=r"y \(input a\) and by y \(input b\)"):
        b.multiply(x, x, name="y")


def test_a_strict_builder_sees_an_output_that_is_read() -> None:
    b = wg.Builder(strict=True)
    x = b.input("x")
    b.exp(x, name="e")
    with pytest.raises(FanoutError, match="the output x"):
        b.build(x)


def test_a_strict_builder_sees_a_wire_read_by_name_and_by_port() -> None:
    b = wg.Builder(strict=True)
    b.exp("x", name="e")
    x = b.input("x")
    t = b.tanh(x, name="t")
    with pytest.raises(FanoutError, match="the wire x is read twice"):
        b.build(t)


def test_a_branch_of_a_splitter_is_read_once() -> None:
    b = wg.Builder(strict=True)
    p, q = b.split(b.input("x"))
    b.exp(p)
    b.exp(q)
    with pytest.raises(FanoutError):
        b.sin(q)


@pytest.mark.parametrize("ways", [2, 3, 7])
def test_splitting_k_ways_takes_k_minus_1_splitters(ways: int) -> None:
    b = wg.Builder(strict=True)
    total, *rest = b.split(b.input("x"), ways)
    for port in rest:
        total = b.add(total, port)
    circuit = b.build(total)

    assert len(circuit.splitters) == ways - 1
    assert circuit.split() == circuit
    assert circuit.run(x=1).grads == {"x": float(ways)}


def test_a_splitter_may_feed_the_output() -> None:
    b = wg.Builder(strict=True)
    p, q = b.split(b.input("x"))
    b.exp(p)

    assert b.build(q)(x=2) == 2.0


def test_nodes_may_be_named_before_they_come() -> None:
    b = wg.Builder()
    b.multiply("e", "c", name="f")
    b.add("a", "b", name="e")
    for name in "abc":
        b.input(name)
    circuit = b.build("f")
    verify(circuit)

    assert circuit.inputs == ("a", "b", "c")
    assert circuit.run(a=2, b=-3, c=10).grads == {"a": 10.0, "b": 10.0, "c": -1.0}


def test_sorting_keeps_constants_places_and_groups_with_their_nodes() -> None:
    b = wg.Builder()
    with b.group("late"), b.at(Place("x.py", 3)):
        b.multiply("e", 2.0, name="f")
    with b.at(Place("x.py", 1)):
        b.add("a", 3.0, name="e")
    b.input("a")
    circuit = b.build("f")

    assert circuit(a=1) == 8.0
    assert (circuit["f"].place, circuit["f"].group) == (Place("x.py", 3), "late")
    assert (circuit["e"].place, circuit["e"].group) == (Place("x.py", 1), "")


def test_a_cycle_is_named() -> None:
    b = wg.Builder()
    b.add("c", b.input("x"), name="a")
    b.exp("a", name="b")
    b.sin("b", name="c")
    b.tanh("x", name="t")
    with pytest.raises(CycleError, match=r"cycle: (a -> b -> c -> a|b -> c -> a -> b|c -> a -> b -> c);"):
        b.build("t")


def test_a_long_cycle_is_shortened() -> None:
    b = wg.Builder()
    for k in range(100):
        b.exp(f"n{(k + 1) % 100}", name=f"n{k}")
    with pytest.raises(CycleError, match=r" -> \.\.\. -> "):
        b.build("n0")


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda b: b.mulitply("x", "x"), UnknownOpError, "did you mean multiply"),
        (lambda b: b.multiply("x"), ArityError, r"multiply takes 2 wires \(a, b\); got 1"),
        (lambda b: b.tanh("x", "x"), ArityError, r"tanh takes 1 wire \(x\); got 2"),
        (lambda b: b.leaky_relu("x", 1.0, 2.0), ArityError, "leaky_relu takes 1 to 2 wires"),
        (lambda b: b.add("x", True), OperandError, r"wanted a number; got bool \(True\)"),
        (lambda b: b.add("x", np.bool_(True)), OperandError, "wanted a number; got bool"),
        (lambda b: b.add("x", None), OperandError, "got NoneType"),
        (lambda b: b.add("x", 1j), OperandError, "got complex"),
        (lambda b: b.add("x", [1.0]), OperandError, "got list"),
        (lambda b: b.add("x", math.inf), LiteralError, "must be finite; got inf"),
        (lambda b: b.add("x", math.nan), LiteralError, "must be finite; got nan"),
        (lambda b: b.add("x", 10**400), LiteralError, "must be finite"),
        (lambda b: b.constant("2"), OperandError, "got str"),
        (lambda b: b.input("x"), DuplicateNameError, "the name x is taken already"),
        (lambda b: b.exp("x", name="x"), DuplicateNameError, "the name x is taken already"),
        (lambda b: b.input("two words"), NameSyntaxError, "cannot be a name"),
        (lambda b: b.input(""), NameSyntaxError, "cannot be a name"),
        (lambda b: b.input("a" * 300), NameSyntaxError, r"'a+\.\.\. cannot be a name"),
        (lambda b: b.input(3), NameSyntaxError, "must be a string; got int"),
        (lambda b: b.exp("x", name="%3"), NameSyntaxError, "cannot be a name"),
        (lambda b: b.apply("input", "x"), OperandError, "builder.input"),
        (lambda b: b.split("x", 1), CircuitError, "at least 2 ways"),
        (lambda b: b.split("x", "3"), CircuitError, "at least 2 ways; got '3'"),
        (lambda b: b.group(3).__enter__(), CircuitError, "printable text"),
        (lambda b: b.add("x", -(10**5000)), LiteralError, "must be finite; got a very long number"),
        (lambda b: b.apply(np.tanh, "x"), OperandError, "wanted an op or its name; got <ufunc 'tanh'>"),
        (lambda b: b.exp("x") and b.sin("x"), OperandError, "Python cannot branch on it"),
        (lambda b: b.apply("absolute", "x", mode=3), OperandError, "a kink mode encodes a convention"),
        (lambda b: b.apply("absolute", "x", mode=300), OperandError, "a kink mode encodes a convention"),
        (lambda b: b.apply("absolute", "x", mode="torch"), OperandError, "a kink mode encodes a convention"),
        (lambda b: b.apply("exp", "x", mode=1), OperandError, "exp has no kinks"),
        (lambda b: b.apply("abs", "x", mode=4 << 5), OperandError, "a kink mode encodes a convention"),
        (lambda b: b.apply("abs", "x", mode=True), OperandError, "a kink mode encodes a convention"),
        (lambda b: b.build(labels=["x"]), OperandError, "labels are a mapping"),
        (lambda b: b.at(Place("f", "1")).__enter__(), CircuitError, "a place is Place"),
        (lambda b: b.name("x", "y"), OperandError, "must be a port; got 'x'"),
        (lambda b: b.name(wg.Builder().input("z"), "y"), OperandError, "another builder"),
        (lambda b: b.at("file.py").__enter__(), CircuitError, "a place is Place"),
        (lambda b: b.at(Place("file.py", -1)).__enter__(), CircuitError, "a place is Place"),
        (lambda b: b.input("y", "float64"), OperandError, "must be a WireType; got 'float64'"),
        (lambda b: b.negative(b.greater("x", 0.0)), DomainError, "negative cannot take bool"),
        (lambda b: max(b.exp("x"), b.sin("x")), OperandError, "use where"),
        (lambda b: 1 < b.exp("x") < 3, OperandError, "use where"),
        (lambda b: b.group("a/b").__enter__(), CircuitError, "without '/'"),
        (lambda b: b.build(), CircuitError, "needs an output"),
        (lambda b: b.build("y"), UnknownNameError, "no node is called 'y'"),
        (lambda b: b.build(3.0), OperandError, "an output must be a port; got 3.0"),
        (lambda b: b.build("x", "x"), DuplicateNameError, "two outputs"),
        (lambda b: b.build(b.exp("nope")), UnknownNameError, "no node is called 'nope'"),
        (lambda b: b.exp(wg.Builder().input("x")), OperandError, "another builder"),
        (lambda b: b.build(wg.Builder().input("x")), OperandError, "an output belongs to another builder"),
    ],
)
def test_a_bad_call_gets_a_clear_error(call: object, error: type[Exception], message: str) -> None:
    b = wg.Builder()
    b.input("x")
    with pytest.raises(error, match=message) as caught:
        call(b)  # type: ignore[operator]

    assert isinstance(caught.value, wg.WiregradError)


def test_a_refused_call_leaves_the_builder_as_it_was() -> None:
    b = wg.Builder(strict=True)
    x = b.input("x")
    for bad in (lambda: b.add(x, True, name="y"), lambda: b.add(x, x, name="y"), lambda: b.add(x, 1.0, name="x")):
        with pytest.raises(wg.WiregradError):
            bad()

    assert b.build(b.exp(x, name="y")) == wg.Circuit.from_text("input x\ny = exp x\noutput y")


def test_numpy_numbers_meet_ports_as_literals() -> None:
    b = wg.Builder()
    x = b.input("x")

    assert b.build(np.float64(2.0) * x + np.float32(1.0))(x=3) == 7.0
    with pytest.raises(TypeError):
        np.array([1.0, 2.0]) * x
    with pytest.raises(TypeError):
        np.tanh(x)


def test_a_type_error_does_not_spoil_what_is_built_later() -> None:
    b = wg.Builder()
    x = b.input("x")
    with pytest.raises(DomainError):
        b.negative(x > 0)
    with pytest.raises(NameSyntaxError):
        b.build(b.exp(x), name="no name")

    assert b.build(b.exp(x)).output == "f"


def test_a_type_error_of_a_node_named_early_is_found_when_built() -> None:
    b = wg.Builder()
    b.negative("condition", name="y")
    b.greater(b.input("x"), 0.0, name="condition")
    with pytest.raises(DomainError, match=r"negative cannot take bool \(at node y\)"):
        b.build("y")


def strict_wire() -> tuple[wg.Builder, Port]:
    b = wg.Builder(strict=True)
    return b, b.input("x")


def test_a_strict_builder_sees_a_wire_read_under_two_names() -> None:
    b, x = strict_wire()
    b.exp("p")
    s = b.sin("q", name="s")
    b.name(x, "p")
    b.name(x, "q")
    with pytest.raises(FanoutError):
        b.build(s)


def test_a_strict_builder_sees_one_node_as_two_outputs() -> None:
    b, x = strict_wire()
    with pytest.raises(FanoutError, match="the output one and by the output two"):
        b.build(labels={"one": x, "two": x})


def test_a_strict_builder_sees_a_branch_that_is_read_and_leaves() -> None:
    b, x = strict_wire()
    p, _ = b.split(x)
    b.exp(p)
    with pytest.raises(FanoutError):
        b.build(p)


def test_both_branches_of_a_splitter_may_leave() -> None:
    b, x = strict_wire()
    p, q = b.split(x)

    assert b.build(labels={"one": p, "two": q})(x=3) == {"one": 3.0, "two": 3.0}


def test_conditions_combine_with_and_or_not() -> None:
    b = wg.Builder()
    x = b.input("x")
    circuit = b.build(b.where((x > 1) & ~(x > 3) | (x < -5), x, 0.0))

    assert [circuit(x=value) for value in (0.0, 2.0, 4.0, -6.0)] == [0.0, 2.0, 0.0, -6.0]


def test_the_ops_are_listed_for_completion() -> None:
    assert {"tanh", "abs", "input", "split"} <= set(dir(wg.Builder()))


def test_operators_of_ports_are_ops() -> None:
    b = wg.Builder()
    x, y = b.input("x"), b.input("y")
    out = abs(-((x + 1) ** 2) / y - 3 * x) + x % y + x // y + 1 / x + 2**x + (2 - x) + 7 % x + 9 // x + +y
    found = b.build(out)(x=2.0, y=3.0)

    assert found == abs(-((2 + 1) ** 2) / 3 - 3 * 2) + 2 % 3 + 2 // 3 + 1 / 2 + 2**2 + (2 - 2) + 7 % 2 + 9 // 2 + 3


def test_comparisons_of_ports_are_ops() -> None:
    b = wg.Builder()
    x = b.input("x")
    both = b.logical_and(b.logical_and(x < 3, x <= 3), b.logical_and(x > 1, x >= 1))

    assert b.build(both)(x=2) is True


def test_an_op_called_on_ports_adds_a_node() -> None:
    b = wg.Builder()

    assert b.build(wg.ops.tanh(b.input("x")))(x=0) == 0.0
    assert repr(b.input("y")) == "Port(y)"


def test_a_name_that_is_taken_often_is_numbered_without_a_search() -> None:
    looked = list[object]()

    class Watched(dict[str, int]):
        def __contains__(self, name: object) -> bool:
            looked.append(name)
            return super().__contains__(name)

    recording = wg.Builder().recording
    recording.names = Watched()
    for index in range(1_000):
        recording.add_name(index, recording.free_name("y"))
    recording.forget_name(7, "y_7")

    assert recording.free_name("y") == "y_7"
    assert [*recording.names][-1] == "y_999"
    assert len(looked) < 5_000


def test_an_unnamed_output_is_called_f_or_the_next_free_name() -> None:
    b = wg.Builder()

    assert b.build(b.exp(b.input("x"))).output == "f"
    assert b.build(b.sin("x")).output == "f_1"


def test_a_builder_can_go_on_after_building() -> None:
    b = wg.Builder()
    first = b.build(b.exp(b.input("x"), name="y"))
    b.build(b.sin("y", name="z"))

    assert first == wg.Circuit.from_text("input x\ny = exp x\noutput y")


def test_groups_nest() -> None:
    b = wg.Builder()
    x = b.input("x")
    with b.group("net"):
        with b.group("layer1"):
            x = b.exp(x, name="inner")
        x = b.sin(x, name="outer")

    circuit = b.build(x)
    assert (circuit["inner"].group, circuit["outer"].group, circuit["x"].group) == ("net/layer1", "net", "")


def test_an_output_label_may_be_the_name_of_what_entered_its_splitter() -> None:
    b = wg.Builder()
    p, _ = b.split("x")
    b.input("x")

    assert b.build(labels={"x": p})(x=2) == 2.0


def test_a_refused_build_names_nothing() -> None:
    b = wg.Builder()
    y = b.exp(b.input("x"))
    b.sin("q", name="p")
    b.sin("p", name="q")
    with pytest.raises(CycleError):
        b.build(y)

    assert repr(y) == "Port(%1)"


def test_an_array_becomes_a_constant_of_its_own_type() -> None:
    b = wg.Builder(finite=False)
    port = b.constant(np.zeros(3), name="zeros")

    assert str(b.type_of(port)) == "float64[3]"
    assert len(b) == 1
