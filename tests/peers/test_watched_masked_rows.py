"""NaN that does not reach the loss, but spoils gradients, is followed to the op or the input that it comes from."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

import wiregrad as wg

nn = torch.nn

NAN = float("nan")
ROWS = torch.ones(4, 3)
ROWS[2, 1] = NAN
Program = Callable[[], Any]


def attend_to_a_masked_row() -> Any:
    attention = nn.MultiheadAttention(8, 2, batch_first=True)
    tokens = torch.randn(2, 4, 8)
    mask = torch.tensor([[False] * 4, [True] * 4])
    return attention(tokens, tokens, tokens, key_padding_mask=mask)[0][0].square().mean()


def select_behind_a_product() -> Any:
    x = torch.tensor([4.0, -1.0], requires_grad=True)
    weight = torch.ones(2, requires_grad=True)
    return torch.where(x > 0, x.sqrt() * weight, 0.0).sum()


def leave_out_a_row_of_a_layer() -> Any:
    return nn.Linear(3, 2)(ROWS)[:2].sum()


def replace_what_a_layer_returns() -> Any:
    return torch.nan_to_num(nn.Linear(3, 2)(ROWS)).sum()


def select_behind_a_root() -> Any:
    x = torch.tensor([4.0, -1.0], requires_grad=True)
    return torch.where(x > 0, x.sqrt(), 0.0).sum()


def take_the_root_beside_nan() -> Any:
    x = torch.tensor([0.0, 1.0], requires_grad=True)
    root = (x + torch.tensor([0.0, NAN])).sqrt()
    return (0.0 * root)[0]


@pytest.mark.parametrize(
    ("program", "words"),
    [
        (attend_to_a_masked_row, ("_softmax gave NaN", "does not depend on it", "a whole row is masked")),
        (
            select_behind_a_product,
            ("sqrt gave NaN at x = -1", "the backward pass of mul does", "keep the argument"),
        ),
        (leave_out_a_row_of_a_layer, ("input of shape (4, 3) has NaN at element [2, 1]", "addmm does")),
        (replace_what_a_layer_returns, ("input of shape (4, 3) has NaN at element [2, 1]", "addmm does")),
        (select_behind_a_root, ("sqrt sent back NaN: it received 0",)),
        (take_the_root_beside_nan, ("sqrt sent back NaN: it received 0", "element [0]")),
    ],
)
def test_the_cause_is_named_alone(program: Program, words: tuple[str, ...]) -> None:
    torch.manual_seed(0)
    with wg.watch() as seen:
        program().backward()
    answer = seen.blame()

    assert [word for word in words if word not in str(answer)] == []
    assert len(answer.origins) == 1


def test_a_mask_that_leaves_something_in_each_row_is_no_fault() -> None:
    attention = nn.MultiheadAttention(8, 2, batch_first=True)
    tokens = torch.randn(2, 4, 8)
    mask = torch.tensor([[False] * 4, [True] * 3 + [False]])
    with wg.watch(attention) as seen:
        attention(tokens, tokens, tokens, key_padding_mask=mask)[0][0].square().mean().backward()

    assert not seen.blame()


@pytest.mark.parametrize("axis", [0, 1, -1])
@pytest.mark.parametrize("function", [torch.softmax, torch.log_softmax])
def test_a_row_that_is_masked_as_a_whole_is_named_with_its_mask(function: Any, axis: int) -> None:
    scores = torch.zeros(3, 3, requires_grad=True)
    mask = torch.zeros(3, 3, dtype=torch.bool)
    mask.select(1 - axis % 2, 1).fill_(True)
    with wg.watch() as seen:
        masked = scores.masked_fill(mask, float("-inf"))
        function(masked, axis).sum().backward()

    words = str(seen.blame())
    assert "gave NaN at a row that is -Inf as a whole, made by masked_fill at " in words
    assert "if a whole row is masked" in words


def test_a_row_with_one_number_left_is_no_masked_row() -> None:
    scores = torch.tensor([[NAN, -torch.inf]], requires_grad=True)
    with wg.watch() as seen:
        torch.softmax(scores, -1).sum().backward()

    assert "row that is -Inf" not in str(seen.blame())
