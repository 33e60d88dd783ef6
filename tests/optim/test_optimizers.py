"""Optimisers and schedules: what the two ways to use them have in common, saved states, and what is refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import wiregrad as wg
from wiregrad import nn, optim
from wiregrad.errors import InputError, NonFiniteError, StateError, UnknownNameError

OPTIMIZERS: dict[str, Callable[..., optim.Optimizer]] = {
    "sgd": lambda p=None: optim.SGD(p, 0.1),
    "momentum": lambda p=None: optim.SGD(p, 0.1, 0.9, 0.1, 0.01),
    "nesterov": lambda p=None: optim.SGD(p, 0.1, 0.9, nesterov=True),
    "rmsprop": lambda p=None: optim.RMSprop(p, centered=True, momentum=0.5),
    "adam": lambda p=None: optim.Adam(p, 0.05, amsgrad=True),
    "adamw": lambda p=None: optim.AdamW(p, 0.05),
    "adagrad": lambda p=None: optim.Adagrad(p, 0.1, lr_decay=0.1),
}
X = np.random.default_rng(0).normal(size=(8, 2))
Y = np.sin(X[:, :1])


def make_model(seed: int = 0, dtype: Any = float) -> nn.Sequential:
    rng = np.random.default_rng(seed)
    return nn.Sequential(nn.Linear(2, 4, rng=rng, dtype=dtype), nn.Tanh(), nn.Linear(4, 1, rng=rng, dtype=dtype))


def train(model: nn.Module, optimizer: Any, steps: int) -> float:
    for _ in range(steps):
        optimizer.zero_grad()
        loss = nn.mse_loss(model(X), Y)
        loss.backward()
        optimizer.step()
    return float(loss.data)


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_the_loss_falls(name: str) -> None:
    model = make_model()
    optimizer = OPTIMIZERS[name](model.parameters())
    first = train(model, optimizer, 1)

    assert train(model, optimizer, 60) < 0.5 * first


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_the_pure_update_takes_the_same_steps(name: str) -> None:
    model = make_model()
    pure, structure = OPTIMIZERS[name](), model.emptied()
    parameters = model.arrays()
    state = pure.init(parameters)
    for _ in range(5):
        grads = wg.grad(lambda arrays: nn.mse_loss(nn.call_with(structure, arrays, X), Y))(parameters)
        parameters, state = pure.update(parameters, grads, state)
    train(model, OPTIMIZERS[name](model.parameters()), 5)

    assert {path: array.tolist() for path, array in parameters.items()} == {
        path: value.data.tolist() for path, value in model.parameters().items()
    }


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_a_compiled_step_is_one_recording_and_follows_the_learning_rate(name: str) -> None:
    model = make_model()
    pure, structure = OPTIMIZERS[name](), model.emptied()

    def take_step(parameters: Any, state: Any, x: Any) -> Any:
        grads = wg.grad(lambda arrays: nn.mse_loss(nn.call_with(structure, arrays, x), Y))(parameters)
        return pure.update(parameters, grads, state)

    compiled = wg.compile(take_step)
    ours = wanted = (model.arrays(), pure.init(model.arrays()))
    for k in range(5):
        for _, state in (ours, wanted):
            state["groups.0.lr"] = 0.1 / (1 + k)
        ours, wanted = compiled(*ours, X + k), take_step(*wanted, X + k)
    for part, wanted_part in zip(ours, wanted, strict=True):
        assert list(part) == list(wanted_part)
        assert all(np.allclose(part[key], wanted_part[key], rtol=1e-9, atol=1e-12) for key in part)
    assert (compiled.info.records, dict(compiled.info.fallbacks)) == (1, {})


@pytest.mark.parametrize("name", OPTIMIZERS)
@pytest.mark.parametrize("is_compiled", [False, True])
def test_parameters_of_float32_stay_in_float32(name: str, is_compiled: bool) -> None:
    optimizer = OPTIMIZERS[name]()
    parameters = {"w": np.ones(3, np.float32)}
    update: Callable[..., Any] = wg.compile(optimizer.update) if is_compiled else optimizer.update
    state = optimizer.init(parameters)
    for _ in range(2):
        parameters, state = update(parameters, {"w": np.full(3, 0.5, np.float32)}, state)

    assert {value.dtype for value in [*parameters.values(), *state.values()] if np.ndim(value)} == {
        np.dtype(np.float32)
    }


def test_an_update_changes_no_argument() -> None:
    optimizer = optim.Adam(lr=0.1)
    parameters, grads = {"w": np.ones(2)}, {"w": np.ones(2)}
    state = optimizer.init(parameters)
    before = {name: np.copy(value).tolist() for name, value in state.items()}
    optimizer.update(parameters, grads, state)

    assert parameters["w"].tolist() == [1.0, 1.0]
    assert {name: np.copy(value).tolist() for name, value in state.items()} == before


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_a_saved_state_resumes_to_the_same_bits(name: str) -> None:
    whole, halved, resumed = make_model(), make_model(), make_model(1)
    train(whole, OPTIMIZERS[name](whole.parameters()), 10)
    first = OPTIMIZERS[name](halved.parameters())
    train(halved, first, 5)
    second = OPTIMIZERS[name](resumed.parameters())
    resumed.load_state_dict(halved.state_dict())
    second.load_state_dict(first.state_dict())
    train(resumed, second, 5)

    assert {k: v.tolist() for k, v in resumed.state_dict().items()} == {
        k: v.tolist() for k, v in whole.state_dict().items()
    }


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_a_state_is_a_flat_dict_of_numbers_and_arrays(name: str) -> None:
    model = make_model()
    optimizer = OPTIMIZERS[name](model.parameters())
    before = optimizer.state_dict()
    train(model, optimizer, 2)

    assert before.keys() == optimizer.state_dict().keys()
    assert {type(value) for value in optimizer.state_dict().values()} <= {float, bool, int, np.ndarray}


def test_a_state_through_a_file_resumes_to_the_same_bits(tmp_path: Any) -> None:
    model, other = make_model(), make_model()
    optimizer, reader = optim.AdamW(model.parameters(), 0.05), optim.AdamW(other.parameters(), 0.3)
    train(model, optimizer, 3)
    nn.save_arrays(tmp_path / "state", optimizer.state_dict())
    reader.load_state_dict(nn.load_arrays(tmp_path / "state"))
    other.load_state_dict(model.state_dict())
    train(model, optimizer, 3)
    train(other, reader, 3)

    assert {k: v.tolist() for k, v in other.state_dict().items()} == {
        k: v.tolist() for k, v in model.state_dict().items()
    }


def test_a_state_that_does_not_fit_is_refused_with_everything_that_is_wrong() -> None:
    optimizer = optim.Adam({"a": wg.Value(np.ones(2)), "b": wg.Value(np.ones(3))})
    state = optimizer.state_dict()
    del state["a.step"]
    state |= {"c.step": 1.0, "b.exp_avg": np.ones(5)}
    with pytest.raises(StateError) as caught:
        optimizer.load_state_dict(state)

    assert str(caught.value) == (
        "the state does not fit Adam:\n  missing: a.step\n  unexpected: c.step\n  of another shape: b.exp_avg"
    )


def rosenbrock(x: Any) -> Any:
    return np.sum((x[1:] - x[:-1] ** 2) ** 2 + (1.0 - x[:-1]) ** 2)


def minimise(value: wg.Value, optimizer: optim.LBFGS, steps: int) -> None:
    def closure() -> Any:
        optimizer.zero_grad()
        loss = rosenbrock(value)
        loss.backward()
        return loss

    for _ in range(steps):
        optimizer.step(closure)


@pytest.mark.parametrize("search", [None, "strong_wolfe"])
def test_lbfgs_finds_a_minimum(search: str | None) -> None:
    value = wg.Value(np.array([-1.2, 1.0, 0.5]))
    minimise(value, optim.LBFGS([value], lr=0.5 if search is None else 1.0, line_search_fn=search), 10)

    assert np.allclose(value.data, 1.0, atol=1e-4)


@pytest.mark.parametrize("search", [None, "strong_wolfe"])
def test_lbfgs_resumes_to_the_same_bits(search: str | None) -> None:
    start = np.array([-1.2, 1.0, 0.5])
    whole, halved, resumed = wg.Value(start), wg.Value(start), wg.Value(np.zeros(3))
    minimise(whole, optim.LBFGS([whole], 0.5, 2, line_search_fn=search), 4)
    first = optim.LBFGS([halved], 0.5, 2, line_search_fn=search)
    minimise(halved, first, 2)
    second = optim.LBFGS([resumed], line_search_fn=search)
    second.load_state_dict(first.state_dict())
    resumed.data = halved.data
    minimise(resumed, second, 2)

    assert resumed.data.tolist() == whole.data.tolist()


@pytest.mark.parametrize("search", [None, "strong_wolfe"])
def test_lbfgs_keeps_parameters_of_float32(search: str | None) -> None:
    model = make_model(dtype=np.float32)
    optimizer = optim.LBFGS(model.parameters(), lr=0.3, line_search_fn=search)
    x, y = X.astype(np.float32), Y.astype(np.float32)

    def closure() -> Any:
        optimizer.zero_grad()
        loss = nn.mse_loss(model(x), y)
        loss.backward()
        return loss

    losses = [float(optimizer.step(closure).data) for _ in range(3)]

    assert losses[-1] < 0.1 * losses[0]
    assert {value.dtype for value in model.parameters().values()} == {np.dtype(np.float32)}


def test_parts_of_a_model_whose_parameters_have_the_same_names_are_groups() -> None:
    model = make_model()
    groups = [{"params": model[0].parameters()}, {"params": model[2].parameters(), "lr": 0.0}]
    optimizer = optim.SGD(groups, lr=0.1)
    before = model.state_dict()
    train(model, optimizer, 1)
    after = model.state_dict()

    assert list(optimizer.parameters) == ["weight", "bias", "1.weight", "1.bias"]
    assert [bool(np.any(before[name] != after[name])) for name in before] == [True, True, False, False]


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_a_state_with_pytorchs_names_resumes_to_the_same_bits(name: str) -> None:
    model = make_model()
    optimizer = OPTIMIZERS[name](model.parameters())
    train(model, optimizer, 3)
    copy = make_model(1)
    resumed = type(optimizer)(copy.parameters())
    copy.load_state_dict(model.state_dict())
    resumed.load_torch_state_dict(optimizer.torch_state_dict())
    train(model, optimizer, 3)
    train(copy, resumed, 3)

    assert all(np.array_equal(copy.state_dict()[path], array) for path, array in model.state_dict().items())


def test_a_state_of_pytorch_that_does_not_fit_changes_nothing() -> None:
    optimizer = optim.SGD(W, lr=0.1)
    state = {"state": {0: {"momentum_buffer": np.zeros(5)}}, "param_groups": [{"params": [0], "momentum": 0.9}]}
    with pytest.raises(StateError, match=r"of another shape: w\.momentum_buffer"):
        optimizer.load_torch_state_dict(state)

    assert optimizer.groups[0].settings["momentum"] == 0.0


def test_groups_have_settings_of_their_own() -> None:
    model = make_model()
    first, last = model[0].parameters(), {f"last.{name}": value for name, value in model[2].parameters().items()}
    before = model.state_dict()
    train(model, optim.SGD([{"params": first, "lr": 0.0}, {"params": last}], lr=0.1), 2)
    after = model.state_dict()

    assert [name for name in after if not np.array_equal(before[name], after[name])] == ["2.weight", "2.bias"]


def test_schedules_are_saved_and_restored() -> None:
    optimizer = optim.SGD([wg.Value(1.0)], lr=0.4)
    schedule = optim.StepLR(optimizer, 2, 0.5)
    rates = []
    for _ in range(5):
        rates.append(optimizer.groups[0].settings["lr"])
        schedule.step()
    other = optim.SGD([wg.Value(1.0)], lr=9.0)
    restored = optim.StepLR(other, 2, 0.5)
    restored.load_state_dict(schedule.state_dict())

    assert rates == [0.4, 0.4, 0.2, 0.2, 0.1]
    assert other.groups[0].settings["lr"] == optimizer.groups[0].settings["lr"]
    with pytest.raises(StateError, match=r"a StepLR needs count, base_rates.0; got count"):
        restored.load_state_dict({"count": 1})


def test_clipping_in_a_compiled_function() -> None:
    compiled = wg.compile(lambda grads: optim.clip_by_norm(grads, 1.0))
    for scale in (0.01, 1.0, 7.0):
        grads = {"a": np.array([3.0, 4.0]) * scale, "b": np.zeros(2)}
        clipped, norm = compiled(grads)
        assert norm == pytest.approx(5.0 * scale)
        assert np.linalg.norm(clipped["a"]) == pytest.approx(min(5.0 * scale, 1.0), rel=1e-4)
    assert compiled.info.records == 1


W = {"w": wg.Value(np.ones(2))}
REFUSED: dict[str, tuple[Callable[[], object], type[Exception], str]] = {
    "negative rate": (lambda: optim.SGD(W, lr=-0.1), InputError, "lr must be a number of at least 0; got -0.1"),
    "text as rate": (lambda: optim.SGD(W, lr="0.1"), InputError, "got '0.1'"),  # type: ignore[arg-type]
    "rate of NaN": (lambda: optim.Adam(W, lr=float("nan")), InputError, "got nan"),
    "betas": (lambda: optim.Adam(W, betas=(0.9, 1.0)), InputError, "less than 1"),
    "nesterov": (lambda: optim.SGD(W, nesterov=True), InputError, "nesterov needs momentum"),
    "arrays": (lambda: optim.SGD({"w": np.ones(2)}), InputError, "takes one wg.Value or more"),
    "a list of arrays": (lambda: optim.SGD([np.ones(2)]), InputError, "SGD(lr=...), and use its init and update"),
    "a list to init": (lambda: optim.SGD(lr=0.1).init([{"w": np.ones(2)}]), TypeError, "got a list: put all arrays"),
    "a tree to init": (lambda: optim.SGD(lr=0.1).init({"a": {"w": 1.0}}), TypeError, "got a dict under 'a'"),
    "a list to update": (lambda: optim.SGD(lr=0.1).update([np.ones(2)], [np.ones(2)], {}), TypeError, "one dict from"),
    "names": (lambda: optim.SGD(list(W)), InputError, "got 'w': a list or iterator of that dict has only its names"),
    "iterator": (lambda: optim.Adam(iter(W)), InputError, "so pass the dict, or its values()"),
    "nothing": (lambda: optim.SGD([]), InputError, "takes one wg.Value or more"),
    "setting": (lambda: optim.SGD([{"params": W, "rate": 1.0}]), InputError, "SGD has no setting 'rate'; it has lr"),
    "model": (lambda: optim.SGD(make_model()[0]), InputError, "takes model.parameters(); got Linear"),
    "number": (lambda: optim.SGD(3), InputError, "takes a dict or list of wg.Value; got 3"),
    "twice": (lambda: optim.SGD([W["w"], W["w"]]), InputError, "the parameter 1 is given twice, before as 0"),
    "schedule": (lambda: optim.StepLR(make_model(), 3), InputError, "StepLR takes an optimiser, or None"),  # type: ignore[arg-type]
    "plateau": (lambda: optim.ReduceLROnPlateau(None), InputError, "takes an optimiser; got None"),  # type: ignore[arg-type]
    "plateau mode": (lambda: optim.ReduceLROnPlateau(optim.SGD(W), "low"), InputError, "mode is 'min' or 'max'"),
    "plateau factor": (lambda: optim.ReduceLROnPlateau(optim.SGD(W), factor=2.0), InputError, "factor must be between"),
    "step size": (lambda: optim.StepLR(None, 0), InputError, "step_size must be a whole number of at least 1; got 0"),
    "wave": (lambda: optim.CosineAnnealingLR(None, 0), InputError, "T_max must be a whole number"),
    "warm-up": (lambda: optim.LinearLR(None, total_iters=0), InputError, "total_iters must be a whole number"),
    "state of PyTorch": (
        lambda: optim.SGD(W).load_torch_state_dict({"w.step": 0.0}),
        StateError,
        "SGD needs the state_dict() of an optimiser of PyTorch",
    ),
    "groups of PyTorch": (
        lambda: optim.SGD(W).load_torch_state_dict({"state": {}, "param_groups": [{"params": [0, 1]}]}),
        StateError,
        "SGD has groups of [1] parameters, the state of PyTorch of [2]",
    ),
    "maximize": (
        lambda: optim.SGD(W).load_torch_state_dict({"state": {}, "param_groups": [{"params": [0], "maximize": True}]}),
        StateError,
        "SGD has no setting maximize",
    ),
    "two groups": (
        lambda: optim.SGD([{"params": W}, {"params": W}]),
        InputError,
        "the parameter w is given twice, before as w",
    ),
    "no parameters": (lambda: optim.SGD().step(), InputError, "was made without parameters"),
    "unknown array": (
        lambda: optim.SGD([{"params": W}]).init({"v": np.ones(2)}),
        UnknownNameError,
        "has a parameter 'w', which is not among the arrays",
    ),
    "gradient": (
        lambda: optim.SGD().update({"w": np.ones(2)}, {}, optim.SGD().init({"w": np.ones(2)})),
        UnknownNameError,
        "update needs a gradient named 'w'",
    ),
    "state": (
        lambda: optim.Adam().update({"w": np.ones(2)}, {"w": np.ones(2)}, {"groups.0.lr": 0.1}),
        UnknownNameError,
        "an entry of the state named 'w.step'; a state is made by init(parameters)",
    ),
    "closure": (lambda: optim.LBFGS(W).step(), InputError, "step(closure)"),
    "pure lbfgs": (lambda: optim.LBFGS(W).update({}, {}, {}), InputError, "LBFGS has no update"),
    "search": (lambda: optim.LBFGS(W, line_search_fn="armijo"), InputError, "None or 'strong_wolfe'"),
    "groups": (
        lambda: optim.LBFGS([{"params": W}, {"params": [wg.Value(1.0)]}]),
        InputError,
        "LBFGS has no groups",
    ),
    "milestones": (lambda: optim.SequentialLR(None, [optim.StepLR(None, 1)], [2]), InputError, "0 milestones; got 1"),
    "owned schedule": (
        lambda: optim.SequentialLR(None, [optim.StepLR(optim.SGD(W), 1)], []),
        InputError,
        "made without an optimiser",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_bad_input_is_refused(name: str) -> None:
    call, kind, message = REFUSED[name]
    with pytest.raises(kind) as caught:
        call()

    assert message in str(caught.value)


def compute_error(model: Any, x: Any, y: Any) -> Any:
    return nn.mse_loss(model(x), y)


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_a_compiled_step_changes_model_and_optimiser_as_a_plain_one_does(name: str) -> None:
    plain, compiled = make_model(), make_model()
    optimizer, own = OPTIMIZERS[name](plain.parameters()), OPTIMIZERS[name](compiled.parameters())
    take_step = optim.CompiledStep(compiled, compute_error, own)
    for k in range(4):
        for each in (optimizer, own):
            each.groups[0].settings["lr"] = 0.1 / (1 + k)
        last = train(plain, optimizer, 1)
        assert take_step(X, Y) == pytest.approx(last, rel=1e-9)

    for mine, wanted in ((compiled, plain), (own, optimizer)):
        state = wanted.state_dict()
        found = mine.state_dict()
        assert list(found) == list(state)
        assert all(np.allclose(found[key], state[key], rtol=1e-9, atol=1e-12) for key in state)


def test_a_compiled_step_follows_settings_that_change() -> None:
    model = make_model()
    optimizer = optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    take_step = optim.CompiledStep(model, compute_error, optimizer)
    twin = make_model()
    plain = optim.SGD(twin.parameters(), lr=0.1, momentum=0.9)
    for momentum in (0.9, 0.5):
        optimizer.groups[0].settings["momentum"] = plain.groups[0].settings["momentum"] = momentum
        take_step(X, Y)
        train(twin, plain, 1)

    assert np.allclose(model[0].weight.data, twin[0].weight.data, rtol=1e-12)


def test_a_compiled_step_follows_the_mode_of_the_model() -> None:
    rng = np.random.default_rng(0)
    model = nn.Sequential(
        nn.Linear(2, 3, rng=rng), nn.BatchNorm1d(3), nn.Dropout(0.5, rng=rng), nn.Linear(3, 1, rng=rng)
    )
    take_step = optim.CompiledStep(model, compute_error, optim.SGD(model.parameters(), lr=0.0))
    take_step(X, Y)
    model.eval()
    wanted = float(compute_error(model, X, Y).data)

    assert take_step(X, Y) == pytest.approx(wanted, rel=1e-12)
    assert model[1].num_batches_tracked == 1.0


NORMALIZED: dict[str, Callable[[np.random.Generator], list[nn.Module]]] = {
    "vectors": lambda rng: [nn.Linear(2, 8, rng=rng), nn.BatchNorm1d(8), nn.Linear(8, 2, rng=rng)],
    "mean of all batches": lambda rng: [nn.Linear(2, 2, rng=rng), nn.BatchNorm1d(2, momentum=None)],
    "float32": lambda rng: [nn.BatchNorm1d(2, dtype=np.float32), nn.Linear(2, 2, rng=rng, dtype=np.float32)],
    "with dropout": lambda rng: [nn.BatchNorm1d(2), nn.Dropout(0.5, rng=rng), nn.Linear(2, 2, rng=rng)],
    "nested": lambda rng: [nn.Sequential(nn.BatchNorm1d(2), nn.BatchNorm1d(2, affine=False)), nn.Linear(2, 2, rng=rng)],
    "images": lambda rng: [nn.Unflatten(1, (2, 1, 1)), nn.BatchNorm2d(2), nn.Flatten(), nn.Linear(2, 2, rng=rng)],
}


@pytest.mark.parametrize("kind", NORMALIZED)
def test_a_compiled_step_with_running_means_is_one_recording(kind: str) -> None:
    plain, compiled = (nn.Sequential(*NORMALIZED[kind](np.random.default_rng(0))) for _ in range(2))
    rng = np.random.default_rng(1)
    dtype = next(iter(plain.arrays().values())).dtype
    optimizer = optim.SGD(plain.parameters(), lr=0.1, momentum=0.9)
    take_step = optim.CompiledStep(
        compiled, lambda model, x, y: nn.cross_entropy(model(x), y), optim.SGD(compiled.parameters(), 0.1, momentum=0.9)
    )
    recordings = set()
    for _ in range(20):
        x, y = rng.normal(size=(32, 2)).astype(dtype), rng.integers(0, 2, 32)
        optimizer.zero_grad()
        nn.cross_entropy(plain(x), y).backward()
        optimizer.step()
        take_step(x, y)
        recordings.add((id(take_step._compiled), take_step._compiled.info.records))
    wanted, found = plain.state_dict(), compiled.state_dict()

    assert len(recordings) == 1
    assert all(found[name].dtype == array.dtype for name, array in wanted.items())
    tolerance = 1e-12 if dtype == np.float64 else 1e-5
    assert not [name for name in wanted if not np.allclose(found[name], wanted[name], rtol=tolerance, atol=tolerance)]


def test_a_compiled_step_clips_gradients() -> None:
    model, twin = make_model(), make_model()
    optim.CompiledStep(model, compute_error, optim.SGD(model.parameters(), lr=1.0), max_norm=0.01)(X, Y)
    compute_error(twin, X, Y).backward()
    norm = optim.clip_grad_norm(twin.parameters(), 0.01)
    optim.SGD(twin.parameters(), lr=1.0).step()

    assert norm > 0.1
    assert np.allclose(model[0].weight.data, twin[0].weight.data, rtol=1e-12)


def test_a_compiled_step_leaves_other_parameters_as_they_are() -> None:
    model = make_model()
    before = model.state_dict()
    optimizer = optim.SGD([model[2].weight], lr=0.1)
    optim.CompiledStep(model, compute_error, optimizer)(X, Y)
    changed = [name for name, array in model.state_dict().items() if not np.array_equal(array, before[name])]

    assert changed == ["2.weight"]


def test_a_compiled_step_takes_labels_and_needs_one_recording() -> None:
    model = make_model()
    step = optim.CompiledStep(
        model, lambda model, x, y: nn.cross_entropy(model(x) * np.ones(3), y), optim.Adam(model.parameters())
    )
    rng = np.random.default_rng(0)
    for _ in range(4):
        step(X, rng.integers(0, 3, 8))
    with pytest.raises(IndexError, match="classes must be 0 to 2"):
        step(X, np.full(8, 3))

    assert step._compiled.info.records == 1


def test_a_compiled_step_follows_a_loss_that_arranges_axes_and_ignores_labels() -> None:
    rng = np.random.default_rng(0)
    model = nn.Sequential(nn.Embedding(7, 4, rng=rng), nn.Linear(4, 5, rng=rng))
    plain = nn.Sequential(nn.Embedding(7, 4, rng=rng), nn.Linear(4, 5, rng=rng))
    plain.load_state_dict(model.state_dict())

    def compute(model: Any, x: Any, y: Any) -> Any:
        return nn.cross_entropy(wg.swapaxes(model(x), 1, 2), y)

    take_step = optim.CompiledStep(model, compute, optim.Adam(model.parameters(), 0.05))
    optimizer = optim.Adam(plain.parameters(), 0.05)
    for k in range(5):
        x, y = rng.integers(0, 7, (4, 6)), rng.integers(-1, 5, (4, 6))
        y[y < 0] = -100 if k % 2 else 0
        optimizer.zero_grad()
        loss = compute(plain, x, y)
        loss.backward()
        optimizer.step()
        assert take_step(x, y) == pytest.approx(float(loss.data), rel=1e-12)


def test_a_step_that_is_not_finite_changes_nothing() -> None:
    model = make_model()
    before = model.state_dict()
    optimizer = optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    step = optim.CompiledStep(model, lambda model, x, y: np.sum(np.log(model(x) * 0.0)), optimizer)
    with np.errstate(all="ignore"), pytest.raises(NonFiniteError, match="nothing was changed"):
        step(X, Y)

    assert all(np.array_equal(before[name], array) for name, array in model.state_dict().items())
    assert not optimizer.state


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda m: optim.CompiledStep(np.sin, compute_error, optim.SGD(m.parameters())), "an nn.Module; got ufunc"),
        (lambda m: optim.CompiledStep(m, compute_error, optim.SGD()), "pass model.parameters"),
        (lambda m: optim.CompiledStep(m, compute_error, optim.SGD([wg.Value(1.0)])), "0 is none of them"),
        (lambda m: optim.CompiledStep(m, compute_error, optim.LBFGS(m.parameters())), "not one call"),
        (
            lambda m: optim.CompiledStep(m, compute_error, optim.SGD(m.parameters()))(X, np.full((8, 1), 2**60 + 1)),
            r"up to 2\*\*53",
        ),
    ],
)
def test_compiled_steps_that_are_not_possible_are_refused(make: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        make(make_model())
