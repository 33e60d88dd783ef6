"""Faults of training loops, as people write them, are named by a watch around the loop."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import wiregrad as wg


def watch_until_error(program: Callable[[], object], model: nn.Module | None = None) -> Any:
    """Watch a program that ends with an error of autograd."""
    seen = wg.watch(model)
    with pytest.raises(RuntimeError), seen:
        program()
    return seen


def line_of(program: Callable[..., object], offset: int) -> int:
    return program.__code__.co_firstlineno + offset


def test_a_hidden_state_that_is_carried_over_steps_is_named() -> None:
    cell = nn.GRUCell(4, 4)
    optimizer = torch.optim.SGD(cell.parameters(), lr=0.1)
    x = torch.ones(2, 4)

    def train() -> None:
        hidden = torch.zeros(2, 4)
        for _ in range(2):
            optimizer.zero_grad()
            hidden = cell(x, hidden)
            hidden.sum().backward()
            optimizer.step()

    (origin,) = watch_until_error(train, cell).blame().origins

    assert origin.place.line == line_of(train, 4)
    assert "reads hidden, which an earlier step computed" in origin.said
    assert origin.suggestion == "end the graph between the steps: hidden = hidden.detach()"


def test_a_detached_hidden_state_is_no_fault() -> None:
    cell = nn.GRUCell(4, 4)
    with wg.watch(cell) as seen:
        hidden = torch.zeros(2, 4)
        for _ in range(3):
            hidden = cell(torch.ones(2, 4), hidden.detach())
            hidden.sum().backward()

    assert not seen.blame()


def test_a_second_backward_pass_through_one_loss_is_named() -> None:
    model = nn.Linear(4, 1)

    def train() -> None:
        loss = model(torch.ones(2, 4)).square().sum()
        loss.backward()
        loss.backward()

    (origin,) = watch_until_error(train, model).blame().origins

    assert origin.place.line == line_of(train, 1)
    assert "retain_graph=True" in origin.suggestion


LOSSES_WITHOUT_A_GRAPH: dict[str, tuple[Callable[[Tensor], Tensor], str]] = {
    "detached": (lambda y: y.detach().sum(), "it was detached from the graph"),
    "through NumPy": (lambda y: torch.tensor(y.detach().numpy()).sum(), "it was detached from the graph"),
    "a number": (lambda y: torch.tensor(y.sum().item()), "turned it into a Python number"),
    "a condition": (lambda y: (y > 0).float().mean(), "gt has no derivative"),
    "an index": (lambda y: y.argmax(0).float().mean(), "argmax has no derivative"),
}


@pytest.mark.parametrize("name", LOSSES_WITHOUT_A_GRAPH)
def test_a_loss_without_a_graph_says_where_it_was_cut_off(name: str) -> None:
    loss, reason = LOSSES_WITHOUT_A_GRAPH[name]
    model = nn.Linear(4, 1)
    seen = watch_until_error(lambda: loss(model(torch.ones(2, 4))).backward(), model)
    (origin,) = seen.blame().origins

    assert origin.said.startswith("the loss has no graph")
    assert reason in origin.said
    assert reason in seen.explain("weight").said


def test_a_model_whose_parameters_are_all_frozen_is_told() -> None:
    model = nn.Linear(4, 1).requires_grad_(False)
    seen = watch_until_error(lambda: model(torch.ones(2, 4)).sum().backward(), model)

    assert "all parameters have requires_grad=False" in str(seen.blame())


def train(model: nn.Module, reset: Callable[[torch.optim.Optimizer], object], steps: int = 3) -> Any:
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    with wg.watch(model) as seen:
        for _ in range(steps):
            reset(optimizer)
            model(torch.ones(2, 4)).square().sum().backward()
            optimizer.step()
    return seen


def test_gradients_that_nobody_resets_are_told() -> None:
    seen = train(nn.Linear(4, 1), lambda _: None)

    assert "the gradients of weight and bias were not reset after an optimizer's step" in str(seen.blame())
    assert not seen.blame()
    assert [finding.kind for finding in seen.flow().findings] == ["accumulates"]
    assert "call optimizer.zero_grad()" in str(seen.explain("weight"))


RESETS: dict[str, Callable[[torch.optim.Optimizer], object]] = {
    "to None": lambda optimizer: optimizer.zero_grad(),
    "to 0": lambda optimizer: optimizer.zero_grad(set_to_none=False),
}


@pytest.mark.parametrize("name", RESETS)
def test_gradients_that_are_reset_are_not_accused(name: str) -> None:
    seen = train(nn.Linear(4, 1), RESETS[name])

    assert "zero_grad" not in str(seen.blame())
    assert not seen.flow().findings


def test_gradients_of_several_batches_may_be_added_up_before_a_step() -> None:
    model = nn.Linear(4, 1)
    optimizer = torch.optim.Adam(model.parameters())
    with wg.watch(model) as seen:
        for _ in range(3):
            for _ in range(2):
                model(torch.ones(2, 4)).sum().backward()
            optimizer.step()
            optimizer.zero_grad()

    assert "zero_grad" not in str(seen.blame())


@pytest.mark.parametrize("set_to_none", [True, False])
def test_gradients_of_the_other_network_are_reset_in_time(set_to_none: bool) -> None:
    """The generator's loss adds to the gradients of the critic, which are reset before the critic's next step."""
    generator, critic = nn.Linear(3, 4), nn.Linear(4, 1)
    update_critic = torch.optim.SGD(critic.parameters(), lr=0.01)
    update_generator = torch.optim.SGD(generator.parameters(), lr=0.01)
    with wg.watch(nn.ModuleList([generator, critic])) as seen:
        for _ in range(3):
            update_critic.zero_grad(set_to_none=set_to_none)
            fake = generator(torch.ones(2, 3))
            critic(fake.detach()).sum().backward()
            update_critic.step()
            update_generator.zero_grad(set_to_none=set_to_none)
            critic(fake).sum().backward()
            update_generator.step()

    assert [run.accumulated for run in seen.steps] == [[]] * len(seen.steps)


@pytest.mark.parametrize("keep", ["auto", 3000])
def test_a_validation_under_no_grad_leaves_the_last_training_step_to_ask_about(keep: Any) -> None:
    model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    x = torch.ones(64, 4)
    with wg.watch(model, keep=keep) as seen:
        for _ in range(3):
            for _ in range(2):
                optimizer.zero_grad()
                model(x).square().mean().backward()
                optimizer.step()
            with torch.no_grad():
                model(x).square().mean().item()

    assert seen.explain("0.weight").kind == "value"
    assert len(seen.steps) <= 4
    assert "gradients are finite" in str(seen.blame())


class Recurrent(nn.Module):
    """A network whose state grows with each step of time."""

    def __init__(self) -> None:
        super().__init__()
        self.cell = nn.Linear(11, 8)
        nn.init.constant_(self.cell.weight, 4.0)

    def forward(self, x: Tensor) -> Tensor:
        hidden = torch.zeros(x.shape[0], 8)
        for t in range(x.shape[1]):
            hidden = torch.relu(self.cell(torch.cat([hidden, x[:, t]], 1)))
        return hidden.sum()


def test_an_exploding_recurrence_is_named_behind_the_op_that_overflows() -> None:
    model = Recurrent()
    with wg.watch(model) as seen:
        model(torch.ones(2, 20, 3)).square().backward()
    origin = seen.blame().origins[0]

    assert origin.op == "pow"
    assert "the numbers grew on the way" in origin.said
    assert f"times in addmm at {__file__}" in origin.said
    assert "in 20 calls" in origin.said


def test_a_parameter_that_is_large_already_is_named() -> None:
    model = nn.Linear(4, 1)
    nn.init.constant_(model.weight, 1e25)
    with wg.watch(model) as seen:
        model(torch.ones(2, 4)).square().sum().backward()

    assert "parameter weight already has numbers up to 1e25" in seen.blame().origins[0].said


@pytest.mark.parametrize("broken", [0, 1, 5], ids="breaks in step {}".format)
def test_a_step_that_broke_keeps_its_numbers_while_the_program_goes_on(broken: int) -> None:
    model = nn.Linear(3, 1)
    nn.init.ones_(model.weight)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    with wg.watch(model) as seen:
        for step in range(broken + 3):
            optimizer.zero_grad()
            x = torch.full((2, 3), 3e38 if step == broken else 1.0)
            model(x).square().mean().backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()

    assert str(seen.blame()).startswith("addmm gave Inf")
    assert not seen.check_backward().findings
