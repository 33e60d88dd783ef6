"""Trainings of `wg.nn` that go wrong by their steps or data are told so, and healthy ones are not."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import wiregrad as wg
from wiregrad import nn, optim

RNG = np.random.default_rng(0)
X = RNG.normal(size=(64, 5))
Y = X @ RNG.normal(size=(5, 1))


def make_model() -> Any:
    rng = np.random.default_rng(1)
    return nn.Sequential(nn.Linear(5, 16, rng=rng), nn.ReLU(), nn.Linear(16, 1, rng=rng))


def compute_loss(model: Any, x: Any, y: Any) -> Any:
    return nn.mse_loss(model(x), y)


def train(model: Any, optimizer: Any, x: Any = X, *, batch_size: int = 64, epochs: int = 5, watch: bool = True) -> Any:
    rng = np.random.default_rng(2)
    options: dict[str, Any] = {"rng": rng, "epochs": epochs, "batch_size": batch_size, "watch": watch}
    with np.errstate(all="ignore"):
        return wg.train(model, compute_loss, (x, Y), optimizer=optimizer, **options).flight


def test_a_flight_says_that_steps_are_too_long() -> None:
    model = make_model()
    event = train(model, optim.SGD(model.parameters(), lr=1.0)).first("overshot")

    assert event.step == 3
    assert event.sentence.startswith("the steps are too long: the loss rose from 1.159 to 73.77 in 2 steps")


HEALTHY = {
    "descent": (lambda model: optim.SGD(model.parameters(), lr=0.05), 64, 100),
    "batches of one": (lambda model: optim.SGD(model.parameters(), lr=0.02), 1, 4),
    "small batches": (lambda model: optim.SGD(model.parameters(), lr=0.1), 8, 10),
    "edge of stability": (lambda model: optim.SGD(model.parameters(), lr=0.2), 64, 200),
    "momentum": (lambda model: optim.SGD(model.parameters(), lr=0.02, momentum=0.9), 16, 20),
    "adam": (lambda model: optim.Adam(model.parameters(), lr=0.02), 16, 20),
    "decay": (lambda model: optim.AdamW(model.parameters(), lr=0.01, weight_decay=0.1), 16, 20),
}


@pytest.mark.parametrize("name", HEALTHY)
def test_a_healthy_flight_has_no_steps_that_are_too_long(name: str) -> None:
    make_optimizer, batch_size, epochs = HEALTHY[name]
    model = make_model()

    assert train(model, make_optimizer(model), batch_size=batch_size, epochs=epochs).first("overshot") is None


@pytest.mark.parametrize(
    ("watch", "words"), [(True, "the steps are too long: the loss rose from"), (False, "the losses before it rose, ")]
)
def test_an_error_says_that_the_loss_rose_before(watch: bool, words: str) -> None:
    model = make_model()

    with pytest.raises(wg.errors.NonFiniteError, match=f"epoch 7, batch 1; {words}.* lower the learning rate"):
        train(model, optim.SGD(model.parameters(), lr=3.0), epochs=50, watch=watch)


def test_an_error_names_the_optimiser_that_broke_a_parameter() -> None:
    model = make_model()
    model.load_state_dict(model.state_dict() | {"0.bias": np.full(16, -100.0)})

    with pytest.raises(wg.errors.NonFiniteError, match=r"Adam before it left .* in 0.weight.*: its eps is 0"):
        train(model, optim.Adam(model.parameters(), eps=0.0))


def test_an_error_names_the_element_of_a_batch() -> None:
    model = make_model()
    x = X.copy()
    x[7, 2] = np.nan

    with pytest.raises(wg.errors.NonFiniteError) as caught:
        train(model, optim.SGD(model.parameters(), lr=0.1), x)

    head, said, *_ = str(caught.value).splitlines()
    row = int(head.partition("has NaN at [")[2].partition(",")[0])

    assert f"; x of the batch has NaN at [{row}, 2]" in head
    assert f"is NaN from the start (element [{row}, 2]), first read by matmul(" in said
    assert "array([[" not in said
