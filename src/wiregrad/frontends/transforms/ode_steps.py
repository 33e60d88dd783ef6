"""Differential equations on plain numbers: the methods, the problem on vectors, and the choice of the steps.

A method takes a step from z at time t over a length h and returns an `OdeStep`: the new state, an estimate of its error
where the method has one, and the solution in between. `Trajectory.advance` chooses the length of a step and finds the
events in it. Nothing here is differentiated; `ode` does that.

Kept true: a step is one function of t, h and z, made of recorded ops, so its derivatives by all of them are those of
the formula that ran. `advance` depends on its state alone, so steps can be taken again and need not be kept.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from math import ceil, isfinite, sqrt
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from wiregrad.dtypes import count_with_noun
from wiregrad.errors import (
    ConvergenceError,
    EscapeError,
    NonFiniteError,
    OperandError,
    ShapeError,
    format_user_line,
    short_repr,
)
from wiregrad.frontends.recording.arguments import flatten
from wiregrad.frontends.recording.session import data_of, function_name
from wiregrad.frontends.recording.trace import run_traced
from wiregrad.frontends.recording.value import ConversionMark, Value
from wiregrad.frontends.transforms.derivatives import jacobian, jvp
from wiregrad.frontends.transforms.implicit import UnknownParts
from wiregrad.frontends.transforms.loops import scan
from wiregrad.ops.functions import FUNCTIONS

Vector = NDArray[np.float64]
EPSILON = float(np.finfo(float).eps)


class OdeSystem(Protocol):
    """A differential equation dz/dt = slope(t, z) on vectors."""

    def slope(self, t: object, z: object) -> Any:
        """Return dz/dt."""

    def slope_derivatives(self, t: object, z: object) -> tuple[Any, Any]:
        """Return the derivatives of dz/dt by t and by z."""


class OdeMethod(Protocol):
    """A method: how it takes a step, and what it knows about it."""

    @property
    def name(self) -> str:
        """The name that users pass."""

    @property
    def adapts(self) -> bool:
        """Whether it estimates errors, so that step lengths can be chosen."""

    @property
    def evaluations(self) -> int:
        """How often a step computes the slope, the one at its end included, and that at its start not."""

    def take_step(self, system: OdeSystem, t: object, h: object, z: object, slope: object = None) -> OdeStep:
        """Take a step from z at t; `slope` is dz/dt there, if it is known."""

    def estimate_error(self, step: OdeStep) -> Any:
        """Estimate the error of a step."""

    def interpolate(self, step: OdeStep, share: object) -> Any:
        """Return the solution within a step, at a share of its length."""

    def estimate_stiffness(self, step: OdeStep) -> float:
        """Estimate the length of the step times the largest eigenvalue; 0 where the method need not know."""

    def compare_slopes(self, step: OdeStep) -> tuple[Any, Any]:
        """Return what that estimate is made of: the squared distances of two slopes and of their states."""


@dataclass
class OdeStep:
    """A step that was taken: from z at t over h to `end`, by the slopes or stages in `stages`."""

    system: OdeSystem
    t: Any
    h: Any
    z: Any
    stages: list[Any]
    end: Any
    last_point: Any = None
    """The state at which the last stage was computed."""
    _end_slope: Any = field(default=None, repr=False)

    def end_slope(self) -> Any:
        """Return dz/dt at the end of the step."""
        if self._end_slope is None:
            self._end_slope = self.system.slope(self.t + self.h, self.end)
        return self._end_slope


def combine(weights: Vector, terms: Sequence[Any]) -> Any:
    """Return the weighted sum of vectors of numbers or values.

    >>> combine(np.array([2.0, 0.0, 1.0]), [np.ones(2), np.ones(2), np.ones(2)]).tolist()
    [3.0, 3.0]
    """
    if not any(isinstance(term, Value) for term in terms):
        return weights.dot(terms)
    products = [float(weight) * term for weight, term in zip(weights, terms, strict=True) if weight]
    total = products[0]
    for product in products[1:]:
        total = total + product
    return total


def interpolate_cubic(step: OdeStep, share: Any) -> Any:
    """Return the cubic through both ends of a step with their slopes, at a share of its length."""
    rise = step.end - step.z
    bend_start = step.h * step.stages[0] - rise
    bend_end = rise - step.h * step.end_slope()
    return step.z + share * (rise + (1.0 - share) * ((1.0 - share) * bend_start + share * bend_end))


@dataclass(frozen=True)
class RungeKuttaMethod:
    """An explicit method: each stage is a slope at z plus a sum of the slopes before it."""

    name: str
    nodes: tuple[float, ...]
    rows: tuple[Vector, ...]
    weights: Vector
    error_weights: Vector | None = None
    dense_weights: Vector | None = None
    """Weights of the slopes in the polynomial between the ends, one row per power of the share."""

    @property
    def adapts(self) -> bool:
        """Whether it estimates errors."""
        return self.error_weights is not None

    @property
    def evaluations(self) -> int:
        """How often a step computes the slope."""
        return len(self.rows) + 1

    def take_step(self, system: OdeSystem, t: Any, h: Any, z: object, slope: object = None) -> OdeStep:
        """Take a step from z at t."""
        slopes = [system.slope(t, z) if slope is None else slope]
        point = z
        for node, row in zip(self.nodes, self.rows, strict=True):
            point = z + h * combine(row, slopes)
            slopes.append(system.slope(t + node * h, point))
        return OdeStep(system, t, h, z, slopes, z + h * combine(self.weights, slopes), point)

    def estimate_error(self, step: OdeStep) -> Any:
        """Estimate the error of a step by a second formula of lower order."""
        assert self.error_weights is not None
        return step.h * combine(self.error_weights, [*step.stages, step.end_slope()])

    def interpolate(self, step: OdeStep, share: object) -> Any:
        """Return the solution within a step: of order 4 where the method has such a polynomial, else a cubic."""
        if self.dense_weights is None:
            return interpolate_cubic(step, share)
        slopes = [*step.stages, step.end_slope()]
        total: Any = 0.0
        for row in self.dense_weights[::-1]:
            total = share * (combine(row, slopes) + total)
        return step.z + step.h * total

    def estimate_stiffness(self, step: OdeStep) -> float:
        """Estimate the step length times the largest eigenvalue, from the last two slopes."""
        change, distance = self.compare_slopes(step)
        return abs(step.h) * sqrt(change / distance) if distance and isfinite(change) else 0.0

    def compare_slopes(self, step: OdeStep) -> tuple[Any, Any]:
        """Return the squared distances of the last two slopes, and of the states they belong to."""
        change = step.end_slope() - step.stages[-1]
        distance = step.end - step.last_point
        return change @ change, distance @ distance


@dataclass(frozen=True)
class LeapfrogMethod:
    """Stoermer and Verlet's method: half a kick of the momenta, a drift of the positions, half a kick."""

    name: str
    adapts: bool = False
    evaluations: int = 3

    def take_step(self, system: OdeSystem, t: object, h: Any, z: Any, slope: Any = None) -> OdeStep:
        """Take a step from z at t; the first half of z are positions, the second momenta."""
        first = system.slope(t, z) if slope is None else slope
        half = len(z) // 2
        join = FUNCTIONS["concatenate"].run
        momenta = z[half:] + 0.5 * h * first[half:]
        drift = system.slope(t + 0.5 * h, join([z[:half], momenta]))[:half]
        positions = z[:half] + h * drift
        kick = system.slope(t + h, join([positions, momenta]))[half:]
        return OdeStep(system, t, h, z, [first], join([positions, momenta + 0.5 * h * kick]))

    def estimate_error(self, step: OdeStep) -> Any:
        """Refuse: the method has no second formula."""
        raise NotImplementedError

    def interpolate(self, step: OdeStep, share: object) -> Any:
        """Return the cubic between both ends."""
        return interpolate_cubic(step, share)

    def estimate_stiffness(self, step: OdeStep) -> float:
        """Return 0: steps are of a fixed length."""
        return 0.0

    def compare_slopes(self, step: OdeStep) -> tuple[Any, Any]:
        """Return zeros: stability is not watched."""
        return 0.0, 0.0


@dataclass(frozen=True)
class RosenbrockMethod:
    """A linearly implicit method: each stage solves a linear system with the exact Jacobian, and nothing iterates."""

    name: str
    gamma: float
    nodes: tuple[float, ...]
    time_weights: tuple[float, ...]
    """Weights of the derivative by time in each stage."""
    rows: tuple[Vector, ...]
    couplings: tuple[Vector, ...]
    """Weights of the stages before in the right side of each stage, divided by h."""
    dense_weights: Vector
    adapts: bool = True

    @property
    def evaluations(self) -> int:
        """How often a step computes the slope."""
        return len(self.rows) + 1

    def take_step(self, system: OdeSystem, t: Any, h: Any, z: Any, slope: object = None) -> OdeStep:
        """Take a step from z at t."""
        by_time, by_state = system.slope_derivatives(t, z)
        inverse = FUNCTIONS["inv"].run(np.eye(len(z)) / (self.gamma * h) - by_state)
        right = system.slope(t, z) if slope is None else slope
        stages = [inverse @ (right + self.time_weights[0] * h * by_time)]
        for k, node in enumerate(self.nodes):
            right = system.slope(t + node * h, z + combine(self.rows[k], stages))
            right = right + combine(self.couplings[k], stages) / h
            if self.time_weights[k + 1]:
                right = right + self.time_weights[k + 1] * h * by_time
            stages.append(inverse @ right)
        # The method is stiffly accurate: the last stage is the correction of the state at which it was computed.
        return OdeStep(system, t, h, z, stages, z + combine(np.append(self.rows[-1], 1.0), stages))

    def estimate_error(self, step: OdeStep) -> Any:
        """Estimate the error of a step: its last correction."""
        return step.stages[-1]

    def interpolate(self, step: OdeStep, share: Any) -> Any:
        """Return the solution within a step, by a polynomial of order 4."""
        first, second, third = [combine(row, step.stages) for row in self.dense_weights]
        bend = first + share * (second + share * third)
        return (1.0 - share) * step.z + share * (step.end + (1.0 - share) * bend)

    def estimate_stiffness(self, step: OdeStep) -> float:
        """Return 0: the method is made for stiff systems."""
        return 0.0

    def compare_slopes(self, step: OdeStep) -> tuple[Any, Any]:
        """Return zeros: stability is not watched."""
        return 0.0, 0.0


def _rows(*rows: Sequence[float]) -> tuple[Vector, ...]:
    return tuple(np.array(row) for row in rows)


RUNGE_KUTTA_4 = RungeKuttaMethod(
    "rk4",
    nodes=(0.5, 0.5, 1.0),
    rows=_rows([0.5], [0.0, 0.5], [0.0, 0.0, 1.0]),
    weights=np.array([1.0, 2.0, 2.0, 1.0]) / 6.0,
)

# Dormand and Prince 1980; the polynomial in between is Shampine's of 1986.
DORMAND_PRINCE = RungeKuttaMethod(
    "dopri5",
    nodes=(1 / 5, 3 / 10, 4 / 5, 8 / 9, 1.0),
    rows=_rows(
        [1 / 5],
        [3 / 40, 9 / 40],
        [44 / 45, -56 / 15, 32 / 9],
        [19372 / 6561, -25360 / 2187, 64448 / 6561, -212 / 729],
        [9017 / 3168, -355 / 33, 46732 / 5247, 49 / 176, -5103 / 18656],
    ),
    weights=np.array([35 / 384, 0.0, 500 / 1113, 125 / 192, -2187 / 6784, 11 / 84]),
    error_weights=np.array([-71 / 57600, 0.0, 71 / 16695, -71 / 1920, 17253 / 339200, -22 / 525, 1 / 40]),
    dense_weights=np.array(
        [
            [1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0],
            [
                -8048581381 / 2820520608,
                0.0,
                131558114200 / 32700410799,
                -1754552775 / 470086768,
                127303824393 / 49829197408,
                -282668133 / 205662961,
                40617522 / 29380423,
            ],
            [
                8663915743 / 2820520608,
                0.0,
                -68118460800 / 10900136933,
                14199869525 / 1410260304,
                -318862633887 / 49829197408,
                2019193451 / 616988883,
                -110615467 / 29380423,
            ],
            [
                -12715105075 / 11282082432,
                0.0,
                87487479700 / 32700410799,
                -10690763975 / 1880347072,
                701980252875 / 199316789632,
                -1453857185 / 822651844,
                69997945 / 29380423,
            ],
        ]
    ),
)

# Rodas5P of Steinebach 2023 (BIT Numerical Mathematics 63, 27): order 5(4), eight stages, stiffly accurate.
_LAST_ROW = (-7.502846399306121, 2.561846144803919, -11.627539656261098, -0.18268767659942256, 0.030198172008377946)
RODAS = RosenbrockMethod(
    "rodas5p",
    gamma=0.21193756319429014,
    nodes=(0.6358126895828704, 0.4095798393397535, 0.9769306725060716, 0.4288403609558664, 1.0, 1.0, 1.0),
    time_weights=(
        0.21193756319429014,
        -0.42387512638858027,
        -0.3384627126235924,
        1.8046452872882734,
        2.325825639765069,
        0.0,
        0.0,
        0.0,
    ),
    rows=_rows(
        [3.0],
        [2.849394379747939, 0.45842242204463923],
        [-6.954028509809101, 2.489845061869568, -10.358996098473584],
        [2.8029986275628964, 0.5072464736228206, -0.3988312541770524, -0.04721187230404641],
        _LAST_ROW,
        [*_LAST_ROW, 1.0],
        [*_LAST_ROW, 1.0, 1.0],
    ),
    couplings=_rows(
        [-14.155112264123755],
        [-17.97296035885952, -2.859693295451294],
        [147.12150275711716, -1.41221402718213, 71.68940251302358],
        [165.43517024871676, -0.4592823456491126, 42.90938336958603, -5.961986721573306],
        [24.854864614690072, -3.0009227002832186, 47.4931110020768, 5.5814197821558125, -0.6610691825249471],
        [
            30.91273214028599,
            -3.1208243349937974,
            77.79954646070892,
            34.28646028294783,
            -19.097331116725623,
            -28.087943162872662,
        ],
        [
            37.80277123390563,
            -3.2571969029072276,
            112.26918849496327,
            66.9347231244047,
            -40.06618937091002,
            -54.66780262877968,
            -9.48861652309627,
        ],
    ),
    dense_weights=np.array(
        [
            [
                25.948786856663858,
                -2.5579724845846235,
                10.433815404888879,
                -2.3679251022685204,
                0.524948541321073,
                1.1241088310450404,
                0.4272876194431874,
                -0.17202221070155493,
            ],
            [
                -9.91568850695171,
                -0.9689944594115154,
                3.0438037242978453,
                -24.495224566215796,
                20.176138334709044,
                15.98066361424651,
                -6.789040303419874,
                -6.710236069923372,
            ],
            [
                11.419903575922262,
                2.8879645146136994,
                72.92137995996029,
                80.12511834622643,
                -52.072871366152654,
                -59.78993625266729,
                -0.15582684282751913,
                4.883087185713722,
            ],
        ]
    ),
)

METHODS: dict[str, OdeMethod] = {
    method.name: method for method in (DORMAND_PRINCE, RODAS, RUNGE_KUTTA_4, LeapfrogMethod("leapfrog"))
}
STIFF_METHOD = RODAS.name

SAFETY = 0.9
MIN_FACTOR = 0.2
MAX_FACTOR = 10.0
ERROR_POWER = 0.2
"""Both methods that estimate errors do so with order 4, so an error goes with the fifth power of the step."""
HIDDEN_DISTANCE = 1e-6
"""How far from a state that rests the errors of steps are looked at, relative to its numbers."""
STABILITY_LIMIT = 3.25
"""A step of Dormand and Prince's method is limited by stability, if its length times the eigenvalue is above this."""
MAX_STIFF_STEPS = 15
"""Number of such steps in a row after which a system counts as stiff."""
NEAR_EVENT = 1e-10
"""An event function that leaves zero within this share of the time counts as zero: its slope decides the sign."""
MAX_HALVINGS = 60
MAX_ROOT_STEPS = 80


@dataclass(frozen=True)
class OdeEvent:
    """A condition on the solution: the function g that becomes zero, and what happens then."""

    g: Callable[..., Any]
    terminal: bool
    direction: int
    restart: Callable[..., Any] | None

    @property
    def has_effect(self) -> bool:
        """Whether the solution ends or jumps at the event."""
        return self.terminal or self.restart is not None

    @property
    def label(self) -> str:
        """The name of its function."""
        return function_name(self.g)


class OdeSettings(NamedTuple):
    """How a problem is solved."""

    method: OdeMethod
    rtol: float
    atol: float
    step: float | None
    max_step: float | None
    max_steps: int


class InitialValueProblem:
    """A differential equation with its start and its events, on vectors: containers are taken apart and joined."""

    def __init__(self, f: Callable[..., Any], y0: object, events: tuple[OdeEvent, ...], settings: OdeSettings) -> None:
        self.f = f
        self.settings = settings
        self.method = settings.method
        self.is_compiled = False
        self.events = events
        for leaf in flatten(y0)[0]:
            if np.asarray(data_of(leaf)).dtype.kind not in "fiu":
                raise OperandError(f"y0 must consist of real numbers; got {short_repr(leaf)}{format_user_line()}")
        self.parts = UnknownParts(y0)
        self.called = f"odeint of {function_name(f)}"
        for k, one in enumerate(events):
            if not isinstance(one, OdeEvent):
                raise OperandError(f"events must be made by wg.event; events[{k}] is {short_repr(one)}")
        if not self.parts.size:
            raise ShapeError(f"y0 must have at least one number{format_user_line()}")
        if settings.method.name == "leapfrog":
            self._check_halves()
        compile_transform = getattr(f, "compile_transform", None)
        if compile_transform is not None:
            self.method = CompiledMethod(self, compile_transform)
            self.is_compiled = True

    def _check_halves(self) -> None:
        shapes = self.parts.shapes
        is_pair = len(shapes) == 2 and shapes[0] == shapes[1]
        if not is_pair and not (len(shapes) == 1 and shapes[0] and shapes[0][0] % 2 == 0):
            raise ShapeError(
                "leapfrog needs a state of two equal halves, y0 = (positions, momenta); "
                f"got parts of shapes {shapes}{format_user_line()}"
            )

    def compute_slope(self, t: object, z: object, args: Sequence[object]) -> Any:
        """Return dz/dt as a vector."""
        return self.join_state(self.f(t, self.split_state(z), *args), "f")

    def split_state(self, z: object) -> Any:
        """Return a vector in the structure of y0."""
        return split_state(self.parts, z)

    def join_state(self, result: Any, what: str) -> Any:
        """Return a result that has the structure of y0 as one vector."""
        return join_state(self.parts, result, what)


def split_state(parts: UnknownParts, z: Any) -> Any:
    """Return a vector in the structure of a state."""
    if parts.shapes == [z.shape] and not parts.tree.children:
        return z
    return parts.unpack(z)


def join_state(parts: UnknownParts, result: object, what: str) -> Any:
    """Return a result that has the structure of a state as one vector; raises if it has another one."""
    if type(result) is np.ndarray and result.ndim == 1 and parts.shapes == [result.shape]:
        return result if result.dtype == np.float64 else result.astype(float)
    leaves, _ = flatten(result)
    shapes = [np.shape(data_of(leaf)) for leaf in leaves]
    is_list_of_numbers = parts.shapes == [(len(leaves),)] and not any(shapes)
    if shapes != parts.shapes and not is_list_of_numbers:
        raise ShapeError(
            f"{what} must return what has the structure of y0, with shapes {parts.shapes}; got {shapes}"
            f"{format_user_line()}"
        )
    return UnknownParts.join(leaves)


CompileTransform = Callable[..., Callable[..., Any]]
"""The method `compile_transform` of a compiled function: compiles another function that is made from it."""


BLOCK_ATTEMPTS = 256
"""How many steps native code tries before Python looks at them."""
TRIED_BLOCKS = 3
"""After so many calls it is known whether blocks run as native code."""
HAS_BLOCKS = "runs_native_blocks"
"""The attribute of a compiled block that says whether it is worth calling."""


class BlockCarry(NamedTuple):
    """What is carried from one try of a step to the next."""

    share: Any
    z: Any
    slope: Any
    size: Any
    last_error: Any
    was_rejected: Any
    ended: Any


def attempt_step(
    method: RungeKuttaMethod, system: OdeSystem, settings: Any, leg: tuple[Any, Any, Any], now: BlockCarry
) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    """Try one step and choose the next: what `Trajectory._try_steps` does, without branches.

    Returns the next carry, and what is kept: whether the step was tried and accepted, its end and what follows from it.
    """
    start, span, most = leg
    stop = now.share + now.size / abs(span)
    stop = np.where(stop > 1.0 - 1e-9, 1.0, stop)
    t = start + now.share * span
    h = (stop - now.share) * span
    length = abs(h)
    ended = now.ended | (length <= 32.0 * EPSILON * np.maximum(abs(t), abs(span) * 1e-3))
    step = method.take_step(system, t, h, now.z, now.slope)
    slope = step.end_slope()
    scale = settings.atol + settings.rtol * np.maximum(np.abs(now.z), np.abs(step.end))
    error = np.sqrt(np.mean((method.estimate_error(step) / scale) ** 2))
    error = np.where(np.isfinite(error + np.sum(0.0 * slope)), error, np.inf)
    accepted = (error <= 1.0) & ~ended
    factor = SAFETY * error ** (-0.7 * ERROR_POWER) * now.last_error ** (0.4 * ERROR_POWER)
    factor = np.where(error == 0.0, MAX_FACTOR, factor)
    factor = np.minimum(np.maximum(factor, MIN_FACTOR), np.where(now.was_rejected, 1.0, MAX_FACTOR))
    shorter = length * np.maximum(MIN_FACTOR, SAFETY * error**-ERROR_POWER)
    size = np.where(ended, now.size, np.where(accepted, np.minimum(length * factor, most), shorter))
    share = np.where(accepted, stop, now.share)
    z = np.where(accepted, step.end, now.z)
    slope = np.where(accepted, slope, now.slope)
    last_error = np.where(accepted, np.maximum(error, 1e-4), now.last_error)
    change, distance = method.compare_slopes(step)
    carry = (share, z, slope, size, last_error, ~accepted & ~ended, ended | (accepted & (stop == 1.0)))
    return carry, (~ended, accepted, share, z, slope, size, last_error, change, distance)


@dataclass
class CompiledOdeStep(OdeStep):
    """A step that compiled code has taken; it has no stages."""

    slope: Any = None
    error_size: float = 0.0
    stiffness: float = 0.0


class CompiledMethod:
    """A method whose steps on plain numbers run as compiled code, for an f that `wg.compile` returned."""

    def __init__(self, problem: InitialValueProblem, compile_transform: CompileTransform) -> None:
        settings = problem.settings
        self.base = settings.method
        self.name = self.base.name
        self.adapts = self.base.adapts
        self.evaluations = self.base.evaluations
        self.key = f"odeint {self.name} {settings.rtol} {settings.atol} {problem.parts.shapes} {problem.parts.tree}"
        self._compile_transform = compile_transform
        self._problem = problem
        self._step = self.compile("step", self._make_step)
        self._inside = self.compile("inside", self._make_inside)
        is_explicit = isinstance(self.base, RungeKuttaMethod) and self.adapts
        self._block = self.compile("block", self._make_block) if is_explicit else None

    def compile(self, what: str, make: Callable[[BoundFunction], Callable[..., Any]]) -> Callable[..., Any]:
        """Compile a function of a step that is made from f, once for all calls with one f and one kind of state."""
        parts = self._problem.parts

        def make_from(f: Callable[..., Any]) -> Callable[..., Any]:
            return make(BoundFunction(f, parts))

        return self._compile_transform(make_from, key=f"{self.key} {what}")

    def _make_step(self, bound: BoundFunction) -> Callable[..., Any]:
        base, settings = self.base, self._problem.settings
        rtol, atol = settings.rtol, settings.atol

        def step_and_measure(t: object, h: Any, z: Any, slope: Any, args: Any) -> Any:
            step = base.take_step(bound.at(args), t, h, z, slope)
            if not base.adapts:
                return step.end, step.end_slope()
            scale = atol + rtol * np.maximum(np.abs(z), np.abs(step.end))
            error = np.sqrt(np.mean((base.estimate_error(step) / scale) ** 2))
            return step.end, step.end_slope(), error, *base.compare_slopes(step)

        return step_and_measure

    @property
    def has_blocks(self) -> bool:
        """Whether native code chooses the steps too: not where f cannot be the body of a loop, or is not compiled."""
        return self._block is not None and getattr(self._block, HAS_BLOCKS, True)

    def _make_block(self, bound: BoundFunction) -> Callable[..., Any]:
        base, settings = self.base, self._problem.settings
        assert isinstance(base, RungeKuttaMethod)

        def take_block(start: Any, span: Any, most: Any, first: BlockCarry, args: Any) -> Any:
            system = bound.at(args)

            def attempt(carry: Any, _: None) -> Any:
                return attempt_step(base, system, settings, (start, span, most), BlockCarry(*carry))

            return scan(attempt, tuple(first), length=BLOCK_ATTEMPTS)[1]

        return take_block

    def take_block(self, system: BoundSystem, start: float, span: float, first: BlockCarry) -> list[Any] | None:
        """Try a number of steps one after another as native code; None if that cannot be done for this f."""
        most = self._problem.settings.max_step or np.inf
        assert self._block is not None
        mark = ConversionMark()
        try:
            with np.errstate(all="ignore"):
                rows = self._block(start, span, most, tuple(first), system.args)
        except EscapeError:
            mark.forget_later()
            setattr(self._block, HAS_BLOCKS, False)
            return None
        if not hasattr(self._block, HAS_BLOCKS):
            info = getattr(self._block, "info", None)
            if info is not None and info.fallbacks:
                # The function itself ran, which takes longer than single compiled steps.
                setattr(self._block, HAS_BLOCKS, False)
            elif info is None or info.calls >= TRIED_BLOCKS:
                setattr(self._block, HAS_BLOCKS, True)
        return [np.asarray(system.take_number(row)) for row in rows]

    def _make_inside(self, bound: BoundFunction) -> Callable[..., Any]:
        base = self.base

        def interpolate_inside(t: object, h: object, z: object, slope: object, share: Any, args: Any) -> Any:
            return base.interpolate(base.take_step(bound.at(args), t, h, z, slope), share)

        return interpolate_inside

    def take_step(self, system: Any, t: object, h: Any, z: object, slope: object = None) -> OdeStep:
        """Take a step: by compiled code on plain numbers, by recorded ops on values."""
        if not system.plain:
            return self.base.take_step(system, t, h, z, slope)
        first = system.slope(t, z) if slope is None else slope
        system.evaluations += self.base.evaluations
        end, end_slope, *rest = self._step(t, h, z, first, system.args)
        step = CompiledOdeStep(system, t, h, z, [first], system.take_number(end), _end_slope=end_slope, slope=first)
        if rest:
            error, change, distance = [float(x) for x in rest]
            step.error_size = error if isfinite(error) else np.inf
            step.stiffness = abs(h) * sqrt(change / distance) if distance and isfinite(change) else 0.0
        return step

    def estimate_error(self, step: OdeStep) -> Any:
        """Estimate the error of a step."""
        return self.base.estimate_error(step)

    def compare_slopes(self, step: OdeStep) -> tuple[Any, Any]:
        """Compare the last slopes of a step."""
        return self.base.compare_slopes(step)

    def interpolate(self, step: OdeStep, share: object) -> Any:
        """Return the solution within a step."""
        if not isinstance(step, CompiledOdeStep):
            return self.base.interpolate(step, share)
        system: Any = step.system
        return self._inside(step.t, step.h, step.z, step.slope, share, system.args)

    def estimate_stiffness(self, step: OdeStep) -> float:
        """Estimate the length of the step times the largest eigenvalue."""
        return step.stiffness if isinstance(step, CompiledOdeStep) else self.base.estimate_stiffness(step)


@dataclass(frozen=True)
class BoundFunction:
    """A right-hand side and the structure of its state, without numbers: what compiled steps are made from."""

    f: Callable[..., Any]
    parts: UnknownParts

    def at(self, args: Sequence[object]) -> FlatSystem:
        """Return the system with these arguments."""
        return FlatSystem(self, args)


class FlatSystem:
    """A differential equation on vectors."""

    plain = False

    def __init__(self, function: BoundFunction, args: Sequence[object]) -> None:
        self.function = function
        self.args = args

    def slope(self, t: object, z: object) -> Any:
        """Return dz/dt."""
        parts = self.function.parts
        return join_state(parts, self.function.f(t, split_state(parts, z), *self.args), "f")

    def slope_derivatives(self, t: object, z: object) -> tuple[Any, Any]:
        """Return the derivatives of dz/dt by t and by z."""
        by_time, by_state = jacobian(self.slope, argnums=(0, 1))(t, z)
        return by_time, by_state


class BoundSystem:
    """A problem with its times and arguments, of numbers or values; `plain` takes the numbers of all results."""

    def __init__(self, problem: InitialValueProblem, times: Any, args: Sequence[object], *, plain: bool) -> None:
        self.problem = problem
        self.times = times
        self.args = args
        self.plain = plain
        self.evaluations = 0

    def slope(self, t: object, z: Any) -> Any:
        """Return dz/dt."""
        self.evaluations += 1
        if not self.plain:
            return self.problem.compute_slope(t, z, self.args)
        z.flags.writeable = False
        try:
            return self.take_number(self.problem.compute_slope(t, z, self.args))
        except (ZeroDivisionError, OverflowError):
            # Python's numbers raise where NumPy's become infinite; a shorter step may not go there.
            return np.full(len(z), np.nan)

    def take_number(self, result: object) -> Any:
        """Return the numbers of a result; a compiled system may not depend on values that it was not passed."""
        if isinstance(result, Value) and self.problem.is_compiled:
            raise EscapeError(
                f"{self.problem.called} is compiled and uses a recorded value that is not among its arguments: pass "
                "the value after ts, and take it as an argument"
            )
        return data_of(result)

    def slope_derivatives(self, t: object, z: object) -> tuple[Any, Any]:
        """Return the derivatives of dz/dt by t and by z."""

        def compute_both(t: object, z: object) -> Any:
            return self.problem.compute_slope(t, z, self.args)

        by_time, by_state = jacobian(compute_both, argnums=(0, 1))(t, z)
        return (data_of(by_time), data_of(by_state)) if self.plain else (by_time, by_state)

    def gap(self, k: int, t: object, z: object) -> Any:
        """Return the function of an event."""
        value = self.problem.events[k].g(t, self.problem.split_state(z), *self.args)
        if np.shape(data_of(value)) != ():
            raise ShapeError(
                f"the function of event {k} must return one number; got shape {np.shape(data_of(value))}"
                f"{format_user_line()}"
            )
        return float(self.take_number(value)) if self.plain else value

    def gap_slope(self, k: int, t: float, z: Vector) -> float:
        """Return the derivative of an event function by time, along the solution."""
        live = BoundSystem(self.problem, self.times, self.args, plain=False)
        tangents = (1.0, np.array(self.slope(t, z)))
        return float(data_of(jvp(lambda t, z: live.gap(k, t, z), (t, z), tangents)[1]))

    def restart(self, k: int, t: object, z: object) -> Any:
        """Return the state after an event."""
        change = self.problem.events[k].restart
        if change is None:
            return z
        after = self.problem.join_state(change(t, self.problem.split_state(z), *self.args), "restart")
        return np.array(self.take_number(after), float) if self.plain else after


class SolverState(NamedTuple):
    """Where a solution is, in plain numbers: everything that the next step depends on."""

    start: float
    """Where the current leg began: at a requested time, or at an event."""
    end_index: int
    """The index of the time at which the leg ends."""
    share: float
    """The part of the leg that is done."""
    z: Vector
    size: float
    """The length of the next step."""
    last_error: float
    slope: Vector
    signs: tuple[int, ...]
    """The side of zero of each event function."""
    row: int
    """Number of rows of the result that are done."""
    fired: tuple[int, ...]
    """How often each event took place."""
    ended: bool = False
    nearby: float = 1.0
    """While the solution rests: the distance of a nearby solution, as a share of its first distance."""


class OdeMove(NamedTuple):
    """A step that was chosen: the part of the leg it covers, the rows it gives, and the events in it."""

    share: float
    stop: float
    end_index: int
    rows: tuple[int, ...]
    """Indices of the times between the ends of the step at which the solution is wanted."""
    lands: bool
    """Whether the end of the step is itself a row."""
    crossings: tuple[tuple[int, float], ...]
    """Events without effect, each with the time since the beginning of the step."""
    effect: tuple[int, float] | None
    """The event that ends the step."""


class AcceptedStep(NamedTuple):
    """A step with the states before and after it."""

    before: SolverState
    move: OdeMove
    step: OdeStep
    after: SolverState


@dataclass
class SolveCounts:
    """What a solution took, and what was noticed."""

    steps: int = 0
    rejected: int = 0
    evaluations: int = 0
    last_time: float = 0.0
    stiff_run: int = 0
    stiff_steps: int = 0
    stiffness: float = 0.0
    ignored: dict[int, list[float]] = field(default_factory=dict)
    """Times at which an event function crossed zero in the direction that is not counted."""


@dataclass
class StepBlock:
    """Accepted steps that native code took one after another; each becomes an object only where it is asked for."""

    trajectory: Trajectory
    first: SolverState
    shares: Vector
    """The share of the leg at the end of each step."""
    states: Vector
    slopes: Vector
    sizes: Vector
    errors: Vector
    stiffness: Vector
    rows: list[tuple[int, ...]]
    """Which times are reached inside each step."""
    row_counts: list[int]
    """How many rows were done before each step."""

    def __len__(self) -> int:
        return len(self.shares)

    def state_before(self, k: int) -> SolverState:
        """Return the state before a step, or after the last one."""
        if k == 0:
            return self.first
        return self.first._replace(
            share=float(self.shares[k - 1]),
            z=self.states[k - 1],
            size=float(self.sizes[k - 1]),
            last_error=float(self.errors[k - 1]),
            slope=self.slopes[k - 1],
            row=self.row_counts[k],
        )

    def lands_at(self, k: int) -> bool:
        """Return whether the end of a step is itself a row."""
        return self.row_counts[k + 1] > self.row_counts[k] + len(self.rows[k])

    def state_after(self) -> SolverState:
        """Return the state behind all steps."""
        state = self.state_before(len(self))
        return state._replace(ended=True) if state.share == 1.0 else state

    def list_rows(self) -> list[AcceptedStep]:
        """Return the steps that give rows."""
        return [self.make_step(k) for k in range(len(self)) if self.row_counts[k + 1] > self.row_counts[k]]

    def make_step(self, k: int) -> AcceptedStep:
        """Return one of the steps."""
        before = self.state_before(k)
        trajectory = self.trajectory
        span = trajectory.system.times[before.end_index] - before.start
        stop = float(self.shares[k])
        step = CompiledOdeStep(
            trajectory.system,
            before.start + before.share * span,
            (stop - before.share) * span,
            before.z,
            [before.slope],
            self.states[k],
            _end_slope=self.slopes[k],
            slope=before.slope,
            error_size=float(self.errors[k]),
            stiffness=float(self.stiffness[k]),
        )
        move = OdeMove(before.share, stop, before.end_index, self.rows[k], self.lands_at(k), (), None)
        after = self.state_after() if k == len(self) - 1 else self.state_before(k + 1)
        return AcceptedStep(before, move, step, after)


class TriedStep(NamedTuple):
    """A step, its error in parts of what the tolerances allow, and how far nearby solutions are then."""

    step: OdeStep
    error: float
    nearby: float = 1.0


class Trajectory:
    """The steps of a solution, on plain numbers. `advance` is a function: the same state gives the same step."""

    def __init__(self, system: BoundSystem, rows: Sequence[int], end: int, *, lands: bool) -> None:
        self.system = system
        self.problem = system.problem
        self.settings = system.problem.settings
        self.method = system.problem.method
        self.rows = rows
        """Indices of the times of the rows, in the order in which they are reached."""
        self.end = end
        """Index of the last time."""
        self.lands = lands
        """Whether the rows are the requested times themselves; then steps may end there."""
        self.span = system.times[end] - system.times[0]

    def time_of(self, state: SolverState) -> float:
        """Return the time of a state."""
        span: float = self.system.times[state.end_index] - state.start
        return state.start + state.share * span

    def make_start(self, z: Vector) -> SolverState:
        """Return the first state; raises if f cannot be computed there."""
        t = self.system.times[0]
        slope = self.system.slope(t, z)
        if not np.isfinite(slope).all():
            raise self._describe_non_finite(t, z)
        if self.method.name == "leapfrog":
            self._check_separable(t, z, slope)
        end_index = self.end if self.method.adapts else 1
        size = self._choose_first_size(t, z, slope) if self.method.adapts else 0.0
        signs = tuple(self._find_sign(k, t, z) for k in range(len(self.problem.events)))
        row = 1 if self.lands else 0
        return SolverState(t, end_index, 0.0, z, size, 1.0, slope, signs, row, (0,) * len(signs))

    def _check_separable(self, t: float, z: Vector, slope: Vector) -> None:
        half = len(z) // 2
        other = np.concatenate([z[:half], z[half:] + 0.5])
        moved = np.concatenate([z[:half] + 0.5, z[half:]])
        kicks, drifts = self.system.slope(t, other)[half:], self.system.slope(t, moved)[:half]
        if not np.array_equal(kicks, slope[half:]) or not np.array_equal(drifts, slope[:half]):
            raise OperandError(
                f"{self.problem.called}: leapfrog needs a separable system, in which the slopes of the positions "
                "depend on the momenta alone and those of the momenta on the positions alone; this one is not: use "
                "method='rk4' or 'dopri5'"
            )

    def _choose_first_size(self, t: float, z: Vector, slope: Vector) -> float:
        """Choose the first step such that an Euler step and the change of the slope stay small (Hairer)."""
        scale = self.settings.atol + self.settings.rtol * np.abs(z)
        span = abs(self.span)
        state_size, slope_size = _rms(z / scale), _rms(slope / scale)
        first = 1e-6 if min(state_size, slope_size) < 1e-5 else 0.01 * state_size / slope_size
        first = min(first, span)
        later = self.system.slope(t + np.copysign(first, self.span), z + np.copysign(first, self.span) * slope)
        bend = _rms((later - slope) / scale) / first
        largest = max(slope_size, bend) if isfinite(bend) else slope_size
        second = max(1e-6, first * 1e-3) if largest <= 1e-15 else (0.01 / largest) ** ERROR_POWER
        return float(min(100.0 * first, second, span, self.settings.max_step or span))

    def _find_sign(self, k: int, t: float, z: Vector) -> int:
        """Return the side of zero on which an event function is; at zero its slope decides."""
        value = self._compute_gap(k, t, z)
        slope = self.system.gap_slope(k, t, z)
        if abs(value) > NEAR_EVENT * abs(self.span * slope):
            return int(np.sign(value))
        if not slope:
            raise ConvergenceError(
                f"{self.problem.called}: the function of event {k} is zero at t = {t:g}, and so is its slope, so it "
                "cannot be told from which side it comes: start elsewhere, or take another function"
            )
        return int(np.sign(slope) * np.sign(self.span))

    def _compute_gap(self, k: int, t: float, z: Vector) -> float:
        value: float = self.system.gap(k, t, z)
        if not isfinite(value):
            raise NonFiniteError(f"{self.problem.called}: the function of event {k} is {value} at t = {t:g}")
        return value

    def advance(self, state: SolverState, counts: SolveCounts | None = None) -> AcceptedStep:
        """Take the next step that is accurate enough, up to an event that ends or changes the solution."""
        counts = SolveCounts() if counts is None else counts
        span = self.system.times[state.end_index] - state.start
        t = state.start + state.share * span
        if self.method.adapts:
            tried, stop, size = self._try_steps(state, span, t, counts)
            step, error, nearby = tried.step, max(tried.error, 1e-4), tried.nearby
        else:
            step, stop = self._take_fixed_step(state, span, t)
            size, error, nearby = 0.0, 1.0, 1.0
        counts.steps += 1
        crossings, signs = self._find_crossings(state, step, counts)
        effects = [(length, k) for length, k in crossings if self.problem.events[k].has_effect]
        if effects:
            return self._end_at_event(state, step, crossings, min(effects, key=_length_of))
        rows, row = self._take_rows(state, step.t + step.h, is_last=stop == 1.0 and state.end_index == self.end)
        lands = self.lands and stop == 1.0 and row < len(self.rows) and self.rows[row] == state.end_index
        move = OdeMove(
            state.share, stop, state.end_index, rows, lands, tuple((k, length) for length, k in crossings), None
        )
        fired = _count_fired(state.fired, crossings)
        slope = step.end_slope()
        after = state._replace(
            share=stop,
            z=step.end,
            size=size,
            last_error=error,
            slope=slope,
            signs=signs,
            row=row + lands,
            fired=fired,
            nearby=nearby,
        )
        return AcceptedStep(state, move, step, self._begin_leg(after) if stop == 1.0 else after)

    @property
    def runs_blocks(self) -> bool:
        """Whether native code may choose the steps: adaptive ones of a compiled f, without events."""
        method = self.method
        return isinstance(method, CompiledMethod) and method.has_blocks and not self.problem.events

    def advance_block(self, state: SolverState, counts: SolveCounts) -> StepBlock | None:
        """Take many steps as native code; None if none was accepted, which `advance` then explains."""
        method = self.method
        assert isinstance(method, CompiledMethod)
        span = self.system.times[state.end_index] - state.start
        first = BlockCarry(state.share, state.z, state.slope, state.size, state.last_error, False, False)
        found = method.take_block(self.system, state.start, span, first)
        if found is None:
            return None
        accepted = np.flatnonzero(found[1])[: self.settings.max_steps - counts.steps]
        if not len(accepted):
            return None
        tried = int(np.count_nonzero(found[0][: accepted[-1] + 1]))
        counts.rejected += tried - len(accepted)
        self.system.evaluations += tried * method.evaluations
        shares, states, slopes, sizes, errors, change, distance = [part[accepted] for part in found[2:]]
        before = np.append(state.share, shares[:-1])
        lengths = (shares - before) * span
        with np.errstate(all="ignore"):
            ratios = np.sqrt(change / distance)
        stiffness = np.abs(lengths) * np.where(np.isfinite(ratios), ratios, 0.0)
        rows, row_counts = self._take_block_rows(state, state.start + before * span + lengths, bool(shares[-1] == 1.0))
        block = StepBlock(self, state, shares, states, slopes, sizes, errors, stiffness, rows, row_counts)
        self._watch_block(block, before, lengths, span, counts)
        return block

    def _take_block_rows(
        self, state: SolverState, ends: Vector, is_last: bool
    ) -> tuple[list[tuple[int, ...]], list[int]]:
        """Return the times that are reached inside each step, and how many rows are done before each and behind all."""
        reached: list[list[int]] = [[] for _ in ends]
        row = state.row
        sign = np.copysign(1.0, self.span)
        lands = False
        while row < len(self.rows):
            k = self.rows[row]
            if self.lands and k == state.end_index:
                lands = is_last
                break
            at = int(np.searchsorted(sign * ends, sign * self.system.times[k]))
            if at == len(ends) and not is_last:
                break
            reached[min(at, len(ends) - 1)].append(k)
            row += 1
        counts = [state.row]
        for times in reached:
            counts.append(counts[-1] + len(times))
        counts[-1] += lands
        return [tuple(times) for times in reached], counts

    def _watch_block(self, block: StepBlock, before: Vector, lengths: Vector, span: float, counts: SolveCounts) -> None:
        """Count the steps of a block, and those whose length is limited by stability."""
        if not counts.stiff_run and not np.any(block.stiffness > STABILITY_LIMIT):
            counts.steps += len(block)
            return
        for share, length, product in zip(before.tolist(), lengths.tolist(), block.stiffness.tolist(), strict=True):
            self._watch_stiffness(product, block.first.start + share * span, length, share, span, counts)
            counts.steps += 1

    def _begin_leg(self, state: SolverState) -> SolverState:
        if state.end_index == self.end:
            return state._replace(ended=True)
        return state._replace(start=self.system.times[state.end_index], end_index=state.end_index + 1, share=0.0)

    def _take_fixed_step(self, state: SolverState, span: float, t: float) -> tuple[OdeStep, float]:
        assert self.settings.step is not None
        count = max(ceil(abs(span) / self.settings.step - 1e-9), 1)
        stop = (round(state.share * count) + 1) / count
        step = self.method.take_step(self.system, t, (stop - state.share) * span, state.z, state.slope)
        if not np.isfinite(step.end).all() or not np.isfinite(step.end_slope()).all():
            raise self._describe_overflow(step)
        return step, stop

    def _describe_overflow(self, step: OdeStep) -> Exception:
        """Return the error for a step of fixed length that does not lead to a finite state."""
        at = (step.t + step.h, step.end) if np.isfinite(step.end).all() else (step.t, step.z)
        if not np.isfinite(self.system.slope(*at)).all():
            return self._describe_non_finite(*at)
        return ConvergenceError(
            f"{self.problem.called}: a step of length {abs(step.h):g} from t = {step.t:g} leads to numbers that are "
            "not finite: take a smaller step=, or an adaptive method"
        )

    def _try_steps(
        self, state: SolverState, span: float, t: float, counts: SolveCounts
    ) -> tuple[TriedStep, float, float]:
        """Try shorter and shorter steps until the error is small enough; returns also its end and the next length."""
        size = state.size
        was_rejected = False
        while True:
            stop = state.share + size / abs(span)
            stop = 1.0 if stop > 1.0 - 1e-9 else stop
            h = (stop - state.share) * span
            if abs(h) <= 16.0 * float(np.spacing(max(abs(t), abs(span) * 1e-3))):
                raise self._describe_small_step(t, h, state.z)
            tried = self._try_step(t, h, state)
            error = tried.error
            if error <= 1.0:
                product = self.method.estimate_stiffness(tried.step)
                self._watch_stiffness(product, t, h, state.share, span, counts)
                return tried, stop, self._choose_size(abs(h), error, state.last_error, was_rejected)
            counts.rejected += 1
            was_rejected = True
            size = abs(h) * max(MIN_FACTOR, SAFETY * error**-ERROR_POWER)

    def _measure_error(self, step: OdeStep) -> float:
        """Return the error of a step in parts of what the tolerances allow."""
        if isinstance(step, CompiledOdeStep):
            return step.error_size
        scale = self.settings.atol + self.settings.rtol * np.maximum(np.abs(step.z), np.abs(step.end))
        return _rms(self.method.estimate_error(step) / scale)

    def _try_step(self, t: float, h: float, state: SolverState) -> TriedStep:
        """Take a step; returns also its error: 1 is just small enough, infinity means that something is not finite."""
        try:
            step = self.method.take_step(self.system, t, h, state.z, state.slope)
        except np.linalg.LinAlgError:
            return TriedStep(OdeStep(self.system, t, h, state.z, [], state.z), np.inf)
        error = self._measure_error(step)
        if not isfinite(error) or not np.isfinite(step.end_slope()).all():
            return TriedStep(step, np.inf)
        return TriedStep(step, error) if error else self._try_near_rest(step, state)

    def _try_near_rest(self, step: OdeStep, state: SolverState) -> TriedStep:
        """Return a step without an error, with the error of the same step from nearby states, relative to them.

        A solution that rests at an equilibrium, such as 0, has no errors in steps of any length. Its derivatives have:
        they are the motion of nearby solutions. Nothing is concluded where that is not linear.
        """
        z = step.z
        scale = self.settings.atol + self.settings.rtol * np.abs(z)
        far = max(1.0, HIDDEN_DISTANCE * float(np.max(np.abs(z), initial=0.0) / np.max(scale, initial=1e-300)))
        direction = far * scale * np.random.default_rng(0).choice([-1.0, 1.0], len(z))
        errors, growths = [], []
        for factor in (1.0, 2.0):
            near = z + factor * direction
            try:
                moved = self.method.take_step(self.system, step.t, step.h, near, self.system.slope(step.t, near))
            except (np.linalg.LinAlgError, NonFiniteError):
                return TriedStep(step, 0.0)
            errors.append(self._measure_error(moved))
            growths.append(_rms((moved.end - step.end) / (factor * far * scale)))
        is_linear = np.isfinite(errors).all() and 1.8 * errors[0] <= errors[1] <= 2.2 * errors[0]
        if not is_linear:
            return TriedStep(step, 0.0)
        error = errors[0] / (self.settings.rtol * far)
        # An error of solutions that come nearer counts by their first distance, as those of others do by `atol`.
        return TriedStep(step, error * min(state.nearby, 1.0), state.nearby * growths[0])

    def _choose_size(self, size: float, error: float, last_error: float, was_rejected: bool) -> float:
        """Choose the length of the next step by this error and the one before (a PI controller)."""
        if error == 0.0:
            factor = MAX_FACTOR
        else:
            factor = SAFETY * error ** (-0.7 * ERROR_POWER) * last_error ** (0.4 * ERROR_POWER)
        factor = min(max(factor, MIN_FACTOR), 1.0 if was_rejected else MAX_FACTOR)
        return min(size * factor, self.settings.max_step or np.inf)

    def _watch_stiffness(
        self, product: float, t: float, h: float, share: float, span: float, counts: SolveCounts
    ) -> None:
        """Count steps whose length is limited by stability; raises if it is known that there will be too many.

        `product` is the length of the step times the largest eigenvalue.
        """
        counts.stiff_run = counts.stiff_run + 1 if product > STABILITY_LIMIT else 0
        if counts.stiff_run < MAX_STIFF_STEPS:
            return
        counts.stiff_steps += 1
        counts.stiffness = max(counts.stiffness, product / abs(h))
        left = abs(span) * (1.0 - share) / abs(h)
        if counts.steps + left > 2.0 * self.settings.max_steps:
            raise self.describe_too_many_steps(t, counts)

    def describe_too_many_steps(self, t: float, counts: SolveCounts) -> ConvergenceError:
        """Return the error for a solution that needs too many steps."""
        if counts.stiff_steps:
            return ConvergenceError(
                f"{self.problem.called}: the system is stiff, so {self.method.name} can take only short steps "
                f"(an eigenvalue is about {counts.stiffness:.3g} at t = {t:g}) and would need more than "
                f"{self.settings.max_steps}: use method={STIFF_METHOD!r}"
            )
        return ConvergenceError(
            f"{self.problem.called}: {count_with_noun(counts.steps, 'step')} led only to t = {t:g} of "
            f"{self.system.times[self.end]:g} ({counts.rejected} more were rejected): pass a larger rtol, atol, "
            "step= or max_steps=, or a shorter time"
        )

    def _describe_small_step(self, t: float, h: float, z: Vector) -> Exception:
        """Return the error for a solution that goes on by no step, however short."""
        slope = self.system.slope(t, z)
        for length in (h, 1e-9 * self.span, 1e-6 * self.span):
            later = z + length * slope
            if not np.isfinite(self.system.slope(t + length, later)).all():
                return self._describe_non_finite(t + length, later)
        return ConvergenceError(
            f"{self.problem.called}: no step is short enough at t = {t:g}, where y is "
            f"{short_repr(self.problem.split_state(z))}: the solution may grow without bound there, f may jump, or the "
            "tolerances may be too small for float64"
        )

    def _describe_non_finite(self, t: float, z: Vector) -> NonFiniteError:
        """Return the error for an f that is not finite at a state, with the line if it is found."""
        slope = self.problem.split_state(self.system.slope(t, z))
        where = f"at t = {t:g}, y = {short_repr(self.problem.split_state(z))}"
        place = find_non_finite_line(self.problem, t, z, self.system.args)
        return NonFiniteError(f"{self.problem.called}: f is {short_repr(slope)} {where}{place}")

    def _take_rows(self, state: SolverState, t: float, *, is_last: bool) -> tuple[tuple[int, ...], int]:
        """Return the indices of the times up to t that are wanted inside a step, and how many rows are done then."""
        row = state.row
        rows = []
        while row < len(self.rows):
            k = self.rows[row]
            wanted = self.system.times[k]
            if self.lands and k == state.end_index:
                break
            if not is_last and (wanted - t) * self.span > 0.0:
                break
            rows.append(k)
            row += 1
        return tuple(rows), row

    def _find_crossings(
        self, state: SolverState, step: OdeStep, counts: SolveCounts
    ) -> tuple[list[tuple[float, int]], tuple[int, ...]]:
        """Return the events in a step, each with the time since its beginning, and the signs at its end."""
        crossings: list[tuple[float, int]] = []
        signs = []
        for k, one in enumerate(self.problem.events):
            t = step.t + step.h
            value = self._compute_gap(k, t, step.end)
            sign = int(np.sign(value)) if value else self._find_sign(k, t, step.end)
            signs.append(sign)
            if value and sign == state.signs[k]:
                continue
            rises = state.signs[k] < 0
            if one.direction and rises != (one.direction > 0):
                counts.ignored.setdefault(k, []).append(t)
                continue
            crossings.append((self._locate(k, step, state), k))
        return sorted(crossings, key=_length_of), tuple(signs)

    def _locate(self, k: int, step: OdeStep, state: SolverState) -> float:
        """Return the time from the beginning of a step to an event in it.

        It is found on the polynomial between the ends first, and then on steps that end at the event.
        """

        def gap_inside(share: float) -> float:
            return float(self.system.gap(k, step.t + share * step.h, self.method.interpolate(step, share)))

        def gap_after(length: float) -> float:
            taken = self.method.take_step(self.system, step.t, length, step.z, state.slope)
            return float(self.system.gap(k, step.t + length, taken.end))

        low = _find_same_side(gap_inside, state.signs[k])
        if low is None:
            raise ConvergenceError(
                f"{self.problem.called}: event {k} follows itself at once at t = {step.t:g}; events accumulate there"
            )
        return _polish_root(gap_after, _find_root_between(gap_inside, low, 1.0, state.signs[k]) * step.h, step.h)

    def _end_at_event(
        self,
        state: SolverState,
        step: OdeStep,
        crossings: list[tuple[float, int]],
        effect: tuple[float, int],
    ) -> AcceptedStep:
        """End a step at an event, and begin again there unless the event is terminal."""
        length, k = effect
        before = [pair for pair in crossings if abs(pair[0]) < abs(length)]
        short = self.method.take_step(self.system, step.t, length, step.z, state.slope)
        t = step.t + length
        if abs(length) <= 16.0 * float(np.spacing(max(abs(t), abs(self.span) * 1e-3))):
            raise ConvergenceError(
                f"{self.problem.called}: events accumulate at t = {t:g}: event {k} follows after {abs(length):.3g}; "
                "let restart leave the state at rest, or end the solution before"
            )
        rows, row = self._take_rows(state, t, is_last=False)
        move = OdeMove(
            state.share, 0.0, state.end_index, rows, False, tuple((j, one) for one, j in before), (k, length)
        )
        fired = _count_fired(state.fired, [*before, effect])
        after = state._replace(start=t, share=0.0, row=row, fired=fired, last_error=1.0)
        if self.problem.events[k].terminal:
            return AcceptedStep(state, move, short, after._replace(z=short.end, ended=True))
        z = self.system.restart(k, t, short.end)
        signs = tuple(self._find_sign(j, t, z) for j in range(len(self.problem.events)))
        slope = self.system.slope(t, z)
        if not np.isfinite(slope).all():
            raise self._describe_non_finite(t, z)
        return AcceptedStep(state, move, short, after._replace(z=z, signs=signs, slope=slope))


def _length_of(crossing: tuple[float, int]) -> float:
    return abs(crossing[0])


def _count_fired(fired: tuple[int, ...], crossings: Sequence[tuple[float, int]]) -> tuple[int, ...]:
    return tuple(count + sum(k == j for _, j in crossings) for k, count in enumerate(fired))


def _rms(vector: Vector) -> float:
    """Return the root of the mean square."""
    return sqrt(float(vector @ vector) / len(vector)) if np.isfinite(vector).all() else np.inf


def _find_same_side(gap: Callable[[float], float], sign: int) -> float | None:
    """Return a share of a step at which an event function still has its first sign; None if there is none."""
    share = 0.0
    for halvings in range(MAX_HALVINGS):
        if np.sign(gap(share)) == sign:
            return share
        share = 0.5 ** (halvings + 1)
    return None


def _find_root_between(gap: Callable[[float], float], low: float, high: float, sign: int) -> float:
    """Find where a function changes its sign, by the rule of false position with halved weights (Illinois)."""
    at_low, at_high = gap(low), gap(high)
    side = 0
    for _ in range(MAX_ROOT_STEPS):
        if not at_high or high - low <= 1e-14:
            return high
        middle = high - at_high * (high - low) / (at_high - at_low)
        middle = middle if low < middle < high else 0.5 * (low + high)
        value = gap(middle)
        if np.sign(value) == sign:
            low, at_low = middle, value
            at_high = 0.5 * at_high if side == -1 else at_high
            side = -1
        else:
            high, at_high = middle, value
            at_low = 0.5 * at_low if side == 1 else at_low
            side = 1
    return high


def _polish_root(gap: Callable[[float], float], length: float, whole: float) -> float:
    """Improve the length of a step that ends at an event, by the secant method."""
    other, at_other = length - 1e-6 * whole, 0.0
    at_other, value = gap(other), gap(length)
    for _ in range(MAX_ROOT_STEPS):
        if not value or value == at_other:
            break
        change = value * (length - other) / (value - at_other)
        if not isfinite(change) or abs(change) > abs(whole):
            break
        other, at_other = length, value
        length -= change
        if length == other:
            break
        after = gap(length)
        if abs(after) >= abs(at_other):
            return other
        value = after
    return length


def find_non_finite_line(problem: InitialValueProblem, t: float, z: Vector, args: Sequence[object]) -> str:
    """Format the line of f that computed the first number that is not finite, as the end of a message."""
    try:
        traced = run_traced(lambda t, z: problem.compute_slope(t, z, args), (t, np.array(z)), {})
    except Exception:
        # The message is wanted even if f cannot be traced.
        return ""
    nodes = sorted(traced.tape.walk_nodes(0, len(traced.tape.buffer)), key=lambda pair: pair[0])
    for offset, node in nodes:
        if not np.isfinite(np.asarray(node.y, float)).all():
            place = traced.tape.notes.place_at(offset)
            return f": {node.op.name} gives {short_repr(node.y)}" + ("" if place is None else f" ({place})")
    return ""
