"""The table of `flow`: layers of one line that say the same share a row, and the others keep theirs."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

import wiregrad as wg

INPUTS = torch.linspace(-1.0, 1.0, 64).reshape(16, 4)
LABELS = torch.arange(16) % 3


def classify(loss: Callable[[Tensor], Tensor]) -> Any:
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3))
    with wg.watch(net) as seen:
        loss(net(INPUTS)).backward()
    return seen.flow()


def smooth_loss(logits: Tensor) -> Tensor:
    return functional.cross_entropy(logits, LABELS, label_smoothing=0.1)


def plain_loss(logits: Tensor) -> Tensor:
    return functional.cross_entropy(logits, LABELS)


def masked_loss(logits: Tensor) -> Tensor:
    return functional.cross_entropy(logits, LABELS, ignore_index=0)


def rows_of(flow: Any) -> list[str]:
    lines = str(flow).splitlines()
    return [line for line in lines[2:] if line.startswith("  ")]


def count_layers(row: str) -> int:
    folded = re.search(r"\[(\d+)-(\d+)\]", row)
    return 1 if folded is None else int(folded[2]) - int(folded[1]) + 1


@pytest.mark.parametrize("loss", [smooth_loss, plain_loss, masked_loss])
def test_the_rows_stand_for_all_layers_in_their_order(loss: Callable[[Tensor], Tensor]) -> None:
    flow = classify(loss)

    assert sum(map(count_layers, rows_of(flow))) == len(flow.layers)
    assert [row.split()[0] for row in rows_of(flow)][-3:] == ["2", "1", "0"]


def test_layers_of_one_line_that_say_the_same_share_a_row() -> None:
    flow = classify(smooth_loss)
    line = f"test_watched_rows.py:{smooth_loss.__code__.co_firstlineno + 1}"
    rows = [row.strip().partition("  ")[0] for row in rows_of(flow) if line in row]

    assert rows == [f"{line} {numbers}" for numbers in ("[0-2]", "[3]", "[4]", "[5-7]", "[8]", "[9]")]
    assert f"a row such as {line} [0-2] holds several layers of one line, whose numbers are equal" in str(flow)


def repeat_tanh(x: Tensor) -> Tensor:
    for _ in range(6):
        x = torch.tanh(3.0 * x)
    return x.sum()


def test_layers_of_a_loop_that_differ_keep_their_rows() -> None:
    flow = wg.watch(repeat_tanh, torch.linspace(0.1, 0.5, 5)).flow()

    assert "a row such as" not in str(flow)
    assert list(map(count_layers, rows_of(flow))) == [1] * len(flow.layers)


def repeat_shift(x: Any) -> Any:
    for _ in range(6):
        x = x + 1.0
    return (x * x).sum()


def test_layers_of_a_loop_that_are_alike_share_a_row() -> None:
    flow = wg.watch(repeat_shift, torch.linspace(0.1, 0.5, 5)).flow()
    line = f"test_watched_rows.py:{repeat_shift.__code__.co_firstlineno + 2}"

    assert f"  {line} [0-5] " in str(flow)
    assert flow[f"{line} [3]"].gradient.size == 5


def break_later(x: Tensor) -> Tensor:
    for power in (1.0, 1.0, 0.5, 1.0):
        x = x**power
    return x.sum()


def test_layers_that_broke_do_not_share_a_row_with_whole_ones() -> None:
    with wg.watch() as seen:
        break_later(torch.tensor([0.0, 1.0], requires_grad=True)).backward()
    rows = rows_of(seen.flow())

    assert [count_layers(row) for row in rows] == [1, 2, 2]
    assert [row for row in rows if "Inf" in row] == [rows[-1]]


def test_the_chart_has_the_rows_of_the_table() -> None:
    flow = classify(smooth_loss)

    assert "[0-2]" in flow.to_svg()
