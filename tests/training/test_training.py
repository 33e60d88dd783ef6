"""The training loop: what it computes, what it reports, and what it refuses."""

from __future__ import annotations

import io
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import wiregrad as wg
from wiregrad import nn, optim
from wiregrad.errors import FileFormatError, InputError, NonFiniteError, ShapeError, StateError
from wiregrad.training import (
    ProgressBar,
    TrainingRun,
    decode_generator_state,
    encode_generator_state,
    read_checkpoint,
)

from ..support.sampling import sample_one, sample_pairs
from ..support.small_training import SmallTraining


class InterruptError(Exception):
    """Stands for whatever stops a training."""


def stop_after(count: int) -> Any:
    """Return a loss that raises at its call number `count`."""
    calls = iter(range(count))

    def loss(model: Any, x: Any, y: Any) -> Any:
        if model.training and next(calls, None) is None:
            raise InterruptError
        return SmallTraining.compute_loss(model, x, y)

    return loss


def test_the_loop_does_what_a_loop_by_hand_does() -> None:
    trained = SmallTraining()
    trained.train(epochs=2, validation=None, metrics=None)
    by_hand = SmallTraining()
    x, y = by_hand.make_data(60)
    rng = np.random.default_rng(4)
    for _ in range(2):
        order = rng.permutation(60)
        for start in range(0, 60, 7):
            chosen = order[start : start + 7]
            by_hand.optimizer.zero_grad()
            by_hand.compute_loss(by_hand.model, x[chosen], y[chosen]).backward()
            by_hand.optimizer.step()
        by_hand.schedule.step()

    for name, array in by_hand.model.state_dict().items():
        assert array.tobytes() == trained.model.state_dict()[name].tobytes(), name


def test_training_lowers_the_loss_and_keeps_a_history() -> None:
    run = SmallTraining().train(epochs=15)

    assert set(run.history) == {"loss", "validation_loss", "error"}
    assert {len(numbers) for numbers in run.history.values()} == {15}
    assert run.history["loss"][-1] < 0.7 * run.history["loss"][0]
    assert len(str(run).splitlines()) == 16


@pytest.mark.parametrize(("stopped_at", "every"), sample_pairs([1, 9, 10, 23], [None, 1, 4]))
def test_a_resumed_training_ends_with_the_same_bits(tmp_path: Path, stopped_at: int, every: int | None) -> None:
    whole = SmallTraining()
    expected = whole.digest(whole.train(epochs=4))
    settings = {"epochs": 4, "checkpoint": tmp_path / "run.wgt", "checkpoint_every": every}
    with pytest.raises(InterruptError):
        SmallTraining().train(stop_after(stopped_at), **settings)
    resumed = SmallTraining()

    assert resumed.digest(resumed.train(**settings)) == expected


def test_a_finished_training_can_be_made_longer(tmp_path: Path) -> None:
    whole = SmallTraining()
    expected = whole.digest(whole.train(epochs=4))
    SmallTraining().train(epochs=2, checkpoint=tmp_path / "run.wgt")
    longer = SmallTraining()

    assert longer.digest(longer.train(epochs=4, checkpoint=tmp_path / "run.wgt")) == expected


def test_one_generator_can_serve_the_order_and_the_dropout(tmp_path: Path) -> None:
    def make() -> SmallTraining:
        training = SmallTraining()
        training.model.modules()["3"].rng = training.settings["rng"]
        return training

    whole = make()
    expected = whole.digest(whole.train(epochs=3))
    settings: dict[str, Any] = {"epochs": 3, "checkpoint": tmp_path / "run.wgt", "checkpoint_every": 2}
    with pytest.raises(InterruptError):
        make().train(stop_after(14), **settings)
    resumed = make()

    assert resumed.digest(resumed.train(**settings)) == expected


def test_other_generators_are_saved_when_they_are_named(tmp_path: Path) -> None:
    def run(*, stop: bool) -> Any:
        noise = np.random.default_rng(9)
        training = SmallTraining(generators=[noise], checkpoint=tmp_path / "run.wgt", checkpoint_every=1, epochs=2)
        inner = stop_after(5) if stop else training.compute_loss
        return training.digest(training.train(lambda m, x, y: inner(m, x + 0.1 * noise.normal(size=x.shape), y)))

    expected = run(stop=False)
    (tmp_path / "run.wgt").unlink()
    with pytest.raises(InterruptError):
        run(stop=True)

    assert run(stop=False) == expected


@pytest.mark.parametrize(
    ("losses", "best", "stalled"),
    [
        ([3.0, 2.0, 1.0], 2, False),
        ([3.0, 1.0, 1.0], 1, False),
        ([3.0, 1.0, 2.0, 1.0], 1, True),
        ([np.nan, 2.0], 1, False),
        ([1.0, np.nan, np.nan], 0, True),
        ([np.inf, np.nan, 5.0], 2, False),
    ],
)
def test_the_best_epoch_is_the_first_with_the_lowest_loss(losses: list[float], best: int, stalled: bool) -> None:
    run = TrainingRun(epoch=len(losses), history={"validation_loss": losses})

    assert run.best_epoch() == best
    assert run.has_stalled(2) is stalled
    assert not run.has_stalled(None)


def test_gradients_can_be_clipped_before_each_update() -> None:
    norms = []
    training = SmallTraining()

    def clip() -> None:
        optim.clip_grad_norm(training.model.parameters(), 0.1)
        squares = [np.sum(np.square(value.grad)) for value in training.model.parameters().values()]
        norms.append(np.sqrt(np.sum(squares)))

    training.train(epochs=1, before_update=clip)

    assert len(norms) == 9
    assert max(norms) <= 0.1


def test_early_stopping_keeps_the_best_parameters(tmp_path: Path) -> None:
    def train(checkpoint: Path | None = None, loss: Any = None) -> tuple[SmallTraining, Any]:
        training = SmallTraining()
        for group in training.optimizer.groups:
            group.settings["lr"] = 0.3
        return training, training.train(loss, epochs=60, schedule=None, patience=2, checkpoint=checkpoint)

    training, run = train()
    losses = run.history["validation_loss"]
    best = int(np.argmin(losses))
    with pytest.raises(InterruptError):
        train(tmp_path / "run.wgt", stop_after(9 * (best + 2)))
    resumed, again = train(tmp_path / "run.wgt")
    final = wg.training.evaluate(training.model, training.compute_loss, None, training.make_data(20), 7)

    assert len(losses) == best + 3 < 60
    assert final["validation_loss"] == losses[best]
    assert resumed.digest(again) == training.digest(run)


def test_a_loss_that_is_not_finite_stops_with_the_layer_and_the_line() -> None:
    training = SmallTraining()

    class Root(nn.Module):
        def forward(self, x: Any) -> Any:
            return np.sqrt(x)

    class Net(nn.Module):
        def __init__(self) -> None:
            self.first = nn.Linear(4, 2, rng=np.random.default_rng(0))
            self.root = Root()

        def forward(self, x: Any) -> Any:
            return self.root(self.first(x))

    training.model = Net()
    optimizer = optim.SGD(training.model.parameters())
    with np.errstate(all="ignore"), pytest.raises(NonFiniteError) as caught:
        training.train(epochs=1, optimizer=optimizer, schedule=None)

    message = str(caught.value)
    assert "not finite in epoch 1, batch 1" in message
    assert "sqrt gave NaN" in message
    assert "root" in message
    assert f"{Path(__file__).name}:" in message
    assert np.isfinite(training.model.state_dict()["first.weight"]).all()


def test_a_gradient_that_is_not_finite_stops_before_the_parameters_are_spoiled() -> None:
    weight = nn.Linear(1, 1, rng=np.random.default_rng(0))
    x = np.zeros((4, 1))
    weight.bias.data = np.zeros(1)
    with np.errstate(all="ignore"), pytest.raises(NonFiniteError, match="sqrt"):
        wg.train(
            weight,
            lambda model, x: np.mean(np.sqrt(model(x))),
            x,
            optimizer=optim.SGD(weight.parameters()),
            rng=np.random.default_rng(0),
            epochs=1,
        )

    assert np.isfinite(weight.weight.data).all()


def test_a_watched_training_has_a_flight() -> None:
    run = SmallTraining().train(epochs=2, watch=True)
    own = wg.record()

    assert run.flight.steps == 18
    assert SmallTraining().train(epochs=1, watch=own).flight is own
    assert own.steps == 9
    assert SmallTraining().train(epochs=1).flight is None


def test_the_live_page_is_opened_by_one_argument(monkeypatch: pytest.MonkeyPatch) -> None:
    opened = []

    def record(*, live: bool) -> Any:
        opened.append(live)
        return original()

    original = wg.record
    monkeypatch.setattr(wg, "record", record)
    run = SmallTraining().train(epochs=1, watch="live")

    assert opened == [True]
    assert run.flight.steps == 9


def test_the_progress_bar_is_quiet_without_a_terminal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    SmallTraining().train(epochs=1)
    quiet = capsys.readouterr()

    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    SmallTraining().train(epochs=1)

    assert quiet.out == quiet.err == ""
    assert terminal.getvalue().startswith("\repoch 1/1 [##")
    assert "\repoch 1/1 [########################] loss " in terminal.getvalue()
    assert terminal.getvalue().endswith("\n")


def test_the_progress_bar_ends_its_line_before_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = io.StringIO()
    monkeypatch.setattr(sys, "stderr", terminal)
    with pytest.raises(InterruptError):
        SmallTraining().train(epochs=1, loss=stop_after(2), progress=True)

    assert terminal.getvalue().endswith(" \n")


@pytest.mark.parametrize(
    ("run", "seconds", "line"),
    [
        (TrainingRun(batch=1, loss_sum=6.0, examples_done=3), None, "epoch 1/3 [######..................] loss 2"),
        (
            TrainingRun(1, 2, {"loss": [3.0], "validation_loss": [4.0]}, loss_sum=6.0, examples_done=3),
            75.2,
            "epoch 2/3 [############............] 0:01:15 left  loss 2  validation_loss 4",
        ),
        (TrainingRun(3, 0, {"loss": [3.0, 2.0, 1.5]}), 0.0, "epoch 3/3 [########################] loss 1.5"),
    ],
)
def test_the_progress_bar_shows_losses_and_the_time_left(run: TrainingRun, seconds: float | None, line: str) -> None:
    assert ProgressBar(3, 4, shown=True).write_line(run, seconds) == line


@pytest.mark.parametrize(
    ("settings", "error", "message"),
    [
        ({"epochs": 0}, InputError, "epochs must be a whole number of at least 1; got 0"),
        ({"batch_size": True}, InputError, "batch_size must be"),
        ({"patience": -1}, InputError, "patience must be"),
        ({"patience": 2, "validation": None, "metrics": None}, InputError, "patience needs validation"),
        ({"validation": None}, InputError, "metrics needs validation"),
        ({"rng": 3}, InputError, "a random generator is np.random.default_rng"),
        ({"watch": "often"}, InputError, 'watch must be True, "live"'),
        ({"loss": lambda model, x, y: 1.0}, InputError, "computed from parameters"),
        ({"loss": lambda model, x, y: model(x)}, ShapeError, "one number, not an array of shape"),
        ({"validation": (np.zeros((0, 4)), np.zeros((0, 2)))}, ShapeError, "at least one example"),
        ({"validation": (np.zeros((3, 4)), np.zeros((2, 2)))}, ShapeError, "as many rows; got 3 and 2"),
    ],
)
def test_wrong_arguments_are_named(settings: dict[str, Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        SmallTraining().train(**{"epochs": 1, **settings})


def make_optimizer(kind: str, training: SmallTraining) -> Any:
    """Return an optimiser that has all, some or none of the parameters of a model."""
    own = training.model.parameters()
    other = SmallTraining().model.parameters()
    makers: dict[str, Callable[[], Any]] = {
        "all": lambda: optim.Adam(own),
        "first": lambda: optim.Adam({name: value for name, value in own.items() if name.startswith("0.")}),
        "groups": lambda: optim.Adam([{"params": [value], "lr": 0.1} for value in own.values()]),
        "more": lambda: optim.Adam([{"params": own}, {"params": other}]),
        "some and more": lambda: optim.Adam([*list(own.values())[:1], *other.values()]),
        "of another model": lambda: optim.Adam(other),
        "of a copy": lambda: optim.SGD([wg.Value(value.data) for value in own.values()]),
        "without parameters": optim.RMSprop,
    }
    return makers[kind]()


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("kind", ["all", "first", "groups", "more", "some and more"])
def test_an_optimizer_with_a_parameter_of_the_model_trains_it(kind: str, compiled: bool) -> None:
    training = SmallTraining()
    before = {name: value.data for name, value in training.model.parameters().items()}
    training.train(epochs=1, optimizer=make_optimizer(kind, training), schedule=None, compiled=compiled)

    assert any(not np.array_equal(before[name], value.data) for name, value in training.model.parameters().items())


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize(
    ("kind", "message"),
    [
        (
            "of another model",
            r"the optimiser's parameters are not those of the model, .*: Adam has 6 parameters and the model 6, .*; "
            r"make the optimiser after the model: optim\.Adam\(model\.parameters\(\), \.\.\.\)",
        ),
        ("of a copy", r"not those of the model.*optim\.SGD\(model\.parameters\(\), \.\.\.\)"),
        ("without parameters", r"RMSprop was made without parameters.*optim\.RMSprop\(model\.parameters\(\)"),
    ],
)
def test_an_optimizer_without_a_parameter_of_the_model_is_refused_at_once(
    kind: str, message: str, compiled: bool, tmp_path: Path
) -> None:
    training = SmallTraining()
    optimizer = make_optimizer(kind, training)
    path = tmp_path / "run.wgt"
    with pytest.raises(InputError, match=message):
        training.train(stop_after(0), epochs=1, optimizer=optimizer, schedule=None, compiled=compiled, checkpoint=path)

    assert not path.exists()


class ListedModel:
    """A model of a user's own, whose parameters are a list, as in micrograd."""

    def __init__(self) -> None:
        self.weight = wg.Value(np.zeros(4))

    def parameters(self) -> list[wg.Value]:
        return [self.weight]


class UnlistedModel:
    """A model of a user's own that does not name its parameters."""

    def __init__(self) -> None:
        self.weight = wg.Value(np.zeros(4))


def train_own(model: Any, optimizer: Any) -> Any:
    """Train a model of a user's own for one epoch."""
    data = SmallTraining.make_data(20)
    rng = np.random.default_rng(0)
    return wg.train(
        model, lambda m, x, y: nn.mse_loss(x @ m.weight, y[:, 0]), data, optimizer=optimizer, rng=rng, epochs=1
    )


@pytest.mark.parametrize("model_class", [ListedModel, UnlistedModel])
def test_a_model_of_a_users_own_is_trained(model_class: type[Any]) -> None:
    model = model_class()
    train_own(model, optim.SGD([model.weight], lr=0.1))

    assert np.any(model.weight.data)


def test_an_optimizer_of_another_model_is_refused_for_a_model_whose_parameters_are_a_list() -> None:
    with pytest.raises(InputError, match="SGD has 1 parameter and the model 1"):
        train_own(ListedModel(), optim.SGD(ListedModel().parameters(), lr=0.1))


@pytest.mark.parametrize(
    ("make_schedule", "message"),
    [
        (lambda other: optim.StepLR(other, 2), r"StepLR has another optimiser \(SGD\).*optim\.StepLR\(optimizer, "),
        (optim.ReduceLROnPlateau, "ReduceLROnPlateau has another optimiser"),
        (
            lambda other: optim.SequentialLR(other, [optim.LinearLR(None), optim.StepLR(None, 2)], [1]),
            "SequentialLR has another optimiser",
        ),
        (lambda _: optim.ExponentialLR(None, 0.9), "ExponentialLR has no optimiser"),
    ],
    ids=["step", "plateau", "sequence", "none"],
)
def test_a_schedule_of_another_optimizer_is_refused_at_once(make_schedule: Any, message: str) -> None:
    training = SmallTraining()
    other = optim.SGD(training.model.parameters(), lr=0.5)
    with pytest.raises(InputError, match=message):
        training.train(stop_after(0), epochs=1, schedule=make_schedule(other))

    assert training.optimizer.list_rates() == {"groups.0.lr": 0.02}


def test_a_schedule_of_a_users_own_needs_no_optimizer() -> None:
    class Halving:
        def __init__(self, group: Any) -> None:
            self.group = group

        def step(self) -> None:
            self.group.settings["lr"] /= 2.0

    training = SmallTraining()
    training.train(epochs=2, schedule=Halving(training.optimizer.groups[0]))

    assert training.optimizer.list_rates() == {"groups.0.lr": 0.005}


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    """Return the checkpoint of a training of one epoch."""
    SmallTraining().train(epochs=1, checkpoint=tmp_path / "run.wgt")
    return tmp_path / "run.wgt"


@pytest.mark.parametrize("kept", [0.0, 0.01, 0.3, 0.9, 0.999])
def test_a_checkpoint_that_is_cut_off_is_refused_and_left_as_it_is(checkpoint: Path, kept: float) -> None:
    data = checkpoint.read_bytes()
    part = data[: int(kept * len(data))]
    checkpoint.write_bytes(part)

    with pytest.raises(FileFormatError, match=r"run.wgt cannot be read as a checkpoint: .* left as it is"):
        SmallTraining().train(epochs=2, checkpoint=checkpoint)
    assert checkpoint.read_bytes() == part


@pytest.mark.parametrize("seed", range(12))
def test_a_changed_bit_is_found(checkpoint: Path, seed: int) -> None:
    rng = np.random.default_rng(seed)
    data = bytearray(checkpoint.read_bytes())
    data[rng.integers(len(data))] ^= 1 << rng.integers(8)
    checkpoint.write_bytes(data)

    with pytest.raises(FileFormatError, match="cannot be read as a checkpoint"):
        read_checkpoint(checkpoint)


def test_a_circuit_is_not_taken_for_a_checkpoint(tmp_path: Path) -> None:
    wg.circuit("y = x * x").save(tmp_path / "c.wg")

    with pytest.raises(FileFormatError, match="its format is 'wiregrad-circuit'"):
        read_checkpoint(tmp_path / "c.wg")


def test_a_checkpoint_of_another_training_is_refused(checkpoint: Path) -> None:
    other = SmallTraining()
    other.model = nn.Sequential(nn.Linear(4, 2, rng=np.random.default_rng(0)))
    optimizer = optim.SGD(other.model.parameters())

    with pytest.raises(StateError, match="batch_size is 7, not 8"):
        SmallTraining().train(epochs=2, checkpoint=checkpoint, batch_size=8)
    with pytest.raises(StateError, match="the arrays for Sequential"):
        other.train(epochs=2, checkpoint=checkpoint, optimizer=optimizer, schedule=None)
    with pytest.raises(StateError, match="2 random generators, the training 3"):
        SmallTraining().train(epochs=2, checkpoint=checkpoint, generators=[np.random.default_rng(0)])


@pytest.mark.parametrize("kind", ["PCG64", "PCG64DXSM", "MT19937", "Philox", "SFC64"])
def test_generators_of_all_kinds_go_on_where_they_were(kind: str) -> None:
    generator = np.random.Generator(getattr(np.random, kind)(7))
    generator.normal(size=11)
    generator.integers(5, size=3, dtype=np.int32)
    state = decode_generator_state(encode_generator_state(generator.bit_generator.state))
    expected = generator.normal(size=9)
    generator.bit_generator.state = state

    assert generator.normal(size=9).tobytes() == expected.tobytes()


def test_arrays_of_any_kind_are_saved(tmp_path: Path) -> None:
    class Plain:
        """A model with arrays that safetensors has no name for."""

        def __init__(self) -> None:
            self.training = True
            self.weight = wg.Value(np.array([1.0 + 2.0j, 3.0]))
            self.count = np.array([1, 2], np.int32)

        def parameters(self) -> dict[str, Any]:
            return {"weight": self.weight}

        def state_dict(self) -> dict[str, Any]:
            return {"weight": np.array(self.weight.data), "count": self.count}

        def load_state_dict(self, state: dict[str, Any]) -> None:
            self.weight.data = state["weight"]
            self.count = state["count"]

    def train(epochs: int) -> Plain:
        model = Plain()
        wg.train(
            model,
            lambda model, x: np.mean(np.abs(model.weight * x) ** 2),
            np.arange(6.0).reshape(3, 2),
            optimizer=optim.SGD(model.parameters(), lr=0.01),
            rng=np.random.default_rng(0),
            epochs=epochs,
            validation=np.ones((2, 2)),
            checkpoint=tmp_path / f"{epochs}.wgt",
        )
        return model

    once = train(3)
    again = train(3)

    assert again.count.dtype == np.int32
    assert again.weight.data.tobytes() == once.weight.data.tobytes()


def test_a_run_prints_its_epochs() -> None:
    run = TrainingRun(epoch=2, history={"loss": [1.0, 0.5]})

    assert str(run).split() == ["epoch", "loss", "1", "1", "2", "0.5"]


@pytest.mark.parametrize("stopped_at", sample_one([9, 1, 23]))
def test_a_resumed_compiled_training_ends_with_the_same_bits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stopped_at: int
) -> None:
    whole = SmallTraining()
    expected = whole.digest(whole.train(epochs=3, compiled=True))
    settings: dict[str, Any] = {"epochs": 3, "checkpoint": tmp_path / "run.wgt", "checkpoint_every": 4}
    count_batch = TrainingRun.count_batch

    def count_or_stop(run: TrainingRun, loss: float, examples: int) -> None:
        if run.epoch * 9 + run.batch == stopped_at:
            raise InterruptError
        count_batch(run, loss, examples)

    monkeypatch.setattr(TrainingRun, "count_batch", count_or_stop)
    with pytest.raises(InterruptError):
        SmallTraining().train(compiled=True, **settings)
    monkeypatch.undo()
    resumed = SmallTraining()

    assert resumed.digest(resumed.train(compiled=True, **settings)) == expected


def test_a_compiled_training_is_the_plain_one_up_to_rounding() -> None:
    plain, compiled = SmallTraining(), SmallTraining()
    first, second = plain.train(epochs=2), compiled.train(epochs=2, compiled=True)

    assert second.not_compiled == ""
    assert np.allclose(first.history["loss"], second.history["loss"], rtol=1e-9)
    assert plain.model.modules()["3"].rng.bit_generator.state == compiled.model.modules()["3"].rng.bit_generator.state


class DrawnNet(nn.Module):
    """A model that draws its parameters in `__init__`."""

    def __init__(self) -> None:
        self.first = nn.Linear(4, 2, rng=np.random.default_rng(5))

    def forward(self, x: Any) -> Any:
        return self.first(x)


def test_a_model_that_draws_its_parameters_in_init_is_compiled() -> None:
    x = np.random.default_rng(0).normal(size=(24, 4))
    histories = []
    for compiled in (False, True):
        model = DrawnNet()
        run = wg.train(
            model,
            lambda model, x: np.mean(model(x) ** 2),
            x,
            optimizer=optim.SGD(model.parameters(), lr=0.1),
            rng=np.random.default_rng(1),
            epochs=2,
            compiled=compiled,
        )
        histories.append(run.history["loss"])

    assert run.not_compiled == ""
    assert np.allclose(*histories, rtol=1e-9)


def test_a_loss_that_makes_a_model_says_that_it_draws_random_numbers() -> None:
    def compute_loss(model: Any, x: Any, y: Any) -> Any:
        return SmallTraining.compute_loss(model, x, y) + np.mean(DrawnNet()(x))

    reason = SmallTraining().train(compute_loss, epochs=1, compiled=True).not_compiled

    assert "it draws random numbers: it uses np.random.default_rng" in reason


def test_a_training_says_why_it_is_not_compiled() -> None:
    noise = np.random.default_rng(0)

    def make_noise(model: Any, x: Any, y: Any) -> Any:
        return SmallTraining.compute_loss(model, x + noise.normal(size=x.shape), y)

    reasons = {
        "flight": SmallTraining().train(epochs=1, compiled=True, watch=True).not_compiled,
        "before_update": SmallTraining().train(epochs=1, compiled=True, before_update=lambda: None).not_compiled,
        "noise": SmallTraining().train(make_noise, epochs=1, compiled=True).not_compiled,
        "asked for": SmallTraining().train(epochs=1).not_compiled,
    }

    assert "flight recorder" in reasons["flight"]
    assert "before_update" in reasons["before_update"]
    assert "noise" in reasons["noise"]
    assert reasons["asked for"] == ""


def test_a_compiled_training_stops_with_the_layer_and_the_line() -> None:
    training = SmallTraining()
    model = nn.Sequential(nn.Linear(4, 2, rng=np.random.default_rng(0)))
    optimizer = optim.SGD(model.parameters())
    before = model.state_dict()
    training.model = model
    with np.errstate(all="ignore"), pytest.raises(NonFiniteError, match="sqrt gave NaN"):
        training.train(
            lambda model, x, y: np.mean(np.sqrt(model(x))), epochs=1, optimizer=optimizer, schedule=None, compiled=True
        )

    assert all(np.array_equal(before[name], array) for name, array in model.state_dict().items())


def test_batches_have_every_example_once() -> None:
    x, y = np.arange(10), np.arange(10) * 2
    batches = list(wg.draw_batches((x, y), 4, rng=np.random.default_rng(0)))

    assert [len(part) for part, _ in batches] == [4, 4, 2]
    assert sorted(np.concatenate([part for part, _ in batches]).tolist()) == x.tolist()
    assert all(np.array_equal(b, 2 * a) for a, b in batches)


@pytest.mark.parametrize(("drop_last", "lengths"), [(False, [4, 4, 2]), (True, [4, 4])])
def test_batches_without_a_generator_are_in_order(drop_last: bool, lengths: list[int]) -> None:
    batches = [part for (part,) in wg.draw_batches(np.arange(10), 4, drop_last=drop_last)]

    assert [len(part) for part in batches] == lengths
    assert np.concatenate(batches).tolist() == list(range(sum(lengths)))


def test_the_order_of_batches_is_drawn_at_once() -> None:
    rng, other = np.random.default_rng(0), np.random.default_rng(0)
    batches = wg.draw_batches(np.arange(10), 4, rng=rng)
    other.permutation(10)

    assert rng.random() == other.random()
    assert len(list(batches)) == 3


def test_a_schedule_that_looks_at_the_loss_resumes_to_the_same_bits(tmp_path: Path) -> None:
    def train(epochs: int, checkpoint: Path | None = None) -> tuple[Any, dict[str, float]]:
        training = SmallTraining()
        schedule = optim.ReduceLROnPlateau(training.optimizer, patience=0, threshold=0.5)
        run = training.train(epochs=epochs, schedule=schedule, checkpoint=checkpoint)
        return run.history, {**training.optimizer.list_rates(), **schedule.state_dict()}

    train(3, tmp_path / "plateau.wgt")
    history, state = train(8, tmp_path / "plateau.wgt")

    assert (history, state) == train(8)
    assert state["groups.0.lr"] < SmallTraining().optimizer.list_rates()["groups.0.lr"]
