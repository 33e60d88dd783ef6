"""Optimisers with PyTorch's names, defaults and formulas: SGD, RMSprop, Adam, AdamW, Adagrad, LBFGS; and schedules.

Each formula is written once, in `change_parameter`: a pure function of a parameter, its gradient, what is kept for it,
and the settings. Two ways lead to it. `optimizer.step()` changes the parameters that it was made for, after
`loss.backward()`. `optimizer.update(parameters, gradients, state)` returns new dicts of arrays and changes nothing, so
it can be part of a function that `wg.compile` turns into one call.

>>> weight = wg.Value(np.array([1.0, -2.0]))
>>> optimizer = SGD({"weight": weight}, lr=0.1)
>>> np.sum(weight**2).backward()
>>> optimizer.step()
>>> weight.data
array([ 0.8, -1.6])
>>> pure = SGD(lr=0.1)
>>> parameters = {"weight": np.array([1.0, -2.0])}
>>> state = pure.init(parameters)
>>> parameters, state = pure.update(parameters, {"weight": np.array([2.0, -4.0])}, state)
>>> parameters
{'weight': array([ 0.8, -1.6])}
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray

import wiregrad as wg
from wiregrad.errors import (
    InputError,
    NonFiniteError,
    OperandError,
    StateError,
    UnknownNameError,
    short_repr,
    suggest_name,
)

__all__ = [
    "LBFGS",
    "SGD",
    "Adagrad",
    "Adam",
    "AdamW",
    "CompiledStep",
    "CosineAnnealingLR",
    "ExponentialLR",
    "LambdaLR",
    "LinearLR",
    "MultiStepLR",
    "Optimizer",
    "RMSprop",
    "ReduceLROnPlateau",
    "Schedule",
    "SequentialLR",
    "StepLR",
    "clip_by_norm",
    "clip_by_value",
    "clip_grad_norm",
    "clip_grad_value",
]

NAMES_ELSEWHERE = {
    "lr_scheduler": "schedules are in optim itself; write optim.StepLR",
    "Momentum": "write optim.SGD(parameters, lr=0.1, momentum=0.9)",
    "clip_by_global_norm": "write optim.clip_by_norm",
    "cosine_decay_schedule": "write optim.CosineAnnealingLR",
    "exponential_decay": "write optim.ExponentialLR",
    **dict.fromkeys(("apply_updates", "chain", "init", "update"), "write optimizer.step()"),
    "minimize": "write wg.minimize",
}
"""What `torch.optim` or Optax has under another name, and what to write instead."""

if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        hint = f"; {NAMES_ELSEWHERE[name]}" if name in NAMES_ELSEWHERE else suggest_name(name, __all__)
        raise AttributeError(f"wiregrad.optim has no {name!r}{hint}", name=name)


Kept = dict[str, Any]
"""What an optimiser keeps for one parameter, by name: numbers, and arrays of the parameter's shape."""
Arrays = Mapping[str, Any]
ParameterSource = Mapping[str, wg.Value] | Iterable[wg.Value] | Iterable[Mapping[str, Any]] | None
"""Parameters by name, one after another, or as groups: dicts with "params" and settings of their own."""


@dataclass
class ParameterGroup:
    """Parameters that share settings; the only group of a pure optimiser has all names, which is None here."""

    names: tuple[str, ...] | None
    settings: dict[str, float]


def _check_flat(parameters: object) -> None:
    """Raise unless parameters are a dict of arrays by name."""
    if isinstance(parameters, Mapping):
        nested = next((name for name, x in parameters.items() if isinstance(x, Mapping | list | tuple)), None)
        if nested is None:
            return
        what = f"a {type(parameters[nested]).__name__} under {nested!r}"
    else:
        what = f"a {type(parameters).__name__}"
    raise OperandError(
        f"the parameters are one dict from names to arrays; got {what}: put all arrays into one dict, under names "
        'such as "0.weight", as model.arrays() does'
    )


class Optimizer:
    """What all optimisers share: groups of parameters, their settings, and what is kept for each parameter.

    `parameters` is `model.parameters()`, a list of values, or a list of dicts with `"params"` and settings of their
    own. Without it the optimiser is used through `init` and `update` alone.
    """

    def __init__(self, parameters: ParameterSource = None, **settings: float) -> None:
        _check_settings(settings)
        self.parameters: dict[str, wg.Value] = {}
        self.groups: list[ParameterGroup] = []
        self.state: dict[str, Any] = {}
        for group in _list_groups(parameters):
            own = {name: value for name, value in group.items() if name != "params"}
            unknown = [name for name in own if name not in settings]
            if unknown:
                raise InputError(f"{type(self).__name__} has no setting {unknown[0]!r}; it has {', '.join(settings)}")
            _check_settings(own)
            self.groups.append(ParameterGroup(self._take_parameters(group["params"]), {**settings, **own}))

    def _take_parameters(self, parameters: Any) -> tuple[str, ...] | None:
        """Note the parameters of a group; returns their names."""
        if parameters is None:
            return None
        if not isinstance(parameters, Mapping):
            first = len(self.parameters)
            parameters = {str(first + k): value for k, value in enumerate(parameters)}
        if not parameters or any(not isinstance(value, wg.Value) for value in parameters.values()):
            others = [value for value in parameters.values() if not isinstance(value, wg.Value)]
            got = f"; got {short_repr(others[0])}" if others else ""
            if others and isinstance(others[0], str):
                got += ": a list or iterator of that dict has only its names, so pass the dict, or its values()"
            elif others and isinstance(others[0], np.ndarray | Mapping | list | tuple):
                got += f": for plain arrays make {type(self).__name__}(lr=...), and use its init and update"
            raise InputError(f"{type(self).__name__} takes one wg.Value or more, such as model.parameters(){got}")
        names = []
        known = {id(value): name for name, value in self.parameters.items()}
        for name, value in parameters.items():
            if id(value) in known:
                raise InputError(f"the parameter {name} is given twice, before as {known[id(value)]}")
            # Parts of a model have parameters of the same names.
            names.append(f"{len(self.groups)}.{name}" if name in self.parameters else name)
            known[id(value)] = names[-1]
            self.parameters[names[-1]] = value
        return tuple(names)

    def list_rates(self) -> dict[str, float]:
        """Return the learning rate of each group, by the name that it has in a state."""
        return {f"groups.{k}.lr": group.settings["lr"] for k, group in enumerate(self.groups)}

    def without_parameters(self) -> Self:
        """Return an optimiser with the groups and settings of this one, to be used through `update` alone."""
        pure = copy(self)
        groups = [ParameterGroup(group.names, dict(group.settings)) for group in self.groups]
        vars(pure).update(parameters={}, state={}, groups=groups)
        return pure

    def keep_for(self, parameter: Any, settings: Mapping[str, float]) -> Kept:
        """Return what is kept for a parameter before the first step."""
        raise NotImplementedError

    def change_parameter(
        self, parameter: Any, gradient: Any, kept: Kept, settings: Mapping[str, Any]
    ) -> tuple[Any, Kept]:
        """Return the parameter after a step, and what is kept for the next one."""
        raise NotImplementedError

    def init(self, parameters: Arrays) -> dict[str, Any]:
        """Return the state before the first step for a dict of arrays: learning rates, and what is kept for each."""
        state: dict[str, Any] = dict(self.list_rates())
        for _, group, name in self._list_members(parameters):
            kept = self.keep_for(parameters[name], group.settings)
            state |= {f"{name}.{part}": value for part, value in kept.items()}
        return state

    def update(self, parameters: Arrays, gradients: Arrays, state: Arrays) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return the parameters and the state after one step; a parameter whose gradient is None stays as it is.

        Learning rates are read from the state (`groups.0.lr`), so that a compiled function may change them.
        """
        after, changed = dict(parameters), dict(state)
        for k, group, name in self._list_members(parameters):
            if _read_part(gradients, name, "a gradient") is None:
                continue
            settings = {**group.settings, "lr": _read_part(state, f"groups.{k}.lr")}
            parts = self.keep_for(parameters[name], group.settings)
            kept = {part: _read_part(state, f"{name}.{part}") for part in parts}
            after[name], kept = self.change_parameter(parameters[name], gradients[name], kept, settings)
            changed |= {f"{name}.{part}": value for part, value in kept.items()}
        return after, changed

    def _list_members(self, parameters: Arrays) -> list[tuple[int, ParameterGroup, str]]:
        """Return each name with its group and the group's number."""
        _check_flat(parameters)
        members = [
            (k, group, name)
            for k, group in enumerate(self.groups)
            for name in (parameters if group.names is None else group.names)
        ]
        missing = [name for _, _, name in members if name not in parameters]
        if missing:
            raise UnknownNameError(f"the optimiser has a parameter {missing[0]!r}, which is not among the arrays")
        return members

    def step(self) -> None:
        """Change the parameters by their gradients; those without a gradient stay as they are."""
        if not self.parameters:
            raise InputError(
                f"{type(self).__name__} was made without parameters: pass model.parameters(), or use update"
            )
        arrays = {name: value.data for name, value in self.parameters.items()}
        gradients = {name: value.grad for name, value in self.parameters.items()}
        state = {**self.init(arrays), **self.state} if not self.state else dict(self.state)
        state |= self.list_rates()
        arrays, self.state = self.update(arrays, gradients, state)
        for name, value in self.parameters.items():
            if gradients[name] is not None:
                value.data = arrays[name]

    def zero_grad(self) -> None:
        """Forget the gradients of all parameters."""
        for value in self.parameters.values():
            value.grad = None

    def state_dict(self) -> dict[str, Any]:
        """Return all settings and everything that is kept, as one flat dict of numbers and arrays."""
        settings = {
            f"groups.{k}.{name}": value for k, group in enumerate(self.groups) for name, value in group.settings.items()
        }
        arrays = {name: value.data for name, value in self.parameters.items()}
        state = self.state or self.init(arrays)
        copies = {name: np.array(value) if np.ndim(value) else _as_number(value) for name, value in state.items()}
        return {**copies, **settings}

    def load_state_dict(self, state: Arrays) -> None:
        """Take over settings and what is kept; nothing changes unless all of it fits."""
        self._check_fit(state, self.state_dict())
        for k, group in enumerate(self.groups):
            group.settings = {name: _as_number(state[f"groups.{k}.{name}"]) for name in group.settings}
        kept = self.init({name: value.data for name, value in self.parameters.items()})
        self._load_kept({name: state[name] for name in kept})

    def _load_kept(self, kept: Arrays) -> None:
        """Take over what is kept, which fits."""
        self.state = {name: np.array(value) if np.ndim(value) else _as_number(value) for name, value in kept.items()}

    def _check_fit(self, state: Arrays, own: Arrays) -> None:
        """Raise an error that lists everything by which a state differs from the one of this optimiser."""
        missing = [name for name in own if name not in state]
        unknown = [name for name in state if name not in own]
        shapes = [name for name in own if name in state and np.shape(own[name]) != np.shape(state[name])]
        if missing or unknown or shapes:
            lists = {"missing": missing, "unexpected": unknown, "of another shape": shapes}
            lines = "".join(f"\n  {kind}: {', '.join(names)}" for kind, names in lists.items() if names)
            raise StateError(f"the state does not fit {type(self).__name__}:{lines}")

    def torch_state_dict(self, convert: Callable[[NDArray[Any]], Any] = np.asarray) -> dict[str, Any]:
        """Return the state as PyTorch's optimiser of the same name has it, for its `load_state_dict`.

        `convert` makes a tensor of an array: `optimizer.torch_state_dict(torch.tensor)`.
        """
        numbers = {name: number for number, name in enumerate(self.parameters)}
        groups = [
            {**self.name_torch_settings(group.settings), "params": [numbers[name] for name in group.names or ()]}
            for group in self.groups
        ]
        state = self.state or self.init({name: value.data for name, value in self.parameters.items()})
        kept = {
            numbers[name]: self.name_torch_parts(
                {part: state[f"{name}.{part}"] for part in self.keep_for(self.parameters[name].data, group.settings)}
            )
            for _, group, name in self._list_members(self.parameters)
        }
        tensors = {
            number: {part: convert(np.asarray(value)) for part, value in parts.items()}
            for number, parts in kept.items()
            if parts
        }
        return {"state": tensors, "param_groups": groups}

    def load_torch_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take over the state of PyTorch's optimiser of the same name, which has as many parameters in each group."""
        _check_torch_state(state, self)
        before = [group.settings for group in self.groups]
        try:
            for group, settings in zip(self.groups, state["param_groups"], strict=True):
                # Settings say what is kept.
                group.settings = {**group.settings, **self.read_torch_settings(settings)}
            own = self.init({name: value.data for name, value in self.parameters.items()})
            kept = {
                f"{name}.{part}": value
                for number, name in enumerate(self.parameters)
                for part, value in self.read_torch_parts(state["state"].get(number, {})).items()
            }
            self._check_fit({**own, **kept}, own)
            self._load_kept({**own, **kept})
        except StateError:
            for group, settings in zip(self.groups, before, strict=True):
                group.settings = settings
            raise

    def name_torch_settings(self, settings: Mapping[str, float]) -> dict[str, Any]:
        """Return settings by PyTorch's names."""
        return dict(settings)

    def read_torch_settings(self, settings: Mapping[str, Any]) -> dict[str, Any]:
        """Return PyTorch's settings by our names, without those that say how it computes."""
        own = self.groups[0].settings
        return {name: _as_number(_as_plain(value)) for name, value in settings.items() if name in own}

    def name_torch_parts(self, kept: Kept) -> Kept:
        """Return what is kept for a parameter as PyTorch keeps it; empty if there was no step yet."""
        return {**kept, "step": np.float32(kept["step"])} if kept.get("step") else {}

    def read_torch_parts(self, kept: Mapping[str, Any]) -> Kept:
        """Return what PyTorch keeps for a parameter as we keep it."""
        return {part: _as_number(_as_plain(value)) for part, value in kept.items()}

    def __repr__(self) -> str:
        lines = [
            f"  group {k}: " + ", ".join(f"{name}={value}" for name, value in group.settings.items())
            for k, group in enumerate(self.groups)
        ]
        return "\n".join([f"{type(self).__name__}, {len(self.parameters)} parameters", *lines])


def _read_part(values: Arrays, name: str, what: str = "an entry of the state") -> Any:
    if name not in values:
        raise UnknownNameError(f"update needs {what} named {name!r}; a state is made by init(parameters)")
    return values[name]


def _list_groups(parameters: object) -> list[dict[str, Any]]:
    """Return groups as dicts with the key "params"."""
    if parameters is None or isinstance(parameters, Mapping):
        return [{"params": parameters}]
    if not isinstance(parameters, Iterable):
        is_model = hasattr(parameters, "parameters") or getattr(parameters, "__name__", "") == "parameters"
        hint = "model.parameters()" if is_model else "a dict or list of wg.Value"
        raise InputError(f"an optimiser takes {hint}; got {short_repr(parameters)}")
    listed = list(parameters)
    if listed and all(isinstance(group, Mapping) and "params" in group for group in listed):
        return [dict(group) for group in listed]
    return [{"params": listed}]


def _check_settings(settings: Mapping[str, float]) -> None:
    for name, value in settings.items():
        if not isinstance(value, bool | int | float) or not value >= 0.0:
            raise InputError(f"{name} must be a number of at least 0; got {value!r}")


def _as_number(value: object) -> Any:
    """Return a number that may have come from a file as a number of Python, and an array as it is."""
    return value.item() if isinstance(value, np.ndarray | np.generic) and not value.ndim else value


def _as_plain(value: object) -> Any:
    """Return a tensor of PyTorch as an array, and anything else as it is."""
    return value.detach().cpu().numpy() if hasattr(value, "detach") else value


def _check_torch_state(state: object, optimizer: Optimizer) -> None:
    """Raise an error unless a state is one of PyTorch that has the groups of an optimiser."""
    name = type(optimizer).__name__
    if not isinstance(state, Mapping) or not {"state", "param_groups"} <= state.keys():
        raise StateError(f"{name} needs the state_dict() of an optimiser of PyTorch; got {short_repr(state)}")
    given = [len(group["params"]) for group in state["param_groups"]]
    own = [len(group.names or ()) for group in optimizer.groups]
    if given != own:
        raise StateError(f"{name} has groups of {own} parameters, the state of PyTorch of {given}")
    if any(group.get("maximize") for group in state["param_groups"]):
        raise StateError(f"{name} has no setting maximize: change the sign of the loss")


class SGD(Optimizer):
    """Gradient descent, with momentum, Nesterov's variant of it, and weight decay.

    >>> SGD([wg.Value(2.0)], lr=0.1, momentum=0.9)
    SGD, 1 parameters
      group 0: lr=0.1, momentum=0.9, dampening=0.0, weight_decay=0.0, nesterov=False
    """

    def __init__(
        self,
        parameters: ParameterSource = None,
        lr: float = 1e-3,
        momentum: float = 0.0,
        dampening: float = 0.0,
        weight_decay: float = 0.0,
        nesterov: bool = False,
    ) -> None:
        if nesterov and (momentum == 0.0 or dampening != 0.0):
            raise InputError("nesterov needs momentum, and dampening of 0")
        super().__init__(
            parameters,
            lr=lr,
            momentum=momentum,
            dampening=dampening,
            weight_decay=weight_decay,
            nesterov=nesterov,
        )

    def name_torch_parts(self, kept: Kept) -> Kept:
        """Return what is kept as PyTorch keeps it: without the number of steps."""
        return {"momentum_buffer": kept["momentum_buffer"]} if kept.get("step") else {}

    def read_torch_parts(self, kept: Mapping[str, Any]) -> Kept:
        """Return what PyTorch keeps; that there is a running sum says that there was a step."""
        momentum = kept.get("momentum_buffer")
        return {} if momentum is None else {"step": 1.0, "momentum_buffer": _as_plain(momentum)}

    def keep_for(self, parameter: Any, settings: Mapping[str, float]) -> Kept:
        """Return what is kept: a running sum of gradients."""
        return {"step": 0.0, "momentum_buffer": np.zeros_like(parameter)} if settings["momentum"] else {}

    def change_parameter(
        self, parameter: Any, gradient: Any, kept: Kept, settings: Mapping[str, Any]
    ) -> tuple[Any, Kept]:
        """Return the parameter after a step, and the running sum."""
        gradient = _decay(parameter, gradient, settings)
        rate = _fit_dtype(settings["lr"], parameter)
        if not settings["momentum"]:
            return parameter - rate * gradient, {}
        momentum = settings["momentum"] * kept["momentum_buffer"]
        if settings["dampening"]:
            # The first gradient is taken whole.
            share = np.where(kept["step"] > 0.0, 1.0 - settings["dampening"], 1.0)
            momentum = momentum + _fit_dtype(share, parameter) * gradient
        else:
            momentum = momentum + gradient
        direction = gradient + settings["momentum"] * momentum if settings["nesterov"] else momentum
        return parameter - rate * direction, {"step": kept["step"] + 1.0, "momentum_buffer": momentum}


def _decay(parameter: Any, gradient: Any, settings: Mapping[str, Any]) -> Any:
    """Return the gradient of the loss plus half the weight decay times the squared parameter."""
    return gradient + settings["weight_decay"] * parameter if settings["weight_decay"] else gradient


def _fit_dtype(number: Any, parameter: Any) -> Any:
    """Return a number that may be recorded in the dtype of a parameter, so that what it is multiplied by keeps its own.

    A number of Python has no dtype of its own; on a wire of a circuit it is a float64.
    """
    if isinstance(number, float) or number.dtype == parameter.dtype:
        return number
    return number.astype(parameter.dtype)


class RMSprop(Optimizer):
    """Gradient descent divided by the root of a running mean of squared gradients."""

    def __init__(
        self,
        parameters: ParameterSource = None,
        lr: float = 1e-2,
        alpha: float = 0.99,
        eps: float = 1e-8,
        weight_decay: float = 0.0,
        momentum: float = 0.0,
        centered: bool = False,
    ) -> None:
        super().__init__(
            parameters,
            lr=lr,
            alpha=alpha,
            eps=eps,
            weight_decay=weight_decay,
            momentum=momentum,
            centered=centered,
        )

    def name_torch_parts(self, kept: Kept) -> Kept:
        """Return what is kept as PyTorch keeps it: with a number of steps, which changes nothing."""
        return {"step": np.float32(1.0), **kept}

    def read_torch_parts(self, kept: Mapping[str, Any]) -> Kept:
        """Return what PyTorch keeps, without the number of steps."""
        return {part: value for part, value in super().read_torch_parts(kept).items() if part != "step"}

    def keep_for(self, parameter: Any, settings: Mapping[str, float]) -> Kept:
        """Return what is kept: running means, and a running sum for momentum."""
        names = ["square_avg"]
        names += ["grad_avg"] if settings["centered"] else []
        names += ["momentum_buffer"] if settings["momentum"] else []
        return {name: np.zeros_like(parameter) for name in names}

    def change_parameter(
        self, parameter: Any, gradient: Any, kept: Kept, settings: Mapping[str, Any]
    ) -> tuple[Any, Kept]:
        """Return the parameter after a step, and the running means."""
        alpha = settings["alpha"]
        gradient = _decay(parameter, gradient, settings)
        after = {"square_avg": alpha * kept["square_avg"] + (1.0 - alpha) * gradient * gradient}
        variance = after["square_avg"]
        if settings["centered"]:
            after["grad_avg"] = alpha * kept["grad_avg"] + (1.0 - alpha) * gradient
            variance = variance - after["grad_avg"] * after["grad_avg"]
        direction = gradient / (np.sqrt(variance) + settings["eps"])
        if settings["momentum"]:
            direction = settings["momentum"] * kept["momentum_buffer"] + direction
            after["momentum_buffer"] = direction
        return parameter - _fit_dtype(settings["lr"], parameter) * direction, after


class Adam(Optimizer):
    """Running means of gradients and of their squares, each divided by what the start at 0 leaves out.

    >>> model = {"w": np.array([1.0])}
    >>> adam = Adam(lr=0.5)
    >>> adam.update(model, {"w": np.array([4.0])}, adam.init(model))[0]
    {'w': array([0.5])}
    """

    def __init__(
        self,
        parameters: ParameterSource = None,
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0.0,
        amsgrad: bool = False,
    ) -> None:
        super().__init__(
            parameters,
            lr=lr,
            beta1=betas[0],
            beta2=betas[1],
            eps=eps,
            weight_decay=weight_decay,
            amsgrad=amsgrad,
        )
        if any(not 0.0 <= beta < 1.0 for beta in betas):
            raise InputError(f"betas must be at least 0 and less than 1; got {betas}")

    def name_torch_settings(self, settings: Mapping[str, float]) -> dict[str, Any]:
        """Return settings by PyTorch's names: two betas are one setting."""
        others = {name: value for name, value in settings.items() if name not in ("beta1", "beta2")}
        return {**others, "betas": (settings["beta1"], settings["beta2"])}

    def read_torch_settings(self, settings: Mapping[str, Any]) -> dict[str, Any]:
        """Return PyTorch's settings by our names."""
        beta1, beta2 = settings["betas"]
        return {**super().read_torch_settings(settings), "beta1": beta1, "beta2": beta2}

    def keep_for(self, parameter: Any, settings: Mapping[str, float]) -> Kept:
        """Return what is kept: the number of steps, and running means."""
        names = ["exp_avg", "exp_avg_sq"] + (["max_exp_avg_sq"] if settings["amsgrad"] else [])
        return {"step": 0.0, **{name: np.zeros_like(parameter) for name in names}}

    def apply_decay(self, parameter: Any, gradient: Any, settings: Mapping[str, Any]) -> tuple[Any, Any]:
        """Return the parameter and the gradient with weight decay, which is a part of the loss here."""
        return parameter, _decay(parameter, gradient, settings)

    def change_parameter(
        self, parameter: Any, gradient: Any, kept: Kept, settings: Mapping[str, Any]
    ) -> tuple[Any, Kept]:
        """Return the parameter after a step, and the running means."""
        parameter, gradient = self.apply_decay(parameter, gradient, settings)
        beta1, beta2 = settings["beta1"], settings["beta2"]
        step = kept["step"] + 1.0
        mean = beta1 * kept["exp_avg"] + (1.0 - beta1) * gradient
        square = beta2 * kept["exp_avg_sq"] + (1.0 - beta2) * gradient * gradient
        after = {"step": step, "exp_avg": mean, "exp_avg_sq": square}
        if settings["amsgrad"]:
            square = after["max_exp_avg_sq"] = np.maximum(kept["max_exp_avg_sq"], square)
        spread = np.sqrt(square) / _fit_dtype((1.0 - beta2**step) ** 0.5, parameter) + settings["eps"]
        rate = _fit_dtype(settings["lr"] / (1.0 - beta1**step), parameter)
        return parameter - rate * mean / spread, after


class AdamW(Adam):
    """Adam with weight decay beside the loss: parameters shrink by a share of the learning rate."""

    def __init__(
        self,
        parameters: ParameterSource = None,
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 1e-2,
        amsgrad: bool = False,
    ) -> None:
        super().__init__(parameters, lr, betas, eps, weight_decay, amsgrad)

    def apply_decay(self, parameter: Any, gradient: Any, settings: Mapping[str, Any]) -> tuple[Any, Any]:
        """Return the parameter, made smaller, and the gradient as it is."""
        return _fit_dtype(1.0 - settings["lr"] * settings["weight_decay"], parameter) * parameter, gradient


class Adagrad(Optimizer):
    """Gradient descent divided by the root of the sum of all squared gradients."""

    def __init__(
        self,
        parameters: ParameterSource = None,
        lr: float = 1e-2,
        lr_decay: float = 0.0,
        weight_decay: float = 0.0,
        initial_accumulator_value: float = 0.0,
        eps: float = 1e-10,
    ) -> None:
        super().__init__(
            parameters,
            lr=lr,
            lr_decay=lr_decay,
            weight_decay=weight_decay,
            initial_accumulator_value=initial_accumulator_value,
            eps=eps,
        )

    def keep_for(self, parameter: Any, settings: Mapping[str, float]) -> Kept:
        """Return what is kept: the number of steps, and a sum of squares."""
        return {"step": 0.0, "sum": np.zeros_like(parameter) + settings["initial_accumulator_value"]}

    def name_torch_parts(self, kept: Kept) -> Kept:
        """Return what is kept as PyTorch keeps it, which is there before the first step."""
        return {"step": np.float32(kept["step"]), "sum": kept["sum"]}

    def change_parameter(
        self, parameter: Any, gradient: Any, kept: Kept, settings: Mapping[str, Any]
    ) -> tuple[Any, Kept]:
        """Return the parameter after a step, and the sum of squares."""
        gradient = _decay(parameter, gradient, settings)
        rate = settings["lr"] / (1.0 + kept["step"] * settings["lr_decay"])
        total = kept["sum"] + gradient * gradient
        after = {"step": kept["step"] + 1.0, "sum": total}
        return parameter - _fit_dtype(rate, parameter) * gradient / (np.sqrt(total) + settings["eps"]), after


@dataclass(frozen=True)
class LinePoint:
    """A point along a direction: how far it is, the loss and its gradient there, and the slope along the direction."""

    distance: float
    loss: float
    gradient: NDArray[Any]
    slope: float


SUFFICIENT_DECREASE = 1e-4
"""Share of the decrease that the first slope promises, which a step must reach (Armijo's condition)."""
SUFFICIENT_FLATNESS = 0.9
"""Share of the first slope that may be left after a step (the curvature condition)."""
SMALLEST_BRACKET = 1e-9
"""A bracket whose ends are closer than this, in the largest change of a parameter, is not divided further."""


def search_line(
    evaluate: Callable[[float], LinePoint], start: LinePoint, first: float, limit: int, size: float
) -> tuple[LinePoint, int]:
    """Return a point that satisfies the strong Wolfe conditions, and how many points were evaluated.

    `first` is the distance that is tried first, `size` the largest element of the direction. After `limit` further
    points the best one so far is returned.
    """
    before, point = start, evaluate(first)
    for count in range(limit):
        if _is_too_high(point, start) or (count > 1 and point.loss >= before.loss):
            return _divide_bracket(evaluate, start, before, point, count, limit, size)
        if _is_flat(point, start):
            return point, count + 1
        if point.slope >= 0.0:
            return _divide_bracket(evaluate, start, before, point, count, limit, size)
        nearest = point.distance + 0.01 * (point.distance - before.distance)
        distance = _find_cubic_minimum(before, point, nearest, 10.0 * point.distance)
        before, point = point, evaluate(distance)
    return min(start, point, key=lambda end: end.loss), limit + 1


def _is_too_high(point: LinePoint, start: LinePoint) -> bool:
    return point.loss > start.loss + SUFFICIENT_DECREASE * point.distance * start.slope


def _is_flat(point: LinePoint, start: LinePoint) -> bool:
    return abs(point.slope) <= -SUFFICIENT_FLATNESS * start.slope


def _find_cubic_minimum(a: LinePoint, b: LinePoint, low: float, high: float) -> float:
    """Return where the cubic through two points with their slopes has its minimum, between bounds."""
    if a.distance > b.distance:
        a, b = b, a
    bend = a.slope + b.slope - 3.0 * (a.loss - b.loss) / (a.distance - b.distance)
    square = bend**2 - a.slope * b.slope
    if not square >= 0.0:
        return (low + high) / 2.0
    root = math.sqrt(square)
    share = (b.slope + root - bend) / (b.slope - a.slope + 2.0 * root)
    return min(max(b.distance - (b.distance - a.distance) * share, low), high)


def _divide_bracket(
    evaluate: Callable[[float], LinePoint],
    start: LinePoint,
    first: LinePoint,
    second: LinePoint,
    count: int,
    limit: int,
    size: float,
) -> tuple[LinePoint, int]:
    """Return the point of a bracket that satisfies the conditions, after as few divisions as possible."""
    low, high = (first, second) if first.loss <= second.loss else (second, first)
    near_edge = False
    while count < limit and abs(high.distance - low.distance) * size >= SMALLEST_BRACKET:
        distance, near_edge = _choose_inside(low, high, near_edge)
        point = evaluate(distance)
        count += 1
        if _is_too_high(point, start) or point.loss >= low.loss:
            low, high = (low, point) if low.loss <= point.loss else (point, low)
        elif _is_flat(point, start):
            return point, count + 1
        else:
            high = low if point.slope * (high.distance - low.distance) >= 0.0 else high
            low = point
    return low, count + 1


def _choose_inside(low: LinePoint, high: LinePoint, near_edge: bool) -> tuple[float, bool]:
    """Return a distance inside a bracket, and whether it is close to an edge; not twice in turn."""
    left, right = sorted((low.distance, high.distance))
    distance = _find_cubic_minimum(low, high, left, right)
    border = 0.1 * (right - left)
    if min(right - distance, distance - left) >= border:
        return distance, False
    if not near_edge and left < distance < right:
        return distance, True
    return right - border if right - distance < distance - left else left + border, False


class LBFGS(Optimizer):
    """Limited-memory BFGS: steps along gradients that the changes of the last gradients have bent.

    It needs the loss at several points, so `step` takes a function that forgets the gradients, computes the loss,
    calls `backward()` and returns the loss. `line_search_fn="strong_wolfe"` chooses the length of each step.

    >>> x = wg.Value(np.array([3.0, -4.0]))
    >>> optimizer = LBFGS([x], line_search_fn="strong_wolfe")
    >>> def closure():
    ...     optimizer.zero_grad()
    ...     loss = np.sum((x - np.array([1.0, 2.0])) ** 2 * np.array([1.0, 10.0]))
    ...     loss.backward()
    ...     return loss
    >>> round(optimizer.step(closure).item(), 3)
    364.0
    >>> x.data.round(6).tolist()
    [1.0, 2.0]
    """

    def __init__(
        self,
        parameters: ParameterSource,
        lr: float = 1.0,
        max_iter: int = 20,
        max_eval: int | None = None,
        tolerance_grad: float = 1e-7,
        tolerance_change: float = 1e-9,
        history_size: int = 100,
        line_search_fn: str | None = None,
    ) -> None:
        if line_search_fn not in (None, "strong_wolfe"):
            raise InputError(f"line_search_fn is None or 'strong_wolfe'; got {line_search_fn!r}")
        super().__init__(
            parameters,
            lr=lr,
            max_iter=max_iter,
            max_eval=max_iter * 5 // 4 if max_eval is None else max_eval,
            tolerance_grad=tolerance_grad,
            tolerance_change=tolerance_change,
            history_size=history_size,
            strong_wolfe=line_search_fn is not None,
        )
        if len(self.groups) != 1:
            raise InputError("LBFGS has no groups of parameters: its steps are those of all parameters together")

    def init(self, parameters: Arrays) -> dict[str, Any]:
        """Return the state before the first step: no gradients are known."""
        size = sum(int(np.size(value)) for value in parameters.values())
        empty = np.zeros((0, size))
        zeros = np.zeros(size)
        return {
            **{"count": 0, "length": 0.0, "direction": zeros, "gradient": zeros},
            **{"gradient_changes": empty, "parameter_changes": empty},
        }

    def torch_state_dict(self, convert: Callable[[NDArray[Any]], Any] = np.asarray) -> dict[str, Any]:
        """Return the state as PyTorch's optimiser has it, for its `load_state_dict`."""
        settings = dict(self.groups[0].settings)
        search = "strong_wolfe" if settings.pop("strong_wolfe") else None
        group = {**settings, "line_search_fn": search, "params": list(range(len(self.parameters)))}
        if not self.state or not self.state["count"]:
            return {"state": {}, "param_groups": [group]}
        own = self.state
        pairs = list(zip(own["gradient_changes"], own["parameter_changes"], strict=True))
        kept = {
            **{"n_iter": own["count"], "func_evals": own["count"], "t": own["length"], "prev_loss": None},
            **{"d": convert(own["direction"]), "prev_flat_grad": convert(own["gradient"])},
            **{"old_dirs": [convert(bend) for bend, _ in pairs], "old_stps": [convert(moved) for _, moved in pairs]},
            "ro": [convert(1.0 / (bend @ moved)) for bend, moved in pairs],
            "H_diag": convert(_scale_hessian(pairs)),
        }
        return {"state": {0: kept}, "param_groups": [group]}

    def load_torch_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take over the state of PyTorch's optimiser of the same name."""
        _check_torch_state(state, self)
        flat = self.init({name: value.data for name, value in self.parameters.items()})
        settings = self.read_torch_settings(state["param_groups"][0])
        settings["strong_wolfe"] = state["param_groups"][0]["line_search_fn"] is not None
        kept = {name: _as_plain(value) for name, value in state["state"].get(0, {}).items()}
        if kept.get("n_iter"):
            flat |= {"count": kept["n_iter"], "length": _as_number(kept["t"]), "direction": kept["d"]}
            flat["gradient"] = kept["prev_flat_grad"]
            for name, old in {"gradient_changes": "old_dirs", "parameter_changes": "old_stps"}.items():
                flat[name] = np.array([_as_plain(row) for row in kept[old]]).reshape(-1, len(flat["gradient"]))
        self.load_state_dict({**flat, **{f"groups.0.{name}": value for name, value in settings.items()}})

    def update(self, parameters: Arrays, gradients: Arrays, state: Arrays) -> tuple[dict[str, Any], dict[str, Any]]:
        """Raise an error: a step needs the loss at several points."""
        raise InputError("LBFGS has no update: it needs the loss at several points; use step(closure)")

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Make up to `max_iter` steps; returns the loss before them."""
        if closure is None:
            raise InputError("LBFGS needs a function that computes the loss and calls backward(): step(closure)")
        settings = self.groups[0].settings
        self.state = self.state or self.init({name: value.data for name, value in self.parameters.items()})
        first = closure()
        loss = float(first.data)
        gradient = self._join_gradients()
        evaluations = 1
        for count in range(1, int(settings["max_iter"]) + 1):
            if np.max(np.abs(gradient)) <= settings["tolerance_grad"]:
                break
            direction, length = self._choose_direction(gradient)
            slope = float(gradient @ direction)
            self.state |= {"gradient": gradient, "direction": direction, "length": length}
            if slope > -settings["tolerance_change"]:
                break
            before = loss
            is_last = count == settings["max_iter"]
            point, used = self._move_along(
                closure, LinePoint(0.0, loss, gradient, slope), direction, length, evaluations, is_last
            )
            loss, gradient = point.loss, point.gradient
            evaluations += used
            self.state["length"] = point.distance
            change = np.max(np.abs(direction * point.distance))
            tolerance = settings["tolerance_change"]
            if evaluations >= settings["max_eval"] or change <= tolerance or abs(loss - before) < tolerance:
                break
        return first

    def _choose_direction(self, gradient: NDArray[Any]) -> tuple[NDArray[Any], float]:
        """Return the direction of the next step and the length to try, after noting how the gradient has changed."""
        state, settings = self.state, self.groups[0].settings
        state["count"] += 1
        if state["count"] == 1:
            return -gradient, min(1.0, 1.0 / float(np.sum(np.abs(gradient)))) * settings["lr"]
        bend = gradient - state["gradient"]
        moved = state["direction"] * state["length"]
        if bend @ moved > 1e-10:
            kept = int(settings["history_size"])
            state["gradient_changes"] = np.vstack([state["gradient_changes"], bend])[-kept:]
            state["parameter_changes"] = np.vstack([state["parameter_changes"], moved])[-kept:]
        return _multiply_inverse_hessian(-gradient, state["gradient_changes"], state["parameter_changes"]), settings[
            "lr"
        ]

    def _move_along(
        self,
        closure: Callable[[], Any],
        start: LinePoint,
        direction: NDArray[Any],
        length: float,
        evaluations: int,
        is_last: bool,
    ) -> tuple[LinePoint, int]:
        """Move the parameters along a direction; returns where they are, and how often the loss was computed."""
        settings = self.groups[0].settings
        origin = {name: value.data for name, value in self.parameters.items()}

        def evaluate(distance: float) -> LinePoint:
            self._place_parameters(origin, direction * distance)
            loss = float(closure().data)
            gradient = self._join_gradients()
            return LinePoint(distance, loss, gradient, float(gradient @ direction))

        if settings["strong_wolfe"]:
            limit = int(settings["max_eval"]) - evaluations
            point, used = search_line(evaluate, start, length, limit, float(np.max(np.abs(direction))))
            self._place_parameters(origin, direction * point.distance)
            return point, used
        if is_last:
            # Nothing looks at the loss after the last step.
            self._place_parameters(origin, direction * length)
            return LinePoint(length, start.loss, start.gradient, start.slope), 0
        return evaluate(length), 1

    def _join_gradients(self) -> NDArray[Any]:
        """Return the gradients of all parameters as one vector; zeros where there is none."""
        parts = [
            np.zeros(value.size) if value.grad is None else np.ravel(value.grad) for value in self.parameters.values()
        ]
        return np.concatenate(parts)

    def _place_parameters(self, origin: Mapping[str, Any], change: NDArray[Any]) -> None:
        """Set the parameters to their places of origin plus a vector of changes."""
        offset = 0
        for name, value in self.parameters.items():
            part = change[offset : offset + value.size]
            value.data = (origin[name] + part.reshape(value.shape)).astype(value.dtype)
            offset += value.size

    def load_state_dict(self, state: Arrays) -> None:
        """Take over settings and what is kept; how many changes are kept may differ."""
        own = self.state or self.init({name: value.data for name, value in self.parameters.items()})
        changes = {name: np.asarray(state[name]) for name in ("gradient_changes", "parameter_changes") if name in state}
        fitting = {name: value for name, value in changes.items() if value.shape[1:] == own[name].shape[1:]}
        self.state = {**own, **fitting}
        try:
            super().load_state_dict(state)
        except StateError:
            self.state = own
            raise


def _scale_hessian(pairs: Sequence[tuple[NDArray[Any], NDArray[Any]]]) -> NDArray[Any]:
    """Return how large the inverse of the Hessian is along the latest change; 1 if there is none."""
    return np.asarray([1.0, *((bend @ moved) / (bend @ bend) for bend, moved in pairs[-1:])][-1])


def _multiply_inverse_hessian(
    vector: NDArray[Any], gradient_changes: NDArray[Any], parameter_changes: NDArray[Any]
) -> NDArray[Any]:
    """Return the inverse of the Hessian, as far as some changes show it, times a vector (the two-loop recursion)."""
    pairs = list(zip(gradient_changes, parameter_changes, strict=True))
    shares = []
    for bend, moved in reversed(pairs):
        share = (moved @ vector) / (bend @ moved)
        shares.append(share)
        vector = vector - share * bend
    vector = vector * _scale_hessian(pairs)
    for (bend, moved), share in zip(pairs, reversed(shares), strict=True):
        vector = vector + (share - (bend @ vector) / (bend @ moved)) * moved
    return vector


class CompiledStep:
    """A training step as one compiled call: the loss, its gradient by the parameters of the optimiser, and the update.

    `loss(model, *batch)` returns one number. A call takes a batch of arrays and returns the loss before the update;
    afterwards the model and the optimiser are changed, as by `backward()` and `step()`, except that no gradients are
    left. With `max_norm`, gradients are clipped as `clip_by_norm` does. Masks of dropout are drawn from the model's
    generators in the same order. A step that cannot be compiled is an error, which says why.

    The first step with arrays of a shape is computed several times, so that all results come from compiled code and a
    training can be repeated to the bit.

    >>> from wiregrad import nn
    >>> rng = np.random.default_rng(0)
    >>> model = nn.Sequential(nn.Linear(2, 8, rng=rng), nn.Tanh(), nn.Linear(8, 2, rng=rng))
    >>> optimizer = Adam(model.parameters(), lr=0.05)
    >>> take_step = CompiledStep(model, lambda model, x, y: nn.cross_entropy(model(x), y), optimizer)
    >>> x = rng.normal(size=(50, 2))
    >>> y = (x[:, 0] > x[:, 1]).astype(int)
    >>> losses = [take_step(x, y) for _ in range(50)]
    >>> losses[-1] < 0.1
    True
    """

    def __init__(
        self, model: Any, loss: Callable[..., Any], optimizer: Optimizer, *, max_norm: float | None = None
    ) -> None:
        if not hasattr(model, "emptied"):
            raise InputError(f"a compiled step needs a model that is an nn.Module; got {type(model).__name__}")
        if isinstance(optimizer, LBFGS):
            raise InputError("LBFGS computes the loss at several points, so its steps are not one call")
        names = {id(value): name for name, value in model.parameters().items()}
        unknown = [name for name, value in optimizer.parameters.items() if id(value) not in names]
        if unknown or not optimizer.parameters:
            raise InputError(
                f"the optimiser of a compiled step changes parameters of the model; {unknown[0]} is none of them"
                if unknown
                else "the optimiser of a compiled step needs parameters: pass model.parameters()"
            )
        self.model = model
        self.loss = loss
        self.optimizer = optimizer
        self.max_norm = max_norm
        self._names = {name: names[id(value)] for name, value in optimizer.parameters.items()}
        """The names of the parameters in the model, by their names in the optimiser."""
        self._masks: dict[Any, Any] = {}
        """The masks that a step draws, by the kind of its batch."""
        self._settings: Any = None
        self._compiled: Any = None

    def __call__(self, *batch: object) -> float:
        """Take one step; returns the loss before it. A number that is not finite is an error, and nothing changes."""
        arrays = [np.asarray(array) for array in batch]
        self._refresh()
        kind = tuple((array.shape, array.dtype.str) for array in arrays)
        is_new = kind not in self._masks
        notes = self.model.find_masks(lambda model: self.loss(model, *arrays)) if is_new else self._masks[kind]
        masks = [note.draw() for note in notes]
        dtypes = tuple(array.dtype.str for array in arrays)
        batch_of_floats = _as_floats(arrays)
        arguments = (self._join_arrays(), self._join_state(), self.model.buffers(), masks, batch_of_floats, dtypes)
        if is_new:
            self._try_compiling(arguments)
            self._masks[kind] = notes
        value, after, state, buffers = self._compiled(*arguments)
        if not np.isfinite(value) or not all(np.isfinite(after[name]).all() for name in self._names):
            raise NonFiniteError("the loss or a parameter after this step is not finite; nothing was changed")
        for name, parameter in self.optimizer.parameters.items():
            parameter.data = after[name]
        self.optimizer.state = state
        if buffers:
            self.model.load_buffers(buffers)
        return float(value)

    def _try_compiling(self, arguments: tuple[Any, ...]) -> None:
        """Compute a step whose result is not used; raises an error if it is not compiled."""
        self._compiled(*arguments)
        before = dict(self._compiled.info.fallbacks)
        # A long function is recorded at its second call.
        self._compiled(*arguments)
        reasons = [reason for reason, count in self._compiled.info.fallbacks if count != before.get(reason, 0)]
        if reasons:
            raise InputError(f"this step cannot be compiled: {reasons[0]}")

    def _join_arrays(self) -> dict[str, Any]:
        """Return all parameters: those of the optimiser by its names, and the others by those of the model."""
        own = {name: value.data for name, value in self.optimizer.parameters.items()}
        taken = set(self._names.values())
        fixed = {name: value.data for name, value in self.model.parameters().items() if name not in taken}
        return {"trained": own, "fixed": fixed}

    def _join_state(self) -> dict[str, Any]:
        optimizer = self.optimizer
        state = optimizer.state or optimizer.init({name: value.data for name, value in optimizer.parameters.items()})
        return {**state, **optimizer.list_rates()}

    def _refresh(self) -> None:
        """Compile the step anew if a setting of the model or of the optimiser has changed, except learning rates."""
        settings = (_list_settings(self.model), [_without_rate(group) for group in self.optimizer.groups])
        if self._compiled is None or settings != self._settings:
            self._settings = settings
            self._masks = {}
            self._compiled = wg.compile(self._write_step(), limit=MAX_STEP_RECORDINGS)

    def _write_step(self) -> Callable[..., Any]:
        """Return the step as a pure function of arrays."""
        structure, loss, names, max_norm = self.model.emptied(), self.loss, dict(self._names), self.max_norm
        optimizer = self.optimizer.without_parameters()

        def take_step(arrays: Any, state: Any, buffers: Any, masks: Any, batch: Any, dtypes: Any) -> Any:
            given = [array.astype(dtype) for array, dtype in zip(batch, dtypes, strict=True)]

            def compute_loss(trained: Any) -> tuple[Any, Any]:
                held = {names[name]: array for name, array in trained.items()}
                held_model = structure.holding({**arrays["fixed"], **held, **buffers}, masks)
                return loss(held_model, *given), held_model.buffers()

            (value, changed), gradients = wg.value_and_grad(compute_loss, has_aux=True)(arrays["trained"])
            if max_norm is not None:
                gradients, _ = clip_by_norm(gradients, max_norm)
            after, kept = optimizer.update(arrays["trained"], gradients, state)
            return value, after, kept, changed

        return take_step


MAX_STEP_RECORDINGS = 64
"""Maximum number of recordings of a compiled step: for batches of other shapes, and for branches of the loss."""


def _as_floats(arrays: Sequence[NDArray[Any]]) -> list[NDArray[Any]]:
    """Return arrays with whole numbers and conditions as floats, which a compiled function takes as data."""
    return [array if array.dtype.kind in "fc" else _as_exact_floats(array) for array in arrays]


def _as_exact_floats(array: NDArray[Any]) -> NDArray[Any]:
    floats = array.astype(np.float64)
    if not np.array_equal(floats.astype(array.dtype), array):
        raise InputError(f"a compiled step takes whole numbers up to 2**53; got {array.min()} to {array.max()}")
    return floats


def _list_settings(model: Any) -> list[object]:
    """Return what the modules of a model hold besides parameters, buffers, generators and other modules, as text."""
    return [(path, type(module), _list_own_settings(module)) for path, module in model.modules().items()]


def _list_own_settings(module: Any) -> dict[str, str]:
    # A buffer may be a plain number, as the number of batches is, which changes at each step.
    own = {name: value for name, value in vars(module).items() if name not in module._buffers}
    return {name: repr(value) for name, value in own.items() if _is_setting(value)}


def _is_setting(value: object) -> bool:
    if isinstance(value, dict):
        return all(map(_is_setting, value.values()))
    if isinstance(value, list | tuple):
        return all(map(_is_setting, value))
    is_function = callable(value) and not hasattr(value, "parameters")
    return value is None or is_function or isinstance(value, bool | int | float | str)


def _without_rate(group: ParameterGroup) -> dict[str, float]:
    return {name: value for name, value in group.settings.items() if name != "lr"}


def clip_by_norm(gradients: Arrays, max_norm: float) -> tuple[dict[str, Any], Any]:
    """Return gradients scaled down so that the norm of all of them together is at most `max_norm`, and that norm.

    >>> clip_by_norm({"w": np.array([3.0, 4.0])}, 1.0)[1]
    5.0
    """
    known = {name: gradient for name, gradient in gradients.items() if gradient is not None}
    norm = sum(np.sum(gradient * gradient) for gradient in known.values()) ** 0.5
    factor = np.minimum(max_norm / (norm + 1e-6), 1.0)
    return {**gradients, **{name: factor * gradient for name, gradient in known.items()}}, _as_number(norm)


def clip_by_value(gradients: Arrays, limit: float) -> dict[str, Any]:
    """Return gradients with every number limited to -limit and limit."""
    return {
        name: gradient if gradient is None else np.minimum(np.maximum(gradient, -limit), limit)
        for name, gradient in gradients.items()
    }


def clip_grad_norm(parameters: Mapping[str, wg.Value], max_norm: float) -> float:
    """Scale the gradients of parameters down as `clip_by_norm` does; returns the norm before.

    >>> w = wg.Value(np.array([3.0, 4.0]))
    >>> np.sum(w * w).backward()
    >>> clip_grad_norm({"w": w}, 5.0), w.grad.round(3).tolist()
    (10.0, [3.0, 4.0])
    """
    clipped, norm = clip_by_norm({name: value.grad for name, value in parameters.items()}, max_norm)
    for name, value in parameters.items():
        value.grad = clipped[name]
    return float(norm)


def clip_grad_value(parameters: Mapping[str, wg.Value], limit: float) -> None:
    """Limit every number of the gradients of parameters to -limit and limit."""
    for name, gradient in clip_by_value({name: value.grad for name, value in parameters.items()}, limit).items():
        parameters[name].grad = gradient


class Schedule:
    """What all schedules share: the learning rate as a function of the number of `step()` calls.

    A schedule made without an optimiser computes rates: `schedule.find_rate(0.1, 30)`. With one, it sets the rates of
    its groups, at once and at every `step()`.
    """

    def __init__(self, optimizer: Optimizer | None) -> None:
        if optimizer is not None and not isinstance(optimizer, Optimizer):
            raise InputError(f"{type(self).__name__} takes an optimiser, or None; got {short_repr(optimizer)}")
        self.optimizer = optimizer
        self.count = 0
        self.base_rates = [group.settings["lr"] for group in optimizer.groups] if optimizer else []
        self._set_rates()

    def find_rate(self, base: float, count: int) -> float:
        """Return the learning rate after a number of steps, for the rate that the optimiser was made with."""
        raise NotImplementedError

    def _set_rates(self) -> None:
        for group, base in zip(self.optimizer.groups if self.optimizer else [], self.base_rates, strict=True):
            group.settings["lr"] = self.find_rate(base, self.count)

    def step(self) -> None:
        """Go one step further, usually after each epoch."""
        self.count += 1
        self._set_rates()

    def state_dict(self) -> dict[str, float]:
        """Return the number of steps and the first rates as one flat dict."""
        return {"count": self.count, **{f"base_rates.{k}": rate for k, rate in enumerate(self.base_rates)}}

    def load_state_dict(self, state: Arrays) -> None:
        """Take over the number of steps and the first rates, and set the rates."""
        own = self.state_dict()
        if state.keys() != own.keys():
            raise StateError(f"a {type(self).__name__} needs {', '.join(own)}; got {', '.join(state)}")
        self.count = int(state["count"])
        self.base_rates = [float(state[f"base_rates.{k}"]) for k in range(len(self.base_rates))]
        self._set_rates()


def _check_length(name: str, count: int) -> int:
    """Return a number of steps; raises unless it is a whole number of at least 1."""
    if isinstance(count, bool) or not isinstance(count, int | np.integer) or count < 1:
        raise InputError(f"{name} must be a whole number of at least 1; got {short_repr(count)}")
    return int(count)


class StepLR(Schedule):
    """Multiply the rate by gamma every `step_size` steps.

    >>> StepLR(None, step_size=10, gamma=0.5).find_rate(0.1, 25)
    0.025
    """

    def __init__(self, optimizer: Optimizer | None, step_size: int, gamma: float = 0.1) -> None:
        self.step_size = _check_length("step_size", step_size)
        self.gamma = gamma
        super().__init__(optimizer)

    def find_rate(self, base: float, count: int) -> float:
        """Return the learning rate after a number of steps."""
        return base * self.gamma ** (count // self.step_size)


class MultiStepLR(Schedule):
    """Multiply the rate by gamma at each milestone, a number of steps.

    >>> [round(MultiStepLR(None, [2, 3]).find_rate(1.0, k), 3) for k in range(5)]
    [1.0, 1.0, 0.1, 0.01, 0.01]
    """

    def __init__(self, optimizer: Optimizer | None, milestones: Sequence[int], gamma: float = 0.1) -> None:
        self.milestones = tuple(sorted(milestones))
        self.gamma = gamma
        super().__init__(optimizer)

    def find_rate(self, base: float, count: int) -> float:
        """Return the learning rate after a number of steps."""
        return base * self.gamma ** bisect_right(self.milestones, count)


class ExponentialLR(Schedule):
    """Multiply the rate by gamma at each step.

    >>> ExponentialLR(None, 0.5).find_rate(1.0, 3)
    0.125
    """

    def __init__(self, optimizer: Optimizer | None, gamma: float) -> None:
        self.gamma = gamma
        super().__init__(optimizer)

    def find_rate(self, base: float, count: int) -> float:
        """Return the learning rate after a number of steps."""
        return base * self.gamma**count


class LambdaLR(Schedule):
    """Multiply the first rate by a function of the number of steps.

    >>> LambdaLR(None, lambda count: 1.0 / (1 + count)).find_rate(1.0, 3)
    0.25
    """

    def __init__(self, optimizer: Optimizer | None, lr_lambda: Callable[[int], float]) -> None:
        self.lr_lambda = lr_lambda
        super().__init__(optimizer)

    def find_rate(self, base: float, count: int) -> float:
        """Return the learning rate after a number of steps."""
        return base * self.lr_lambda(count)


class CosineAnnealingLR(Schedule):
    """Go from the first rate to `eta_min` in `T_max` steps, along half a wave of a cosine.

    >>> [round(CosineAnnealingLR(None, T_max=4).find_rate(1.0, k), 3) for k in range(5)]
    [1.0, 0.854, 0.5, 0.146, 0.0]
    """

    def __init__(self, optimizer: Optimizer | None, T_max: int, eta_min: float = 0.0) -> None:  # noqa: N803
        self.T_max = _check_length("T_max", T_max)
        self.eta_min = eta_min
        super().__init__(optimizer)

    def find_rate(self, base: float, count: int) -> float:
        """Return the learning rate after a number of steps."""
        return self.eta_min + (base - self.eta_min) * (1.0 + math.cos(math.pi * count / self.T_max)) / 2.0


class LinearLR(Schedule):
    """Warm up: go from a share of the rate to another one in equal steps.

    >>> [LinearLR(None, start_factor=0.25, total_iters=3).find_rate(1.0, k) for k in range(5)]
    [0.25, 0.5, 0.75, 1.0, 1.0]
    """

    def __init__(
        self,
        optimizer: Optimizer | None,
        start_factor: float = 1.0 / 3.0,
        end_factor: float = 1.0,
        total_iters: int = 5,
    ) -> None:
        self.start_factor = start_factor
        self.end_factor = end_factor
        self.total_iters = _check_length("total_iters", total_iters)
        super().__init__(optimizer)

    def find_rate(self, base: float, count: int) -> float:
        """Return the learning rate after a number of steps."""
        share = min(count, self.total_iters) / self.total_iters
        return base * (self.start_factor + (self.end_factor - self.start_factor) * share)


class SequentialLR(Schedule):
    """Schedules one after another: each milestone is the number of steps at which the next one begins.

    >>> warm_up, cosine = LinearLR(None, 0.5, total_iters=2), CosineAnnealingLR(None, 4)
    >>> schedule = SequentialLR(None, [warm_up, cosine], milestones=[2])
    >>> [round(schedule.find_rate(1.0, k), 3) for k in range(7)]
    [0.5, 0.75, 1.0, 0.854, 0.5, 0.146, 0.0]
    """

    def __init__(self, optimizer: Optimizer | None, schedulers: Sequence[Schedule], milestones: Sequence[int]) -> None:
        if len(schedulers) != len(milestones) + 1:
            raise InputError(
                f"{len(schedulers)} schedules need {len(schedulers) - 1} milestones; got {len(milestones)}"
            )
        if any(schedule.optimizer is not None for schedule in schedulers):
            raise InputError("the schedules of a SequentialLR are made without an optimiser: LinearLR(None, ...)")
        self.schedulers = tuple(schedulers)
        self.milestones = tuple(milestones)
        super().__init__(optimizer)

    def find_rate(self, base: float, count: int) -> float:
        """Return the learning rate after a number of steps."""
        k = bisect_right(self.milestones, count)
        return self.schedulers[k].find_rate(base, count - (self.milestones[k - 1] if k else 0))


class ReduceLROnPlateau:
    """Multiply the rates by a factor when a loss has not fallen for more than `patience` steps.

    `step(loss)` is called after each epoch; `wg.train` does so with the validation loss, or with the loss if there is
    no validation data. A loss counts as lower if it is so by the share `threshold`, or with `threshold_mode="abs"` by
    that much. `mode="max"` is for numbers that should rise. After a change, `cooldown` steps do not count.

    >>> optimizer = SGD([wg.Value(1.0)], lr=1.0)
    >>> schedule = ReduceLROnPlateau(optimizer, factor=0.5, patience=1)
    >>> for loss in (3.0, 2.0, 2.0, 2.0, 2.0):
    ...     schedule.step(loss)
    >>> optimizer.groups[0].settings["lr"]
    0.5
    """

    needs_loss = True
    """Tells a training loop that `step` takes a loss."""

    def __init__(
        self,
        optimizer: Optimizer,
        mode: str = "min",
        factor: float = 0.1,
        patience: int = 10,
        threshold: float = 1e-4,
        threshold_mode: str = "rel",
        cooldown: int = 0,
        min_lr: float = 0.0,
        eps: float = 1e-8,
    ) -> None:
        if not isinstance(optimizer, Optimizer):
            raise InputError(f"ReduceLROnPlateau takes an optimiser; got {short_repr(optimizer)}")
        if mode not in ("min", "max") or threshold_mode not in ("rel", "abs"):
            raise InputError(f"mode is 'min' or 'max', threshold_mode 'rel' or 'abs'; got {mode!r}, {threshold_mode!r}")
        if not 0.0 < factor < 1.0:
            raise InputError(f"factor must be between 0 and 1; got {factor}")
        self.optimizer = optimizer
        self.sign = 1.0 if mode == "min" else -1.0
        self.factor = factor
        self.patience = patience
        self.threshold = threshold
        self.is_relative = threshold_mode == "rel"
        self.cooldown = cooldown
        self.min_lr = min_lr
        self.eps = eps
        self.best = math.inf * self.sign
        self.bad_steps = 0
        self.cooldown_left = 0

    def step(self, loss: float) -> None:
        """Note the loss of an epoch, and lower the rates if it has not fallen for too long."""
        if self._is_better(float(loss)):
            self.best = float(loss)
            self.bad_steps = 0
        else:
            self.bad_steps += 1
        if self.cooldown_left > 0:
            self.cooldown_left -= 1
            self.bad_steps = 0
        if self.bad_steps > self.patience:
            self._lower_rates()
            self.cooldown_left = self.cooldown
            self.bad_steps = 0

    def _is_better(self, loss: float) -> bool:
        if math.isinf(self.best):
            return self.sign * loss < self.sign * self.best
        margin = self.threshold * self.best if self.is_relative else self.threshold
        return self.sign * loss < self.sign * (self.best - self.sign * margin)

    def _lower_rates(self) -> None:
        for group in self.optimizer.groups:
            rate = max(group.settings["lr"] * self.factor, self.min_lr)
            # A change that rounding would hide is not made.
            if group.settings["lr"] - rate > self.eps:
                group.settings["lr"] = rate

    def state_dict(self) -> dict[str, float]:
        """Return what the next step depends on; the rates are in the state of the optimiser."""
        return {"best": self.best, "bad_steps": self.bad_steps, "cooldown_left": self.cooldown_left}

    def load_state_dict(self, state: Arrays) -> None:
        """Take over what the next step depends on."""
        own = self.state_dict()
        if state.keys() != own.keys():
            raise StateError(f"a ReduceLROnPlateau needs {', '.join(own)}; got {', '.join(state)}")
        self.best = float(state["best"])
        self.bad_steps = int(state["bad_steps"])
        self.cooldown_left = int(state["cooldown_left"])
