"""Eight broken programs that were written before the code that explains them, and first run when it was done."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from .registry import ask_backward, ask_blame, ask_explain, ask_flow, collect_programs, watch_step

PROGRAMS, broken = collect_programs()


@broken(ask_blame, "sqrt", "embed", ("sqrt", "0"))
def unit_vectors_of_an_empty_row() -> Any:
    class Embed(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.table = nn.Parameter(torch.tensor([[0.0, 0.0], [3.0, 4.0]]))

        def forward(self, rows: torch.Tensor) -> torch.Tensor:
            picked = self.table[rows]
            length = picked.pow(2).sum(-1).sqrt()  # broken
            return picked.sum(-1) + length

    model = nn.ModuleDict({"embed": Embed(), "head": nn.Linear(2, 1)})
    return watch_step(model, lambda: model["head"](model["embed"](torch.tensor([0, 1]))).sum())


@broken(ask_blame, "log", "", ("log", "0"))
def entropy_of_certain_probabilities() -> Any:
    logits = torch.tensor([[200.0, 0.0, -5.0]], requires_grad=True)

    def loss() -> torch.Tensor:
        p = torch.softmax(logits, -1)
        log_p = p.log()  # broken
        return -(p * log_p).sum()

    return watch_step(None, loss)


@broken(ask_blame, "div", "gate", ("0",))
def guarded_quotient() -> Any:
    class Gate(nn.Module):
        def forward(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
            quotient = a / b  # broken
            return torch.where(b > 0, quotient, torch.zeros_like(a))

    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.scale = nn.Parameter(torch.tensor([1.0, 0.0, 2.0]))
            self.gate = Gate()

        def forward(self, a: torch.Tensor) -> torch.Tensor:
            return self.gate(a, self.scale)

    model = Model()
    return watch_step(model, lambda: model(torch.ones(3)).sum())


@broken(ask_blame, "mm", "block.up", ("float16",))
def attention_scores_in_half_precision() -> Any:
    class Block(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.up = nn.Linear(64, 4, bias=False)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.up(x)  # broken

    model = nn.ModuleDict({"block": Block()})
    with torch.no_grad():
        model["block"].up.weight.fill_(60.0)
    model.half()
    x = torch.full((2, 64), 40.0, dtype=torch.float16)
    return watch_step(model, lambda: model["block"](x).float().mean())


@broken(ask_backward, "Swish", "act", ("Swish",))
def swish_without_its_second_term() -> Any:
    class Swish(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
            ctx.save_for_backward(x)
            return x * torch.sigmoid(x)

        @staticmethod
        def backward(ctx: Any, g: torch.Tensor) -> torch.Tensor:
            (x,) = ctx.saved_tensors
            return g * torch.sigmoid(x)

    class Act(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return Swish.apply(x)  # broken

    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.fc = nn.Linear(3, 3)
            self.act = Act()

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.act(self.fc(x))

    torch.manual_seed(0)
    model = Model()
    return watch_step(model, lambda: model(torch.randn(4, 3)).sum())


@broken(ask_blame, "tanh", "cell", ("add_",))
def state_that_is_changed_after_it_was_saved() -> Any:
    class Cell(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.w = nn.Linear(3, 3)

        def forward(self, h: torch.Tensor) -> torch.Tensor:
            state = torch.tanh(self.w(h))  # broken
            state += 1.0  # second
            return state

    model = nn.ModuleDict({"cell": Cell()})
    return watch_step(model, lambda: model["cell"](torch.ones(2, 3)).sum())


@broken(ask_explain("teacher.weight"), "detach", "", ("detach",))
def branch_that_is_detached_before_the_loss() -> Any:
    class Pair(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.teacher = nn.Linear(3, 2)
            self.student = nn.Linear(3, 2)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            goal = torch.tanh(self.teacher(x))
            goal = goal.detach()  # broken
            return ((self.student(x) - goal) ** 2).mean()

    model = Pair()
    return watch_step(model, lambda: model(torch.randn(4, 3)))


@broken(ask_flow("vanishes"), "_softmax", "attend", ("softmax",))
def attention_with_scores_that_are_not_scaled() -> Any:
    class Attend(nn.Module):
        def forward(self, q: torch.Tensor, k: torch.Tensor) -> torch.Tensor:
            return torch.softmax(q @ k.T, -1)  # broken

    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.q = nn.Linear(8, 64)
            self.attend = Attend()
            self.out = nn.Linear(6, 1)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            q = self.q(x) * 20.0
            return self.out(self.attend(q, q))

    torch.manual_seed(1)
    model = Model()
    return watch_step(model, lambda: model(torch.randn(6, 8)).sum())
