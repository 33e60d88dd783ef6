"""What `wg.watch` has seen as something to explore and to compare, and steps that go on in the graph of others."""

from __future__ import annotations

import urllib.request
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

import wiregrad as wg
from wiregrad.errors import InputError
from wiregrad.exchange.observed_run import write_name

from ..support.limits import PATIENCE
from .torch_models import MODELS, make_step
from .torch_programs import forum_programs
from .torch_programs.registry import BrokenProgram, check_answer


@pytest.mark.filterwarnings("ignore:std..:UserWarning")
@pytest.mark.parametrize("program", forum_programs.PROGRAMS, ids=lambda program: program.name)
def test_a_question_of_a_forum_is_answered(program: BrokenProgram) -> None:
    check_answer(program)


def watch_model(name: str, *, is_cast: bool = False) -> tuple[Any, nn.Module]:
    model, batch = make_step(name)
    with wg.watch(model, keep="all") as seen:
        with torch.autocast("cpu", torch.bfloat16, enabled=is_cast):
            loss = model(*batch)
        loss.backward()
    return seen, model


@pytest.fixture(scope="module", params=[(name, cast) for name in MODELS for cast in (False, True)], ids=str)
def watched_model(request: pytest.FixtureRequest) -> tuple[Any, nn.Module]:
    name, is_cast = request.param
    return watch_model(name, is_cast=is_cast)


def test_whole_models_are_not_accused(watched_model: tuple[Any, nn.Module]) -> None:
    seen, _ = watched_model
    check = seen.check_backward()

    assert check.ok, str(check)
    assert check.checked >= 15
    assert not seen.blame()


def test_the_observed_run_has_the_very_gradients_of_pytorch(watched_model: tuple[Any, nn.Module]) -> None:
    seen, model = watched_model
    gradients = seen.as_run().grads

    for name, parameter in model.named_parameters():
        np.testing.assert_array_equal(gradients[write_name(name)], parameter.grad.numpy(), name)


def test_modules_are_groups_of_both_layers(watched_model: tuple[Any, nn.Module]) -> None:
    seen, model = watched_model
    outer = {write_name(name) for name, module in model.named_children() if list(module.parameters())}
    outer = {name for name in outer if not isinstance(getattr(model, name), nn.ModuleList)}

    for run in (seen.as_run(), seen.circuit().run()):
        groups = {node.group.partition("/")[0] for node in run.circuit.nodes if node.group}
        assert outer <= groups
        assert run.to_html().startswith("<!doctype html>")


def train_against_each_other(
    steps: int = 2, *, scale: float = 1.0, optimizer: Callable[..., Any] = torch.optim.Adam
) -> tuple[Any, nn.ModuleDict]:
    """Train a generator against a critic, as in PyTorch's tutorial: three backward passes and two updates a step."""
    torch.manual_seed(0)
    model = nn.ModuleDict(
        {
            "generator": nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.ReLU(), nn.Linear(4, 2)),
            "critic": nn.Sequential(nn.Linear(2, 4), nn.BatchNorm1d(4), nn.Sigmoid(), nn.Linear(4, 1)),
        }
    )
    update_critic = optimizer(model["critic"].parameters(), lr=0.1)
    update_generator = optimizer(model["generator"].parameters(), lr=0.1)
    with wg.watch(model) as seen:
        for _ in range(steps):
            update_critic.zero_grad()
            real_loss = functional.softplus(-model["critic"](torch.randn(5, 2))).mean()
            real_loss.backward()
            fake = (
                (model["generator"](torch.randn(5, 3)) * scale).sqrt()
                if scale != 1.0
                else model["generator"](torch.randn(5, 3))
            )
            fake_loss = functional.softplus(model["critic"](fake.detach())).mean()
            fake_loss.backward()
            update_critic.step()
            real_loss.item()
            fake_loss.item()
            update_generator.zero_grad()
            update_critic.zero_grad()
            functional.softplus(-model["critic"](fake)).mean().backward()
            update_generator.step()
    return seen, model


def list_gradients(model: nn.Module) -> Iterator[tuple[str, Any]]:
    for name, parameter in model.named_parameters():
        yield name, parameter.grad.numpy()


@pytest.mark.parametrize("optimizer", [torch.optim.Adam, torch.optim.SGD])
def test_a_loss_behind_an_update_has_the_graph_of_before(optimizer: Callable[..., Any]) -> None:
    seen, model = train_against_each_other(optimizer=optimizer)
    observed = seen.as_run().grads
    circuit = seen.circuit()
    explained = circuit.run().grads

    assert set(circuit.inputs) == {write_name(name) for name, _ in model.named_parameters()}
    for name, gradient in list_gradients(model):
        np.testing.assert_array_equal(observed[write_name(name)], gradient, name)
        np.testing.assert_allclose(explained[write_name(name)], gradient, rtol=1e-3, atol=1e-6)
        # Batch norm takes the mean out, and with it what a bias before it adds.
        is_taken_out = name in ("generator.0.bias", "generator.3.bias", "critic.0.bias")
        assert seen.explain(name).kind == ("cancelling" if is_taken_out else "value")


def test_a_graph_of_before_is_checked_and_measured() -> None:
    seen, _ = train_against_each_other()
    layers = [layer.name for layer in seen.flow().layers]

    assert seen.check_backward().ok
    assert layers.index("critic.0") < layers.index("generator.3") < layers.index("generator.0")
    assert [finding.kind for finding in seen.flow().findings] == ["steady"]


def test_a_gradient_that_breaks_in_the_graph_of_before_ends_the_recording() -> None:
    seen, _ = train_against_each_other(scale=0.0)
    origin = seen.blame().origins[0]

    assert seen.steps_seen == 3
    assert origin.op == "sqrt"
    assert "the gradient of generator.0.weight" in origin.spoils


@pytest.mark.parametrize("foreach", [False, True])
@pytest.mark.parametrize("kind", [torch.optim.SGD, torch.optim.AdamW, torch.optim.RMSprop])
def test_an_update_before_the_backward_pass_is_named(kind: Callable[..., Any], foreach: bool) -> None:
    model = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1))
    optimizer = kind(model.parameters(), foreach=foreach)
    x = torch.ones(2, 3)
    seen = wg.watch(model)

    def train() -> None:
        later = model(x).square().sum()
        model(x).sum().backward()
        optimizer.step()
        later.backward()

    with pytest.raises(RuntimeError, match="inplace"), seen:
        train()
    origin = seen.blame().origins[0]
    first = train.__code__.co_firstlineno

    assert (origin.op, origin.module, origin.place.line - first) == ("addmm", "2", 1)
    assert origin.second.line - first == 3
    assert f"{kind.__name__}.step" in origin.said
    assert "before the optimizer's step" in origin.suggestion


@pytest.mark.parametrize("options", [{"foreach": False}, {"foreach": True}, {"fused": True}], ids=str)
@pytest.mark.parametrize("kind", [torch.optim.SGD, torch.optim.AdamW])
def test_writes_are_counted_as_they_are_without_a_watch(kind: Callable[..., Any], options: dict[str, bool]) -> None:
    counts = []
    for is_watched in (False, True):
        torch.manual_seed(0)
        model = nn.Linear(3, 2)
        optimizer = kind(model.parameters(), **options)
        with wg.watch(model) if is_watched else nullcontext():
            for _ in range(2):
                optimizer.zero_grad(set_to_none=False)
                model(torch.ones(4, 3)).sum().backward()
                optimizer.step()
        states = [part for state in optimizer.state.values() for part in state.values() if isinstance(part, Tensor)]
        counts.append([tensor._version for tensor in (*model.parameters(), *states)])

    assert counts[0] == counts[1]


def train_in_half_precision(steps: int, slope: float = 1.0) -> Any:
    """Train with a gradient scaler, whose first scale is too large for float16."""
    torch.manual_seed(0)
    model = nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**20)
    with wg.watch(model) as seen:
        for _ in range(steps):
            optimizer.zero_grad()
            with torch.autocast("cpu", dtype=torch.float16):
                loss = (model(torch.ones(2, 4)) * slope).float().square().mean()
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
    return seen


def test_steps_that_a_gradient_scaler_skips_do_not_end_the_recording() -> None:
    assert "a gradient scaler skips such a step" in str(train_in_half_precision(1).blame())
    assert not train_in_half_precision(12).blame()


def test_gradients_that_no_scale_mends_are_blamed() -> None:
    seen = train_in_half_precision(60, slope=torch.inf)

    assert seen.steps_seen <= 55
    assert seen.blame().origins[0].op == "mul"


def test_a_write_of_another_step_is_named() -> None:
    x = torch.ones(3, requires_grad=True)
    seen = wg.watch()

    def train() -> None:
        y = x.exp()
        later = y * y
        x.sum().backward()
        y.mul_(2.0)
        later.sum().backward()

    with pytest.raises(RuntimeError, match="inplace"), seen:
        train()
    origin = seen.blame().origins[0]
    first = train.__code__.co_firstlineno

    assert (origin.op, origin.place.line - first, origin.second.line - first) == ("mul", 2, 4)


def test_an_error_that_is_not_explained_is_shown() -> None:
    seen = wg.watch()

    def train() -> None:
        torch.ones(2, requires_grad=True).sum().backward()
        torch.ones(2) @ torch.ones(3)

    with pytest.raises(RuntimeError), seen:
        train()

    assert "finite\nthe program ended with RuntimeError: inconsistent tensor size" in str(seen.blame())


CUTS: dict[str, tuple[Callable[[Tensor], Tensor], str, str]] = {
    "detach before argmax": (lambda w: (w * w.argmax()).detach().sum(), "detach", "argmax"),
    "argmax before detach": (
        lambda w: torch.eye(3)[w.argmax(0, keepdim=True)].sum() + w.detach().sum(),
        "detach",
        "argmax",
    ),
    "round by a condition": (lambda w: torch.where(w > 0, torch.ones(3), w.detach()).sum(), "detach", "gt"),
    "number and index": (lambda w: torch.eye(3)[w.argmin(0, keepdim=True)].sum() * w.sum().item(), "argmin", ""),
}


@pytest.mark.parametrize("name", CUTS)
def test_a_cut_that_the_user_wrote_comes_before_ops_without_a_derivative(name: str) -> None:
    program, op, other = CUTS[name]
    w = torch.tensor([1.0, 2.0, 0.5], requires_grad=True)
    with wg.watch() as seen:
        (program(w) + torch.ones((), requires_grad=True)).backward()
    found = seen.explain("w")

    assert (found.kind, found.op) == ("cut", op)
    assert (f"other ways to the loss end in {other} (" in found.said) == bool(other)


@pytest.mark.parametrize("mask", [[True, False], [False, False]])
def test_nan_is_described_where_it_is_although_infinities_come_before_it(mask: list[bool]) -> None:
    scores = torch.zeros(2, 2, requires_grad=True)
    hidden = torch.tensor([mask, [True, True]])
    with wg.watch() as seen:
        masked = scores.masked_fill(hidden, -torch.inf)
        (masked - masked.max(-1, keepdim=True).values).exp().sum().backward()
    origin = seen.blame().origins[0]

    assert "sub gave NaN at -Inf and -Inf (element [1, 0] and 1 more)" in origin.said


def test_an_infinity_that_reaches_the_loss_is_not_meant() -> None:
    scores = torch.zeros(2, 3, requires_grad=True)
    hidden = torch.tensor([[False, True, False], [False, False, False]])
    with wg.watch() as seen:
        masked = scores.masked_fill(hidden, -torch.inf)
        functional.cross_entropy(masked, torch.tensor([1, 0])).backward()
    origin = seen.blame().origins[0]

    assert (origin.op, origin.call) == ("masked_fill", "scores.masked_fill(hidden, -torch.inf)")


def square_root(x: Tensor) -> Tensor:
    return torch.where(x > 0, x.sqrt(), 0.0).sum()


@pytest.fixture
def blocked() -> Any:
    x = torch.tensor([0.0, 4.0], requires_grad=True)
    with wg.watch() as seen:
        square_root(x).backward()
    return seen


@pytest.mark.parametrize(
    ("ask", "layer"),
    [
        (lambda seen: seen.blame(), "observed run"),
        (lambda seen: seen.explain("x"), "observed run"),
        (lambda seen: seen.flow(), "observed run"),
        (lambda seen: seen.check_backward(), "observed run"),
        (lambda seen: seen.kinks(), "circuit"),
        (lambda seen: seen.rounding(), "circuit"),
        (lambda seen: seen.paths("x"), "circuit"),
        (lambda seen: seen.as_run().paths("x"), "observed run"),
        (lambda seen: seen.as_run().explain("x"), "observed run"),
        (lambda seen: seen.circuit().run().blame(), "circuit"),
        (lambda seen: wg.diff(seen, seen.circuit().run()), "observed run and the circuit"),
    ],
)
def test_every_answer_says_which_layer_it_was_read_off(blocked: Any, ask: Callable[[Any], Any], layer: str) -> None:
    assert str(ask(blocked)).splitlines()[-1].startswith(f"from the {layer}")


def test_layers_differ_where_rules_do(blocked: Any) -> None:
    found = wg.diff(blocked, blocked.circuit().run())

    assert np.isnan(blocked.as_run().grads["x"][0])
    assert blocked.circuit().run().grads["x"].tolist() == [0.0, 0.25]
    assert (found.kind, found.one) == ("gradient", "x")


@pytest.mark.parametrize("question", ["kinks", "rounding"])
def test_what_needs_rules_is_refused_by_the_observed_run(blocked: Any, question: str) -> None:
    with pytest.raises(InputError, match=rf"ask seen\.{question}\(\), which uses the circuit"):
        getattr(blocked.as_run(), question)()


def test_an_observed_run_cannot_be_run_elsewhere(blocked: Any) -> None:
    with pytest.raises(InputError, match=r"seen\.circuit\(\) can be run at other points"):
        blocked.as_run().circuit(x=[1.0, 2.0])


@pytest.mark.parametrize("layer", ["observed", "circuit"])
def test_both_layers_open_in_the_explorer(blocked: Any, layer: str) -> None:
    session = blocked.explore(layer=layer, browser=False, wait=False)
    try:
        opener = urllib.request.build_opener(urllib.request.HTTPCookieProcessor())
        with opener.open(session.url, timeout=PATIENCE) as page:
            text = page.read().decode()
    finally:
        session.stop()

    assert "<title>" in text


def test_an_unknown_layer_is_refused(blocked: Any) -> None:
    with pytest.raises(InputError, match="'observed' or 'circuit'; got 'both'"):
        blocked.explore(layer="both")


def test_values_that_were_not_kept_are_not_drawn() -> None:
    with wg.watch(keep="summaries") as seen:
        torch.ones(3, requires_grad=True).sum().backward()

    with pytest.raises(InputError, match="keep='all'"):
        seen.as_run()


class Halve(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return (x + x) / 4

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Tensor:
        return g / 2


def write_views(x: Tensor) -> Tensor:
    y = x.clone()
    y[0].mul_(2.0)
    y.view(-1)[2:] += x[0]
    return (y * y).sum()


PROGRAMS: dict[str, Callable[[Tensor], Tensor]] = {
    "custom function": lambda x: (Halve.apply(x) * x).sum(),
    "one tensor read twice": lambda x: (x * x).sum() + x.sum(),
    "several results": lambda x: sum(part.prod() for part in x.split(1)),  # type: ignore[misc, return-value]
    "values and indices": lambda x: x.max(0).values.sum() * x.argmax(),
    "writes to views": write_views,
    "detached part": lambda x: (x * x.detach()).sum(),
    "second derivative": lambda x: torch.autograd.grad((x**3).sum(), x, create_graph=True)[0].square().sum(),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_observed_run_of_a_program_has_its_gradient(name: str) -> None:
    x = torch.tensor([[1.0, -2.0], [0.5, 3.0]], requires_grad=True)
    with wg.watch() as seen:
        loss = PROGRAMS[name](x)
        loss.backward()
    run = seen.as_run()

    assert run.output == pytest.approx(loss.item())
    np.testing.assert_array_equal(run.grads["x"], x.grad.numpy())


def test_a_watched_jax_function_is_drawn_and_compared() -> None:
    seen = wg.watch(lambda x: jnp.sum(jnp.where(x > 0, jnp.sqrt(x), 0.0)), jnp.array([0.0, 4.0]))
    run = seen.as_run()

    assert np.isnan(run.grads["x"][0])
    assert str(seen.kinks()).splitlines()[-1].startswith("from the circuit")
    assert not wg.diff(seen, seen)


def test_two_frameworks_are_compared_by_their_own_numbers() -> None:
    x = torch.tensor([0.5, -1.0], requires_grad=True)
    with wg.watch() as seen:
        functional.gelu(x).square().sum().backward()

    def smooth(x: Any) -> Any:
        return jnp.sum((x * 0.5 * (1.0 + jnp.tanh(0.7978845608 * (x + 0.044715 * x**3)))) ** 2)

    found = wg.diff(seen, wg.watch(smooth, jnp.array([0.5, -1.0])), rtol=1e-5)

    assert found.kind == "value"
    assert str(found).splitlines()[-1] == "from the observed run and the observed run"
