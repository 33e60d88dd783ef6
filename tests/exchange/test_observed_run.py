"""Questions about an observed run need no framework: here the framework is NumPy, and the run is written by hand."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from wiregrad.errors import UnknownNameError, UnknownOpsError
from wiregrad.exchange.observed_explain import explain_run
from wiregrad.exchange.observed_flow import flow_run
from wiregrad.exchange.observed_run import (
    HeldValue,
    ObservedGradient,
    ObservedOp,
    ObservedRun,
    ObservedTensor,
    SourceCall,
    TensorRef,
    TensorSummary,
    blame_run,
)
from wiregrad.ir import Place


def hold(value: Any) -> HeldValue:
    array = np.asarray(value, float)
    return HeldValue(array.shape, "float64", array)


def site(line: int) -> SourceCall:
    return SourceCall(Place("train.py", line), (lambda: None).__code__, 0)


class HandMadeRun:
    """Adds tensors, ops and gradients to a run, one by one."""

    def __init__(self) -> None:
        self.run = ObservedRun()

    def add_tensor(self, value: Any, name: str = "", producer: int | None = None, *, grad: bool = True) -> int:
        held = hold(value)
        index = len(self.run.tensors)
        kind = "parameter" if name else "computed"
        tensor = ObservedTensor(
            index, index, 0, 0, held.shape, (), "float64", grad, producer, name=name, kind=kind, held=held
        )
        self.run.tensors.append(tensor)
        if name:
            self.run.parameters[name] = grad
        return index

    def add_op(self, name: str, inputs: list[int], value: Any, *, grad: bool = True, module: str = "") -> int:
        index = len(self.run.ops)
        output = self.add_tensor(value, producer=index, grad=grad)
        arguments = tuple(TensorRef(k) for k in inputs)
        op = ObservedOp(
            index=index,
            name=f"aten.{name}",
            overload="default",
            arguments=arguments,
            keywords={},
            result=TensorRef(output),
            site=site(index + 1),
            module=module,
            function=None,
            phase="forward",
            step=0,
            grad_enabled=True,
        )
        self.run.ops.append(op)
        if grad:
            self.run.rules[index] = f"{name}Backward"
        return output

    def send(self, op: int, received: Any, *sent: Any) -> None:
        """Add what an op received and sent to each of its inputs."""
        parts = tuple(None if part is None else hold(part) for part in sent)
        targets = self.run.ops[op].inputs
        self.run.gradients.append(ObservedGradient(op, None, 1, "Rule", (hold(received),), parts, targets))

    def begin_backward(self, root: int) -> None:
        self.run.roots.append(root)
        self.run.backwards += 1


def blame(run: ObservedRun) -> Any:
    return blame_run(run, lambda *_: False)


def root_at_zero() -> ObservedRun:
    made = HandMadeRun()
    x = made.add_tensor([0.0, 4.0], "x")
    root = made.add_op("sqrt", [x], [0.0, 2.0], module="net.root")
    loss = made.add_op("sum", [root], 2.0)
    made.begin_backward(loss)
    made.send(1, 1.0, [1.0, 1.0])
    made.send(0, [1.0, 1.0], [np.inf, 0.25])
    return made.run


def test_blame_names_the_op_that_sent_an_infinity() -> None:
    (origin,) = blame(root_at_zero()).origins

    assert (origin.op, origin.module, str(origin.place)) == ("sqrt", "net.root", "train.py:1")
    assert origin.said == "sqrt sent back Inf: it received 1 at x = 0 (element [0])"
    assert origin.spoils == ("the gradient of x",)


def root_behind_relu(*, slope: float) -> ObservedRun:
    """Return a run in which sqrt sends an infinity to relu, and relu sends `slope` on."""
    made = HandMadeRun()
    x = made.add_tensor([0.0], "x")
    positive = made.add_op("relu", [x], [0.0])
    root = made.add_op("sqrt", [positive], [0.0], module="net.root")
    made.begin_backward(made.add_op("sum", [root], 0.0))
    made.send(2, 1.0, [1.0])
    made.send(1, [1.0], [np.inf])
    made.send(0, [np.inf], [slope])
    return made.run


def test_an_infinity_that_reaches_no_gradient_is_harmless() -> None:
    answer = blame(root_behind_relu(slope=0.0))

    assert not answer
    assert answer.origins == ()
    assert [finding.op for finding in answer.harmless] == ["sqrt"]
    assert str(answer).splitlines() == [
        "the losses and all gradients are finite",
        "harmless, because nothing of it reaches the loss or a gradient: "
        "sqrt sent back Inf: it received 1 at 0 (element [0])",
        "  at train.py:2 in module net.root",
        "from the observed run: 3 ops of step 0",
    ]


def test_an_infinity_that_is_passed_on_is_no_harmless_one() -> None:
    answer = blame(root_behind_relu(slope=np.nan))

    assert [(origin.op, origin.spoils) for origin in answer.origins] == [("sqrt", ("the gradient of x",))]
    assert answer.harmless == ()


@pytest.mark.parametrize("is_unknown", [False, True])
def test_an_infinity_whose_way_is_not_known_is_not_called_harmless(is_unknown: bool) -> None:
    run = root_behind_relu(slope=0.0)
    root = run.gradients[1]
    if is_unknown:
        run.gradients[1] = replace(root, targets=(None,))
    else:
        del run.gradients[2]

    assert [origin.op for origin in blame(run).origins] == ["sqrt"]


def test_each_fault_spoils_only_what_it_reaches() -> None:
    made = HandMadeRun()
    x, y = made.add_tensor([0.0], "x"), made.add_tensor([0.0], "y")
    roots = [made.add_op("sqrt", [x], [0.0]), made.add_op("rsqrt", [y], [1.0])]
    made.begin_backward(made.add_op("dot", roots, 0.0))
    made.send(2, 1.0, [1.0], [1.0])
    made.send(0, [1.0], [np.inf])
    made.send(1, [1.0], [np.nan])

    assert [(origin.op, origin.spoils) for origin in blame(made.run).origins] == [
        ("sqrt", ("the gradient of x",)),
        ("rsqrt", ("the gradient of y",)),
    ]
    assert explain_run(made.run, "y").op == "rsqrt"


def test_gradients_whose_sum_overflows_are_blamed() -> None:
    made = HandMadeRun()
    x = made.add_tensor([1.0], "x")
    copy = made.add_op("neg", [x], [-1.0])
    uses = [made.add_op("mul", [copy], [1.0]), made.add_op("mul", [copy], [1.0])]
    made.begin_backward(made.add_op("dot", uses, 2.0))
    made.send(3, 1.0, [1.0], [1.0])
    made.send(1, [1.0], [1e308])
    made.send(2, [1.0], [1e308])
    made.send(0, [np.inf], [-np.inf])
    (origin,) = blame(made.run).origins

    assert origin.said == "the gradients that come back to the result of neg add up to Inf"
    assert origin.spoils == ("the gradient of x",)


def test_blame_names_the_op_that_made_the_first_infinity_of_a_nan() -> None:
    made = HandMadeRun()
    x = made.add_tensor(0.0, "x")
    log = made.add_op("log", [x], -np.inf)
    product = made.add_op("mul", [x, log], np.nan)
    made.begin_backward(product)
    (origin,) = blame(made.run).origins

    assert (origin.op, origin.spoils) == ("log", ("the loss",))
    assert origin.said == "log gave -Inf at x = 0; it turns into NaN in mul at train.py:2"


def test_blame_names_a_parameter_that_was_broken_before() -> None:
    made = HandMadeRun()
    x = made.add_tensor(np.nan, "x")
    made.begin_backward(made.add_op("sin", [x], np.nan))
    (origin,) = blame(made.run).origins

    assert origin.op == ""
    assert origin.said == "parameter x has NaN before the step begins; sin reads it"


def test_a_finite_run_has_nothing_to_blame() -> None:
    made = HandMadeRun()
    x = made.add_tensor(1.0, "x")
    made.begin_backward(made.add_op("sin", [x], math.sin(1.0)))
    made.send(0, 1.0, math.cos(1.0))

    assert not blame(made.run)
    assert str(blame(made.run)) == ("the losses and all gradients are finite\nfrom the observed run: 1 op of step 0")


def test_a_summary_is_enough_to_blame() -> None:
    run = root_at_zero()
    for held in run.list_held():
        array = held.value
        infs = int(np.isinf(array).sum())
        held.summary = TensorSummary(array.size, int((array == 0).sum()), 0, infs, 0.0, 1.0, 0.5, 0.5)
        held.value = None
    (origin,) = blame(run).origins

    assert origin.said == "sqrt sent back Inf, from a finite gradient"


def cut_run(*, reaches: bool) -> ObservedRun:
    made = HandMadeRun()
    w = made.add_tensor(2.0, "w")
    v = made.add_tensor(3.0, "v")
    hidden = made.add_op("tanh", [w], 0.9)
    detached = made.add_op("detach", [hidden], 0.9, grad=False)
    loss = made.add_op("mul", [v, detached if reaches else v], 2.7)
    made.begin_backward(loss)
    made.send(2, 1.0, 0.9)
    return made.run


@pytest.mark.parametrize(("reaches", "kind", "op"), [(True, "cut", "detach"), (False, "cut", "detach")])
def test_explain_names_the_op_that_cut_the_graph(reaches: bool, kind: str, op: str) -> None:
    answer = explain_run(cut_run(reaches=reaches), "w")

    assert (answer.kind, answer.op) == (kind, op)
    assert answer.place == Place("train.py", 2)


def test_explain_says_that_nothing_reaches_the_loss() -> None:
    made = HandMadeRun()
    w = made.add_tensor(2.0, "w")
    v = made.add_tensor(3.0, "v")
    made.add_op("tanh", [w], 0.9)
    made.begin_backward(made.add_op("sin", [v], 0.1))
    made.send(1, 1.0, 0.9)

    assert explain_run(made.run, "w").kind == "unused"
    assert explain_run(made.run, "v").kind == "value"


def test_explain_names_the_op_that_sent_zero() -> None:
    made = HandMadeRun()
    w = made.add_tensor(-2.0, "w")
    doubled = made.add_op("mul", [w], -4.0)
    rectified = made.add_op("relu", [doubled], 0.0)
    made.begin_backward(made.add_op("sum", [rectified], 0.0))
    made.send(2, 1.0, 1.0)
    made.send(1, 1.0, 0.0)
    made.send(0, 0.0, 0.0)

    answer = explain_run(made.run, "w")

    assert (answer.kind, answer.op) == ("zero", "relu")


def test_explain_of_a_frozen_parameter() -> None:
    made = HandMadeRun()
    made.add_tensor(1.0, "w", grad=False)

    assert explain_run(made.run, "w").kind == "frozen"


def test_an_unknown_name_is_refused() -> None:
    with pytest.raises(UnknownNameError, match="no tensor called 'u'"):
        explain_run(root_at_zero(), "u")


@pytest.mark.parametrize(("factor", "kind"), [(0.1, "vanishes"), (10.0, "explodes"), (1.0, "steady")])
def test_flow_finds_the_trend_of_a_chain(factor: float, kind: str) -> None:
    made = HandMadeRun()
    x = made.add_tensor([1.0, 2.0], "x")
    for layer in range(6):
        x = made.add_op("mul", [x], [1.0, 2.0], module=f"layer{layer}")
    made.begin_backward(x)
    for layer in reversed(range(6)):
        made.send(layer, np.full(2, factor ** (5 - layer)), np.full(2, factor ** (6 - layer)))

    answer = flow_run(made.run)

    assert [layer.name for layer in answer.layers] == [f"layer{k}" for k in reversed(range(6))]
    assert [finding.kind for finding in answer.findings] == [kind]
    assert str(answer).endswith("from the observed run: 6 ops of step 0")


def test_flow_finds_a_dead_rectifier_and_a_column_minus_a_row() -> None:
    made = HandMadeRun()
    column = made.add_tensor(-np.ones((4, 1)), "column")
    row = made.add_tensor(np.ones(4), "row")
    difference = made.add_op("sub", [column, row], np.full((4, 4), -2.0))
    rectified = made.add_op("relu", [difference], np.zeros((4, 4)))
    made.begin_backward(made.add_op("sum", [rectified], 0.0))

    kinds = [(finding.kind, finding.op) for finding in flow_run(made.run).findings]

    assert kinds == [("dead", "relu"), ("broadcast", "sub")]


def test_unknown_ops_are_listed_all_at_once() -> None:
    places = {"aten.a": [Place("m.py", 1)], "aten.b": [Place("m.py", 2), Place("m.py", 2), None]}
    error = UnknownOpsError("the function", places)

    assert isinstance(error, LookupError)
    assert error.ops == places
    assert str(error) == (
        "the function uses ops that wiregrad does not know:\n  aten.a at m.py:1\n  aten.b, 3 times, at m.py:2"
    )
