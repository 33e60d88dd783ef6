"""Faults of a training are named by their cause, and healthy trainings are not accused of any."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch

import wiregrad as wg

nn = torch.nn
F = torch.nn.functional

Program = Callable[[], Any]
TRAINING_KINDS = {"rises", "settings", "direction", "overshoots", "idle", "left out", "lost", "mode", "sign", "twice"}
ACCUSATIONS = {*TRAINING_KINDS, "unused", "cut", "explodes"}
FAULTS: dict[str, tuple[Program, tuple[str, ...]]] = {}
HEALTHY: dict[str, Program] = {}


def faulty(*words: str) -> Callable[[Program], Program]:
    """Register a training that goes wrong, and what the answer must say."""

    def register(program: Program) -> Program:
        FAULTS[program.__name__] = program, words
        return program

    return register


def healthy(program: Program) -> Program:
    """Register a training of which nothing may be said."""
    HEALTHY[program.__name__] = program
    return program


def make_data() -> tuple[Any, Any]:
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(64, 5, generator=generator)
    return x, x @ torch.randn(5, 1, generator=generator)


X, Y = make_data()


def make_model(outputs: int = 1) -> Any:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(5, 16), nn.ReLU(), nn.Linear(16, outputs))


def list_batches(count: int, size: int = 16) -> Iterator[tuple[Any, Any]]:
    generator = torch.Generator().manual_seed(0)
    for _ in range(count):
        rows = torch.randint(0, 64, (size,), generator=generator)
        yield X[rows], Y[rows]


def train(model: Any, optimizer: Any, *, steps: int = 6, order: str = "zero backward step", loss: Any = None) -> Any:
    """Train on all data, in which each iteration calls things in some order; returns the watch."""
    compute_loss = loss or (lambda: F.mse_loss(model(X), Y))
    with wg.watch(model) as seen:
        for _ in range(steps):
            value = compute_loss()
            for word in order.split():
                {"zero": optimizer.zero_grad, "backward": value.backward, "step": optimizer.step}[word]()
            value.item()
    return seen


def sgd(model: Any, **settings: Any) -> Any:
    return torch.optim.SGD(model.parameters(), **{"lr": 0.05, **settings})


@faulty("steps are too long", "lower the learning rate of SGD, lr=1")
def rate_too_large() -> Any:
    model = make_model()
    return train(model, sgd(model, lr=1.0), steps=5)


@faulty("the loss rose", "to Inf in", "lower the learning rate of SGD, lr=3")
def rate_too_large_until_it_overflows() -> Any:
    model = make_model()
    return train(model, sgd(model, lr=3.0), steps=20)


def schedule_rate(optimizer: Any, rate: Callable[[int], float]) -> Any:
    """Return the optimizer, whose learning rate follows its steps."""
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, rate)
    optimizer.register_step_post_hook(lambda *_: schedule.step())
    return optimizer


@faulty("the loss rose from", "the learning rate of AdamW rose from", "change the schedule")
def schedule_explodes() -> Any:
    model = make_model()
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01, weight_decay=0.0)
    return train(model, schedule_rate(optimizer, lambda k: 1.0 if k < 20 else 2.0 ** (k - 20)), steps=40)


@faulty("the loss rose from", "of AdamW rose from", "lower the learning rate, lr=")
def schedule_explodes_until_decay_does() -> Any:
    model = make_model()
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01, weight_decay=0.01)
    return train(model, schedule_rate(optimizer, lambda k: 1.0 if k < 20 else 4.0 ** (k - 20)), steps=30)


@healthy
def warm_up() -> Any:
    model = make_model()
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    return [train(model, schedule_rate(optimizer, lambda k: (k + 1) / 40), steps=40)]


@healthy
def losses_that_take_turns() -> Any:
    model = make_model()
    turns = iter(range(100))

    def compute_loss() -> Any:
        error = F.mse_loss(model(X), Y)
        return error if next(turns) % 2 else 1000.0 * error + 1000.0

    return [train(model, schedule_rate(sgd(model, lr=1e-7), lambda k: 1.1**k), steps=40, loss=compute_loss)]


def train_in_warm_up(loss: Callable[[Any, int], Any], steps: int = 14) -> Any:
    model = make_model()
    optimizer = schedule_rate(torch.optim.Adam(model.parameters(), lr=1e-3), lambda k: min(1.0, (k + 1) / 10))
    count = iter(range(steps))
    return [train(model, optimizer, steps=steps, loss=lambda: loss(model, next(count)))]


@healthy
def warm_up_with_a_growing_weight() -> Any:
    return train_in_warm_up(lambda model, k: 1.6**k * F.mse_loss(model(X), Y))


@healthy
def warm_up_with_a_term_that_comes_later() -> Any:
    return train_in_warm_up(lambda model, k: 0.01 * F.mse_loss(model(X), Y) + 3 * k * model(X).square().mean())


@healthy
def warm_up_of_a_model_that_begins_with_zeros() -> Any:
    def compute_loss(model: Any, k: int) -> Any:
        if k == 0:
            nn.init.zeros_(model[2].weight)
            nn.init.zeros_(model[2].bias)
        return F.mse_loss(model(X), Y * (0.0 if k < 3 else 1.0))

    return train_in_warm_up(compute_loss)


@healthy
def warm_up_on_data_that_get_harder() -> Any:
    hard = 100.0 * Y
    return train_in_warm_up(lambda model, k: F.mse_loss(model(X), Y if k < 2 else hard))


@faulty("parameter 0.bias has NaN at element [3]", "Adam.step() at", "its eps is 0, and 1 of 16 gradients 0")
def adam_without_epsilon() -> Any:
    model = make_model()
    model[0].bias.data[3] = -100.0
    return train(model, torch.optim.Adam(model.parameters(), lr=1e-3, eps=0.0))


@faulty("SGD takes 75 % of", "lower weight_decay")
def decay_outweighs_the_loss() -> Any:
    model = make_model()
    return train(model, sgd(model, weight_decay=15.0), steps=20)


@faulty("AdamW takes 50 % of", "lower weight_decay")
def decoupled_decay_outweighs_the_loss() -> Any:
    model = make_model()
    return train(model, torch.optim.AdamW(model.parameters(), lr=0.01, weight_decay=50.0), steps=20)


@faulty("multiplies 0.weight", "by -2 in each step")
def decay_blows_up() -> Any:
    model = make_model()
    return train(model, sgd(model, lr=0.1, weight_decay=30.0), steps=30)


@faulty("2.weight gets a gradient, but no optimizer")
def parameter_left_out() -> Any:
    model = make_model()
    return train(model, torch.optim.SGD([*model[0].parameters(), model[2].bias], lr=0.05))


@faulty("were not reset after an optimizer's step")
def gradients_not_reset() -> Any:
    model = make_model()
    return train(model, sgd(model), order="backward step")


@faulty("momentum=1, which keeps every gradient")
def momentum_of_one() -> Any:
    model = make_model()
    return train(model, sgd(model, momentum=1.0))


@faulty("SGD.step() had no gradient", "before the backward pass of its loss")
def step_before_backward() -> Any:
    model = make_model()
    return train(model, sgd(model), order="zero step backward")


@faulty("SGD.step() had no gradient", "after zero_grad() had removed")
def reset_before_step() -> Any:
    model = make_model()
    return train(model, sgd(model), order="backward zero step")


def train_a_maker(cut: Callable[[Any], Any], *, resets_late: bool = False) -> Any:
    """Train two networks against each other, with something between the maker and the loss."""
    maker, critic = make_model(5), make_model()
    of_maker, of_critic = (torch.optim.Adam(model.parameters(), 1e-3) for model in (maker, critic))
    judge = F.binary_cross_entropy_with_logits
    with wg.watch(nn.ModuleDict({"maker": maker, "critic": critic})) as seen:
        for x, _ in list_batches(6):
            made = maker(torch.randn(16, 5))
            of_critic.zero_grad()
            (judge(critic(x), torch.ones(16, 1)) + judge(critic(made.detach()), torch.zeros(16, 1))).backward()
            of_critic.step()
            if not resets_late:
                of_maker.zero_grad()
            judge(critic(cut(made)), torch.ones(16, 1)).backward()
            if resets_late:
                of_maker.zero_grad()
            of_maker.step()
    return seen


@faulty("Adam.step() had no gradient", "sent nothing to its parameters, or only 0; ask seen.explain('maker.0.weight')")
def maker_that_is_detached() -> Any:
    return train_a_maker(lambda made: made.detach())


@faulty("Adam.step() had no gradient", "sent nothing to its parameters, or only 0; ask seen.explain('maker.0.weight')")
def maker_behind_a_dead_rectifier() -> Any:
    return train_a_maker(lambda made: torch.relu(made - 1e3))


@faulty("Adam.step() had no gradient", "after zero_grad() had removed")
def maker_that_is_reset_before_its_step() -> Any:
    return train_a_maker(lambda made: made, resets_late=True)


@faulty("SGD.step() had no gradient", "after zero_grad() had removed")
def reset_before_step_of_a_model_without_names() -> Any:
    model = make_model()
    optimizer = sgd(model)
    with wg.watch() as seen:
        for x, y in list_batches(5):
            F.mse_loss(model(x), y).backward()
            optimizer.zero_grad()
            optimizer.step()
    return seen


@faulty("the loss is mse_loss times a negative number")
def wrong_sign_of_the_loss() -> Any:
    model = make_model()
    return train(model, sgd(model), loss=lambda: -F.mse_loss(model(X), Y))


@faulty("move along the gradient", "maximize=True")
def maximized_loss() -> Any:
    model = make_model()
    return train(model, sgd(model, maximize=True))


@faulty("move along the gradient", "subtracts the gradient")
def wrong_sign_of_a_step_by_hand() -> Any:
    model = make_model()
    with wg.watch(model) as seen:
        for _ in range(5):
            model.zero_grad()
            F.mse_loss(model(X), Y).backward()
            with torch.no_grad():
                for parameter in model.parameters():
                    parameter.add_(parameter.grad, alpha=0.1)
    return seen


@faulty("SGD has lr=0")
def rate_of_zero() -> Any:
    model = make_model()
    return train(model, sgd(model, lr=0.0))


@faulty("rounding swallows them", "bfloat16")
def steps_lost_in_rounding() -> Any:
    model = make_model().to(torch.bfloat16)
    return train(model, sgd(model, lr=1e-5), loss=lambda: F.mse_loss(model(X.bfloat16()), Y.bfloat16()))


@faulty("1 (BatchNorm1d) and 3 (Dropout) ran as in an evaluation", "call model.train()")
def evaluation_mode_forgotten() -> Any:
    layers = nn.Linear(5, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Dropout(0.5), nn.Linear(16, 1)
    model = nn.Sequential(*layers).eval()
    return train(model, sgd(model))


@faulty("log_softmax makes probabilities of scores", "softmax in module 1")
def softmax_before_cross_entropy() -> Any:
    model = nn.Sequential(make_model(3), nn.Softmax(-1))
    labels = torch.randint(0, 3, (64,))
    return train(model, sgd(model), loss=lambda: F.cross_entropy(model(X), labels))


@faulty("binary_cross_entropy_with_logits makes probabilities of scores", "sigmoid in module 1")
def sigmoid_before_its_loss() -> Any:
    model = nn.Sequential(make_model(), nn.Sigmoid())
    return train(model, sgd(model), loss=lambda: F.binary_cross_entropy_with_logits(model(X), (Y > 0).float()))


@faulty("no gradient comes to 0.weight: it was detached")
def detached_in_the_middle() -> Any:
    model = make_model()
    return train(model, sgd(model), loss=lambda: F.mse_loss(model[2](model[1](model[0](X)).detach()), Y))


@faulty("no op read any of the 4 parameters of the watched module")
def copy_of_the_model() -> Any:
    model, other = make_model(), nn.ModuleList([make_model()])
    with wg.watch(model) as seen:
        F.mse_loss(other[0](X), Y).backward()
    return seen


@pytest.mark.parametrize("name", FAULTS)
def test_the_cause_of_a_fault_is_named(name: str) -> None:
    program, words = FAULTS[name]
    seen = program()
    answer = f"{seen.blame()}\n{seen.flow()}"

    assert [word for word in words if word not in answer] == []


@healthy
def plain_descent() -> Iterator[Any]:
    model = make_model()
    yield from follow(model, sgd(model))


@healthy
def batches_of_one() -> Iterator[Any]:
    model = make_model()
    yield from follow(model, sgd(model, lr=0.03), steps=100, size=1)


@healthy
def edge_of_stability() -> Iterator[Any]:
    model = make_model()
    yield from follow(model, sgd(model, lr=0.22), steps=100, size=64)


@healthy
def nesterov() -> Iterator[Any]:
    model = make_model()
    yield from follow(model, sgd(model, lr=0.02, momentum=0.9, nesterov=True), steps=50)


@healthy
def adam_with_decay() -> Iterator[Any]:
    model = make_model()
    yield from follow(model, torch.optim.AdamW(model.parameters(), lr=0.01, weight_decay=0.1), steps=40)


@healthy
def warm_up_from_zero() -> Iterator[Any]:
    model = make_model()
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: min(1.0, step / 5.0))
    for seen in follow(model, optimizer):
        schedule.step()
        yield seen


@healthy
def ridge_regression_that_has_converged() -> Iterator[Any]:
    model = nn.Linear(5, 1)
    yield from follow(model, sgd(model, lr=0.1, weight_decay=0.1), steps=150, size=64)


@healthy
def regression_that_has_converged() -> Iterator[Any]:
    model = nn.Linear(5, 1)
    yield from follow(model, sgd(model, lr=0.1), steps=300, size=64)


@healthy
def validation_between_steps() -> Iterator[Any]:
    model = nn.Sequential(nn.Linear(5, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Dropout(0.2), nn.Linear(16, 1))
    for seen in follow(model, sgd(model, lr=0.02), steps=10):
        yield seen
        model.eval()
        with torch.no_grad():
            F.mse_loss(model(X), Y).item()
        yield seen
        model.train()


@healthy
def gradient_penalty() -> Iterator[Any]:
    critic = nn.Sequential(nn.Linear(5, 16), nn.Tanh(), nn.Linear(16, 1))
    optimizer = torch.optim.Adam(critic.parameters(), 1e-3)
    with wg.watch(critic) as seen:
        for _ in range(4):
            optimizer.zero_grad()
            false = 0.5 * torch.randn(64, 5)
            share = torch.rand(64, 1)
            between = (share * X + (1.0 - share) * false).requires_grad_()
            (slope,) = torch.autograd.grad(critic(between).sum(), between, create_graph=True)
            penalty = (slope.norm(dim=1) - 1.0).square().mean()
            (critic(false).mean() - critic(X).mean() + 10.0 * penalty).backward()
            optimizer.step()
            yield seen


@healthy
def two_networks_against_each_other() -> Iterator[Any]:
    maker, critic = make_model(5), make_model()
    of_maker, of_critic = (torch.optim.Adam(model.parameters(), 1e-3) for model in (maker, critic))
    judge = F.binary_cross_entropy_with_logits
    with wg.watch(nn.ModuleList([maker, critic])) as seen:
        for x, _ in list_batches(8):
            made = maker(torch.randn(16, 5))
            of_critic.zero_grad()
            real, false = judge(critic(x), torch.ones(16, 1)), judge(critic(made.detach()), torch.zeros(16, 1))
            (real + false).backward()
            of_critic.step()
            of_maker.zero_grad()
            judge(critic(made), torch.ones(16, 1)).backward()
            of_maker.step()
            yield seen


@healthy
def gradients_of_four_batches() -> Iterator[Any]:
    model = make_model()
    optimizer = sgd(model)
    with wg.watch(model) as seen:
        for k, (x, y) in enumerate(list_batches(24)):
            (F.mse_loss(model(x), y) / 4).backward()
            if k % 4 == 3:
                optimizer.step()
                optimizer.zero_grad()
            yield seen


@healthy
def head_on_a_frozen_backbone() -> Iterator[Any]:
    backbone = nn.Sequential(nn.Linear(5, 16), nn.BatchNorm1d(16), nn.ReLU()).requires_grad_(False)
    model = nn.Sequential(backbone, nn.Linear(16, 1)).eval()
    yield from follow(model, sgd(model[1]))


@healthy
def closure_of_lbfgs() -> Iterator[Any]:
    model = make_model()
    optimizer = torch.optim.LBFGS(model.parameters(), lr=0.5, max_iter=4)

    def compute() -> Any:
        optimizer.zero_grad()
        loss = F.mse_loss(model(X), Y)
        loss.backward()
        return loss

    with wg.watch(model) as seen:
        for _ in range(4):
            optimizer.step(compute)
            yield seen


@healthy
def average_of_parameters() -> Iterator[Any]:
    model = make_model()
    average = torch.optim.swa_utils.AveragedModel(model)
    for seen in follow(model, sgd(model), steps=10):
        average.update_parameters(model)
        with torch.no_grad():
            average(X)
        yield seen


@healthy
def policy_gradient() -> Iterator[Any]:
    model = make_model(3)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    with wg.watch(model) as seen:
        for x, _ in list_batches(10):
            choice = torch.distributions.Categorical(logits=model(x))
            action = choice.sample()
            loss = -(choice.log_prob(action) * ((action == 1).float() - 0.3)).mean() - 0.01 * choice.entropy().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            yield seen


@healthy
def step_of_the_iteration_before() -> Iterator[Any]:
    model = make_model()
    optimizer = sgd(model)
    with wg.watch(model) as seen:
        for k, (x, y) in enumerate(list_batches(8)):
            if k:
                optimizer.step()
            optimizer.zero_grad()
            F.mse_loss(model(x), y).backward()
            yield seen


@healthy
def attack_on_inputs() -> Iterator[Any]:
    model = make_model(3).requires_grad_(False)
    shift = torch.zeros(64, 5, requires_grad=True)
    labels = torch.randint(0, 3, (64,))
    optimizer = torch.optim.SGD([shift], lr=0.5, maximize=True)
    with wg.watch(model) as seen:
        for _ in range(5):
            optimizer.zero_grad()
            F.cross_entropy(model(X + shift), labels).backward()
            optimizer.step()
            yield seen


def follow(model: Any, optimizer: Any, *, steps: int = 20, size: int = 16) -> Iterator[Any]:
    """Train on batches; yields the watch after each step."""
    with wg.watch(model) as seen:
        for x, y in list_batches(steps, size):
            optimizer.zero_grad()
            loss = F.mse_loss(model(x), y)
            loss.backward()
            optimizer.step()
            loss.item()
            yield seen


@pytest.mark.parametrize("name", HEALTHY)
def test_a_healthy_training_is_not_accused(name: str) -> None:
    torch.manual_seed(0)
    said: set[str] = set()
    for seen in HEALTHY[name]():
        answer = seen.blame()
        said.update([*map(str, answer.origins), *answer.notes])
        said.update(str(each) for each in seen.flow().findings if each.kind in ACCUSATIONS)

    assert said == set()


def test_showing_a_loss_joins_no_steps() -> None:
    model = make_model()
    seen = train(model, sgd(model), steps=3)

    assert len(seen.run.ops) == 7
    assert seen.run.step == 2


def test_an_element_of_the_data_is_named_with_the_module_that_reads_it() -> None:
    model = make_model()
    x = X.clone()
    x[7, 2] = float("nan")
    batch = {"x": x, "y": Y}
    del x
    with wg.watch(model) as seen:
        F.mse_loss(model(batch["x"]), batch["y"]).backward()
    (origin,) = seen.blame().origins

    assert origin.said.startswith("input batch['x'] has ")
    assert "at element [7, 2] before the step begins; addmm reads it" in origin.said
    assert (origin.module, origin.place.line > 0) == ("0", True)


def test_an_infinite_element_of_the_data_is_named_where_it_turns_into_nan() -> None:
    model = make_model()
    x = X.clone()
    x[7, 2] = float("inf")
    with wg.watch(model) as seen:
        F.mse_loss(model(x), Y).backward()
    (origin,) = seen.blame().origins

    assert origin.op == "addmm"
    assert origin.said.endswith("; input x has Inf at element [7, 2] before the step begins")


def test_an_element_of_a_target_is_named_behind_the_loader() -> None:
    model = make_model()
    y = Y.clone()
    y[[3, 9], 0] = float("nan")
    loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(X, y), batch_size=16)
    with wg.watch(model) as seen:
        for inputs, targets in loader:
            F.mse_loss(model(inputs), targets).backward()
            break
    (origin,) = seen.blame().origins

    assert (
        "has NaN at element [3, 0] and 1 more, in 2 of 64 rows before the step begins; mse_loss reads it" in origin.said
    )


@pytest.mark.filterwarnings("ignore:Using `torch.compile")
@pytest.mark.parametrize("wrap", ["data parallel", "inside", "compiled"])
def test_a_wrapper_keeps_the_names_of_the_watched_module(wrap: str) -> None:
    model = make_model()
    wrappers = {
        "data parallel": nn.DataParallel,
        "inside": nn.Sequential,
        "compiled": lambda inner: torch.compile(inner, backend="eager"),
    }
    program = wrappers[wrap](model)
    with wg.watch(model) as seen:
        F.mse_loss(program(X), Y).backward()

    assert [each.kind for each in seen.flow().findings] == ["steady"]
    assert seen.explain("0.weight").kind == "value"
