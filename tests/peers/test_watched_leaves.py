"""`wg.watch` knows the parameters and other leaves of autograd's graph that the watched program makes or writes."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import wiregrad as wg

from ..support.limits import PATIENCE

Step = Callable[[], None]


def make_sequential() -> Step:
    model = nn.Sequential(nn.Linear(2, 3), nn.Tanh(), nn.Linear(3, 1))
    return lambda: model(torch.ones(4, 2)).sum().backward()


def make_linear() -> Step:
    layer = nn.Linear(2, 3)
    return lambda: layer(torch.ones(4, 2)).square().sum().backward()


class Scaled(nn.Module):
    """A module with a parameter of its own, one that is cut from the graph and one that is not used."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(2, 2)
        self.scale = nn.Parameter(torch.empty(2))
        self.cut = nn.Parameter(torch.empty(2))
        self.unused = nn.Parameter(torch.empty(2))
        for parameter in (self.scale, self.cut, self.unused):
            nn.init.normal_(parameter)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y: torch.Tensor = self.inner(x) * self.scale + self.cut.detach()
        return y


def make_own_module() -> Step:
    model = Scaled()
    return lambda: model(torch.ones(4, 2)).square().sum().backward()


def make_written_through_data() -> Step:
    layer = nn.Linear(2, 3)
    layer.weight.data.normal_(0.0, 0.02)
    layer.bias.data.zero_()
    return lambda: layer(torch.ones(4, 2)).square().sum().backward()


def make_frozen_weight() -> Step:
    layer = nn.Linear(2, 3)
    layer.weight.requires_grad_(False)
    return lambda: layer(torch.ones(4, 2)).square().sum().backward()


def make_tied() -> Step:
    model = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))
    model[1].weight = model[0].weight
    return lambda: model(torch.ones(4, 2)).sum().backward()


def make_normalized() -> Step:
    model = nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2))
    return lambda: model(torch.arange(6.0).reshape(3, 2) ** 2).pow(3).sum().backward()


def make_parameter() -> Step:
    w = nn.Parameter(torch.ones(3))
    return lambda: w.square().sum().backward()


def make_drawn_parameter() -> Step:
    w = nn.Parameter(torch.empty(3))
    nn.init.normal_(w)
    return lambda: w.square().sum().backward()


def make_parameter_of_written_tensor() -> Step:
    w = nn.Parameter(torch.empty(3).fill_(2.0))
    return lambda: w.square().sum().backward()


def make_tensor_of_numbers() -> Step:
    w = torch.tensor([1.0, 2.0], requires_grad=True)
    return lambda: w.square().sum().backward()


def make_read_before_the_module_runs() -> Step:
    layer = nn.Linear(2, 3)

    def step() -> None:
        layer.weight.norm().item()
        layer(torch.ones(4, 2)).sum().backward()

    return step


def make_descent_by_hand() -> Step:
    layer = nn.Linear(2, 1)

    def step() -> None:
        for _ in range(3):
            layer.zero_grad()
            layer(torch.ones(4, 2)).square().sum().backward()
            with torch.no_grad():
                for parameter in layer.parameters():
                    parameter.sub_(0.01 * parameter.grad)

    return step


PROGRAMS = {
    "sequential": (make_sequential, ("Sequential.0.weight", "Sequential.0.bias", "Sequential.2.weight")),
    "linear": (make_linear, ("Linear.weight", "Linear.bias")),
    "own module": (make_own_module, ("Scaled.inner.weight", "Scaled.scale", "Scaled.cut", "Scaled.unused")),
    "written through data": (make_written_through_data, ("Linear.weight", "Linear.bias")),
    "frozen weight": (make_frozen_weight, ("Linear.weight", "Linear.bias")),
    "tied": (make_tied, ("Sequential.0.weight", "Sequential.1.bias")),
    "normalized": (make_normalized, ("Sequential.0.weight", "Sequential.1.weight")),
    "parameter": (make_parameter, ("w",)),
    "drawn parameter": (make_drawn_parameter, ("w",)),
    "parameter of a written tensor": (make_parameter_of_written_tensor, ("w",)),
    "tensor of numbers": (make_tensor_of_numbers, ("w",)),
    "read before the module runs": (make_read_before_the_module_runs, ("Linear.weight",)),
    "descent by hand": (make_descent_by_hand, ("Linear.weight", "Linear.bias")),
}


def watch_step(make: Callable[[], Step], *, inside: bool) -> Any:
    """Watch a step of a program whose parameters are made inside of the block, or before it."""
    torch.manual_seed(0)
    step = None if inside else make()
    with wg.watch() as seen:
        step = step or make()
        step()
    return seen


@pytest.mark.parametrize("name", PROGRAMS)
def test_parameters_made_inside_are_explained_like_those_made_before(name: str) -> None:
    make, names = PROGRAMS[name]
    inside = watch_step(make, inside=True)
    before = watch_step(make, inside=False)

    assert [str(inside.explain(each).finding) for each in names] == [
        str(before.explain(each).finding) for each in names
    ]


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_flow_is_the_same_where_parameters_are_made_inside(name: str) -> None:
    make, _ = PROGRAMS[name]
    inside = watch_step(make, inside=True).flow()
    before = watch_step(make, inside=False).flow()

    assert [str(finding) for finding in inside.findings] == [str(finding) for finding in before.findings]
    assert inside.layers == before.layers


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_circuit_begins_at_parameters_made_inside(name: str) -> None:
    make, _ = PROGRAMS[name]
    inside = watch_step(make, inside=True)
    before = watch_step(make, inside=False)

    assert list(inside.circuit().run().grads) == list(before.circuit().run().grads)
    assert list(inside.as_run().grads) == list(before.as_run().grads)
    assert inside.check_backward().ok


@pytest.mark.parametrize(
    ("name", "kind"),
    [("Scaled.inner.weight", "value"), ("Scaled.scale", "value"), ("Scaled.cut", "cut"), ("Scaled.unused", "unused")],
)
def test_the_gradient_of_each_parameter_made_inside_is_told_apart(name: str, kind: str) -> None:
    assert watch_step(make_own_module, inside=True).explain(name).kind == kind


@pytest.mark.parametrize("inside", [False, True])
def test_a_parameter_that_is_updated_by_hand_keeps_its_name_and_gradient(inside: bool) -> None:
    seen = watch_step(make_descent_by_hand, inside=inside)

    assert [run.backwards for run in seen.steps] == [1, 1, 1, 0]
    assert seen.explain("Linear.weight").kind == "value"
    assert not seen.flow().findings


def test_a_copy_of_a_parameter_that_is_a_leaf_is_not_taken_for_the_parameter() -> None:
    with wg.watch() as seen:
        layer = nn.Linear(2, 2)
        layer(torch.ones(1, 2))
        copy = layer.weight.detach().requires_grad_()
        copy.square().sum().backward()

    assert seen.explain("Linear.weight").kind == "unused"
    assert copy.grad is not None


def test_a_view_made_without_a_graph_is_not_taken_for_a_leaf() -> None:
    """PyTorch calls it a leaf that requires a gradient, because its base does."""
    with wg.watch() as seen:
        layer = nn.Linear(2, 2)
        with torch.no_grad():
            features = layer(torch.ones(1, 2))
        nn.Bilinear(2, 2, 1)(features, features).sum().backward()

    assert "addmm ran without recording a graph" in seen.explain("Linear.weight").said


def test_a_parameter_made_in_a_step_may_be_read_first_by_the_next_one() -> None:
    """The second backward pass goes on in the graph of the first step, so that the steps are joined."""
    with wg.watch() as seen:
        generator = nn.Linear(2, 2)
        first = nn.Linear(2, 1)
        second = nn.Bilinear(2, 2, 1)
        fake = generator(torch.ones(3, 2))
        first(fake.detach()).sum().backward()
        second(fake, fake).sum().backward()

    assert seen.run.step == 1
    assert seen.explain("Bilinear.weight").kind == "value"
    assert "unused" not in [finding.kind for finding in seen.flow().findings]


def divide_parameter() -> Step:
    w = nn.Parameter(torch.zeros(2))
    with torch.no_grad():
        w.div_(0.0)
    return lambda: w.square().sum().backward()


def wrap_root() -> Step:
    w = nn.Parameter(torch.full((2,), -1.0).sqrt())
    return lambda: w.square().sum().backward()


@pytest.mark.parametrize(("make", "op"), [(divide_parameter, "div_"), (wrap_root, "sqrt")])
def test_the_op_that_gave_a_parameter_its_broken_value_is_blamed(make: Callable[[], Step], op: str) -> None:
    (origin,) = watch_step(make, inside=True).blame().origins

    assert origin.op == op


@pytest.mark.parametrize("steps", [1, 3])
@pytest.mark.parametrize("updates", [False, True])
@pytest.mark.parametrize("inside", [False, True])
def test_recording_ends_at_the_step_whose_gradient_of_a_parameter_breaks(
    inside: bool, updates: bool, steps: int
) -> None:
    def make() -> Step:
        layer = nn.Linear(2, 3, bias=False)
        optimizer = torch.optim.SGD(layer.parameters(), lr=0.1)

        def train() -> None:
            for _ in range(steps):
                optimizer.zero_grad()
                layer(torch.tensor([[1.0, 2.0], [0.0, 0.0]])).square().sum(1).sqrt().mean().backward()
                if updates:
                    optimizer.step()

        return train

    seen = watch_step(make, inside=inside)
    (origin,) = seen.blame().origins

    assert [run.step for run in seen.steps] == [0]
    assert (origin.op, origin.spoils) == ("sqrt", ("the gradient of Linear.weight",))


SCRIPT = """
import sys
import torch

torch.manual_seed(0)
layer = torch.nn.Linear(2, 3, bias=False)
x = torch.tensor([[1.0, 2.0], [0.0, 0.0]])
optimizer = torch.optim.SGD(layer.parameters(), lr=0.1)
for step in range(int(sys.argv[1])):
    loss = (layer(x) ** 2).sum(1).sqrt().mean()
    optimizer.zero_grad()
    loss.backward()
    if "update" in sys.argv:
        optimizer.step()
"""


@pytest.mark.parametrize("arguments", [["1"], ["1", "update"], ["3"], ["3", "update"]], ids="-".join)
def test_the_command_blames_the_first_step_of_a_script_that_makes_its_model(
    tmp_path: Path, arguments: list[str]
) -> None:
    script = tmp_path / "train.py"
    script.write_text(SCRIPT)
    command = [sys.executable, "-m", "wiregrad", "blame", "--json", str(script), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False)
    answer = json.loads(done.stdout)["answer"]

    assert done.returncode == 1, done.stderr
    assert [(origin["op"], origin["place"]) for origin in answer["origins"]] == [("sqrt", f"{script}:10")]
    assert [origin["spoils"] for origin in answer["origins"]] == [["the gradient of Linear.weight"]]
    assert answer["source"].endswith("of step 0")


@pytest.mark.parametrize("inside", [False, True])
def test_a_function_that_writes_to_its_argument_is_a_circuit_from_that_argument(inside: bool) -> None:
    """In `wg.from_torch`, what a function writes past autograd is computed from its arguments."""

    def clamp(x: torch.Tensor) -> torch.Tensor:
        if inside:
            with torch.no_grad():
                x.clamp_(min=0.0)
        return (x * torch.ones(2)).sum()

    circuit = wg.from_torch(clamp, torch.tensor([-1.0, 2.0]))

    assert list(circuit.run().grads) == ["x"]
    assert circuit(x=[-3.0, 4.0]) == (4.0 if inside else 1.0)


def write_an_element(parameter: Any) -> None:
    with torch.no_grad():
        parameter[0] = 2.0


def write_a_view(parameter: Any) -> None:
    with torch.no_grad():
        parameter[1:].fill_(3.0)
        parameter[0].mul_(2.0)


@pytest.mark.parametrize("write", [write_an_element, write_a_view])
@pytest.mark.parametrize("inside", [False, True])
def test_parts_of_a_parameter_may_be_written_without_gradients(write: Any, inside: bool) -> None:
    before = torch.nn.Parameter(torch.ones(3))
    with wg.watch() as seen:
        parameter = torch.nn.Parameter(torch.ones(3)) if inside else before
        write(parameter)
        (parameter**2).sum().backward()

    assert torch.equal(parameter.grad, 2.0 * parameter.detach())
    assert str(seen.flow())


def test_an_embedding_with_padding_may_be_made_inside() -> None:
    with wg.watch() as seen:
        embedding = torch.nn.Embedding(4, 2, padding_idx=0)
        embedding(torch.tensor([1, 2, 0])).sum().backward()

    assert torch.equal(embedding.weight.grad, torch.tensor([[0.0, 0.0], [1.0, 1.0], [1.0, 1.0], [0.0, 0.0]]))
    assert str(seen.explain("Embedding.weight")).startswith("the gradient of Embedding.weight has rms 0.7071")
