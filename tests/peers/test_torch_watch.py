"""`wg.watch`: broken PyTorch programs are explained, right ones are not accused, and nothing of a program changes."""

from __future__ import annotations

import copy
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional

import wiregrad as wg
from wiregrad.errors import InputError, NonFiniteError, UnknownNameError

from ..support.limits import PATIENCE
from .torch_programs import broken_programs, put_aside
from .torch_programs.registry import BrokenProgram, check_answer
from .torch_programs.right_models import MODELS

PROGRAMS = [*broken_programs.PROGRAMS, *put_aside.PROGRAMS]


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.name)
def test_a_broken_program_is_explained(program: BrokenProgram) -> None:
    check_answer(program)


def watch_model(name: str) -> Any:
    torch.manual_seed(0)
    model, loss = MODELS[name]()
    with wg.watch(model) as seen:
        loss().backward()
    return seen


@pytest.mark.parametrize("name", MODELS)
def test_a_right_model_is_not_accused(name: str) -> None:
    seen = watch_model(name)
    check = seen.check_backward()

    assert check.ok, str(check)
    assert check.checked >= 8
    assert not seen.blame()
    assert [finding.kind for finding in seen.flow().findings] == ["steady"]


@pytest.mark.parametrize("name", MODELS)
def test_watching_changes_no_number(name: str) -> None:
    gradients = []
    for watched in (False, True):
        torch.manual_seed(0)
        model, loss = MODELS[name]()
        torch.manual_seed(1)
        if watched:
            with wg.watch(model) as seen:
                loss().backward()
            seen.check_backward()
        else:
            loss().backward()
        gradients.append([parameter.grad for parameter in model.parameters()])
        gradients[-1].append(torch.rand(3))

    assert [torch.equal(a, b) for a, b in zip(*gradients, strict=True)] == [True] * len(gradients[0])


@pytest.mark.parametrize("name", MODELS)
def test_every_held_value_is_what_the_op_computed(name: str) -> None:
    """Ops are run once more in order, each on the recorded values it read."""
    from wiregrad.exchange.torch_replay import copy_value, find_op, is_random, list_tensors, rebuild

    run = watch_model(name).run
    compared = 0
    for op in run.ops:
        if is_random(op):
            continue
        results = find_op(op)(
            *rebuild(op.arguments, lambda k: copy_value(run, k)), **rebuild(op.keywords, lambda k: copy_value(run, k))
        )
        for number, result in zip(op.outputs, list_tensors(results), strict=True):
            # Memory that nothing was written to, and the workspace of a kernel, hold what they like.
            if not op.title.startswith(("empty", "new_empty")) and result.dtype != torch.uint8:
                assert torch.allclose(run.tensors[number].value, result, equal_nan=True), (op.index, op.title)
                compared += 1

    assert compared > 5


def test_views_share_a_storage_and_writes_make_versions() -> None:
    x = torch.zeros(4)
    with wg.watch() as seen:
        row = x.view(2, 2)[0]
        x.add_(1.0)
        row.mul_(2.0)
        x.sum()
    run = seen.run
    view, select, add, mul, total = run.ops
    tensors = run.tensors

    assert len({tensors[k].storage for op in (view, select, add, mul) for k in op.outputs}) == 1
    assert [tensors[k].version for k in (*view.inputs, *add.outputs, *mul.outputs, *total.inputs)] == [0, 1, 2, 2]
    assert add.written == ((add.inputs[0], add.outputs[0]),)
    assert tensors[total.inputs[0]].writer == mul.index
    assert [tensors[k].value.tolist() for k in (*view.inputs, *mul.inputs, *total.inputs)] == [
        [0.0, 0.0, 0.0, 0.0],
        [1.0, 1.0],
        [2.0, 2.0, 1.0, 1.0],
    ]


def test_ops_know_their_module_line_and_call() -> None:
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layers = nn.Sequential(nn.Linear(2, 3), nn.Tanh())

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.layers(x)

    model = Model()
    with wg.watch(model) as seen:
        model(torch.ones(1, 2))
    op = next(op for op in seen.run.ops if op.title == "tanh")

    assert op.module == "layers.1"
    assert op.site is not None
    assert op.site.text == "self.layers(x)"
    assert op.place is not None
    assert Path(op.place.file) == Path(__file__)
    assert {tensor.name for tensor in seen.run.tensors if tensor.kind == "parameter"} == {
        "layers.0.weight",
        "layers.0.bias",
    }


def test_without_a_model_modules_are_named_after_their_class() -> None:
    model = nn.Sequential(nn.Linear(2, 3), nn.Tanh())
    with wg.watch() as seen:
        model(torch.ones(1, 2)).sum().backward()

    assert {op.module for op in seen.run.ops if op.module} == {"Sequential.0", "Sequential.1"}
    assert seen.explain("Sequential.0.weight").kind == "value"


def test_a_value_is_kept_as_it_was_before_the_optimizer_changed_it() -> None:
    model = nn.Linear(2, 1)
    before = copy.deepcopy(model.weight.detach())
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    with wg.watch(model) as seen:
        model(torch.ones(3, 2)).sum().backward()
        optimizer.step()
    (weight,) = [tensor for tensor in seen.run.tensors if tensor.name == "weight"]

    assert torch.equal(weight.value, before)
    assert not torch.equal(model.weight, before)
    assert seen.check_backward().ok


def test_what_happens_after_the_block_changes_nothing_that_was_recorded() -> None:
    model = nn.Linear(2, 1)
    with wg.watch(model) as seen:
        loss = model(torch.ones(3, 2)).square().sum()
    loss.backward()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.fill_(7.0)
            parameter.grad.fill_(7.0)

    assert seen.check_backward().ok
    assert seen.explain("weight").kind == "value"


@pytest.mark.parametrize("steps", [1, 6])
def test_each_step_is_recorded_and_the_last_ones_are_kept(steps: int) -> None:
    model = nn.Linear(2, 1)
    optimizer = torch.optim.Adam(model.parameters())
    with wg.watch(model) as seen:
        for _ in range(steps):
            optimizer.zero_grad()
            model(torch.ones(3, 2)).sum().backward()
            optimizer.step()

    assert [run.step for run in seen.steps] == list(range(max(0, steps - 4), steps))
    assert [len(run.ops) for run in seen.steps] == [4] * len(seen.steps)
    assert [run.backwards for run in seen.steps] == [1] * len(seen.steps)


def test_a_second_derivative_belongs_to_the_same_step() -> None:
    x = torch.tensor([0.5, 2.0], requires_grad=True)
    with wg.watch() as seen:
        (slope,) = torch.autograd.grad((x**3).sum(), x, create_graph=True)
        slope.square().sum().backward()

    assert len(seen.steps) == 1
    assert seen.check_backward().ok
    assert seen.explain("x").kind == "value"


def test_recording_ends_after_the_first_step_that_breaks() -> None:
    seen = broken_programs.third_step_of_a_training()

    assert [run.step for run in seen.steps] == [0, 1, 2]


def test_a_watch_that_stops_ends_the_training() -> None:
    w = torch.tensor(1.0, requires_grad=True)
    seen = wg.watch(stop=True)
    done = []

    def train() -> None:
        for scale in (1.0, 0.0, 1.0):
            (w * scale).log().backward()
            done.append(scale)

    with pytest.raises(NonFiniteError, match="step 1 is not finite"), seen:
        train()

    assert done == [1.0, 0.0]
    assert seen.blame().origins[0].op == "log"


@pytest.mark.parametrize("keep", ["summaries", 1000])
def test_summaries_take_the_place_of_values_that_have_no_room(keep: Any) -> None:
    model = nn.Linear(50, 40)
    x = torch.randn(30, 50)
    with wg.watch(model, keep=keep) as seen:
        (model(x) / 0.0).sum().backward()
    held = [held for held in seen.run.list_held() if held.value is not None]
    origin = seen.blame().origins[0]

    assert sum(value.value.untyped_storage().nbytes() for value in held) <= 20_000
    assert (origin.op, origin.place.line) == ("div", origin.place.line)
    assert "held as a summary only" in str(seen.blame())
    assert "values were held as summaries only" in str(seen.check_backward())


def chain_of_layers(x: torch.Tensor) -> torch.Tensor:
    """Autograd saves one value of each layer; a watch that holds everything holds two, and two gradients."""
    for _ in range(24):
        x = torch.tanh(x) * 1.01
    return x.sum()


@pytest.fixture
def measure_peak(monkeypatch: pytest.MonkeyPatch) -> Callable[..., int]:
    # The benchmarks are no part of the package.
    monkeypatch.syspath_prepend(Path(__file__).parents[2])
    from benchmarks import watching

    measure: Callable[..., int] = watching.measure_peak
    return measure


def test_program_and_watch_take_at_most_three_times_the_memory_of_the_program(measure_peak: Callable[..., int]) -> None:
    x = torch.linspace(-1.0, 1.0, 1 << 17, requires_grad=True)

    def watch_chain(keep: Any) -> None:
        with wg.watch(keep=keep):
            chain_of_layers(x).backward()

    plain = measure_peak(lambda: chain_of_layers(x).backward(), [x])

    assert measure_peak(lambda: watch_chain("auto"), [x]) <= 3 * plain
    assert measure_peak(lambda: watch_chain("all"), [x]) > 3 * plain


def test_a_step_that_does_not_fit_is_still_checked_in_part() -> None:
    x = torch.linspace(-1.0, 1.0, 1 << 17, requires_grad=True)
    bias = torch.zeros(3, requires_grad=True)
    with wg.watch() as seen:
        chain_of_layers(x + torch.tanh(bias).sum()).backward()
    check = seen.check_backward()
    (gradient, slot) = next(parts[0] for k, parts in seen.run.by_target.items() if seen.run.tensors[k].name == "bias")

    assert check.ok
    assert check.checked >= 24
    assert "held as summaries only: keep='all' holds them" in str(check)
    assert seen.run.read_held(gradient.sent[slot]) is not None


def test_each_step_may_hold_as_much_as_the_first() -> None:
    x = torch.linspace(-1.0, 1.0, 1 << 17, requires_grad=True)
    checked = []
    with wg.watch() as seen:
        for _ in range(3):
            chain_of_layers(x).backward()
            checked.append(seen.check_backward().checked)

    assert checked[0] == checked[1] == checked[2]


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16])
def test_summaries_measure_the_numbers(dtype: torch.dtype) -> None:
    from wiregrad.exchange.torch_watch import summarize_tensor

    summary = summarize_tensor(torch.tensor([3.0, -4.0, 0.0, float("nan"), float("inf")], dtype=dtype))

    assert (summary.size, summary.zeros, summary.nans, summary.infs) == (5, 1, 1, 1)
    assert (summary.low, summary.high, summary.norm) == (-4.0, 3.0, pytest.approx(5.0))
    assert summary.mean == pytest.approx(-1 / 3, rel=1e-2)


@pytest.mark.parametrize(
    ("values", "rms"),
    [([60000.0, 60000.0], 60000.0), ([True, False, True, True], 0.75**0.5), ([3 + 4j, 0j], 12.5**0.5), ([2, 2], 2.0)],
)
def test_summaries_of_any_dtype_do_not_overflow(values: list[Any], rms: float) -> None:
    from wiregrad.exchange.torch_watch import summarize_tensor

    tensor = torch.tensor(values)
    if tensor.is_floating_point():
        tensor = tensor.half()

    assert summarize_tensor(tensor).rms == pytest.approx(rms, rel=1e-3)
    assert summarize_tensor(torch.tensor([1e300, 1e300], dtype=torch.float64)).rms == pytest.approx(1e300)


def test_a_declared_straight_through_estimator_is_accepted() -> None:
    class Round(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
            return torch.round(x)

        @staticmethod
        def backward(ctx: Any, g: torch.Tensor) -> torch.Tensor:
            return g

    x = torch.tensor([0.3, 1.7], requires_grad=True)
    with wg.watch() as seen:
        Round.apply(x).sum().backward()

    assert [finding.op for finding in seen.check_backward().findings] == ["Round"]
    assert seen.check_backward(straight_through=[Round]).ok
    assert seen.check_backward(straight_through=["Round"]).declared == ("Round",)


def test_a_wrong_rule_of_a_registered_op_is_named() -> None:
    @torch.library.custom_op("wiregrad_tests::cube", mutates_args=())
    def cube(x: torch.Tensor) -> torch.Tensor:
        return x**3

    def save(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.save_for_backward(inputs[0])

    cube.register_autograd(lambda ctx, g: g * 2 * ctx.saved_tensors[0] ** 2, setup_context=save)
    x = torch.tensor([0.5, 2.0], requires_grad=True)
    with wg.watch() as seen:
        cube(x).sum().backward()

    assert [finding.op for finding in seen.check_backward().findings] == ["cube"]


@pytest.mark.parametrize("fullgraph", [False, True])
def test_a_compiled_function_is_seen_op_by_op(fullgraph: bool) -> None:
    double_root = torch.compile(lambda t: (t * 2).sqrt().sum(), fullgraph=fullgraph, backend="eager")
    x = torch.tensor([0.0, 1.0], requires_grad=True)
    with wg.watch() as seen:
        double_root(x).backward()

    assert [op.title for op in seen.run.ops] == ["mul", "sqrt", "sum"]
    assert seen.blame().origins[0].op == "sqrt"


@pytest.mark.parametrize("use_reentrant", [False, True])
def test_a_checkpointed_layer_is_explained(use_reentrant: bool) -> None:
    from torch.utils.checkpoint import checkpoint

    model = nn.Sequential(nn.Linear(3, 3), nn.Tanh())
    x = torch.randn(2, 3, requires_grad=True)
    with wg.watch(model) as seen:
        checkpoint(model, x, use_reentrant=use_reentrant).sum().backward()

    assert seen.check_backward().ok
    assert seen.explain("0.weight").kind == "value"


def test_a_sparse_gradient_is_explained() -> None:
    model = nn.Embedding(5, 3, sparse=True)
    with wg.watch(model) as seen:
        model(torch.tensor([1, 2])).sum().backward()

    assert seen.check_backward().ok
    assert seen.explain("weight").kind == "value"


def test_functions_of_torch_func_run_under_watch() -> None:
    x = torch.ones(2, 3)
    with wg.watch() as seen:
        slopes = torch.func.vmap(torch.func.grad(lambda v: (v**2).sum()))(x)

    assert torch.equal(slopes, 2 * x)
    assert "pow" in [op.title for op in seen.run.ops]


def test_a_watch_can_be_used_again() -> None:
    x = torch.tensor([0.5, 2.0], requires_grad=True)
    seen = wg.watch()
    for power in (2, 3):
        with seen:
            (x**power).sum().backward()

    assert [run.step for run in seen.steps] == [0, 1]
    assert seen.check_backward().ok


def test_an_infinity_is_traced_through_thousands_of_ops() -> None:
    x = torch.zeros(1, requires_grad=True)
    with wg.watch() as seen:
        y = x.log()
        for _ in range(3000):
            y = y + 1.0
        (y * 0.0).sum().backward()
    origin = seen.blame().origins[0]

    assert origin.op == "log"
    assert "it turns into NaN in mul" in origin.said


def test_a_row_that_is_masked_altogether_is_blamed_on_the_softmax() -> None:
    scores = torch.zeros(2, 2, requires_grad=True)
    with wg.watch() as seen:
        masked = scores.masked_fill(torch.tensor([[True, True], [False, True]]), float("-inf"))
        torch.softmax(masked, -1).sum().backward()

    assert seen.blame().origins[0].op == "_softmax"


def test_rows_picked_from_a_column_are_no_pairs() -> None:
    x = torch.randn(8, 1, requires_grad=True)
    with wg.watch() as seen:
        (x[torch.arange(8)] * x).sum().backward()

    assert "index" in [op.title for op in seen.run.ops]
    assert "broadcast" not in [finding.kind for finding in seen.flow().findings]


def test_questions_inside_of_the_block_are_not_recorded() -> None:
    x = torch.tensor([0.5, 2.0], requires_grad=True)
    with wg.watch() as seen:
        (x**3).sum().backward()
        seen.check_backward()
        seen.flow()
        (x**2).sum().backward()

    assert [[op.title for op in run.ops] for run in seen.steps] == [["pow", "sum"], ["pow", "sum"]]


def test_after_the_block_nothing_of_the_watch_is_left() -> None:
    from torch.nn.modules import module

    before = torch.autograd._engine_run_backward, len(module._global_forward_pre_hooks)
    with pytest.raises(KeyError), wg.watch():
        raise KeyError("x")

    assert (torch.autograd._engine_run_backward, len(module._global_forward_pre_hooks)) == before
    assert torch.compile(lambda t: t + 1, backend="eager")(torch.ones(1)).item() == 2.0


@pytest.mark.parametrize("arguments", [{"keep": -1}, {"keep": "much"}, {"keep": True}, {"model": 3}])
def test_wrong_arguments_are_refused(arguments: dict[str, Any]) -> None:
    with pytest.raises(InputError):
        wg.watch(**arguments)


def test_a_question_before_anything_was_watched_is_refused() -> None:
    with pytest.raises(InputError, match="nothing was watched yet"):
        wg.watch().blame()


def test_an_unknown_name_is_refused_with_a_hint() -> None:
    with wg.watch(nn.Linear(2, 2)) as seen:
        pass
    with pytest.raises(UnknownNameError, match="did you mean weight"):
        seen.explain("wieght")


def test_a_frozen_parameter_is_explained() -> None:
    model = nn.Linear(2, 2)
    model.weight.requires_grad_(False)
    with wg.watch(model) as seen:
        model(torch.ones(1, 2)).sum().backward()

    assert seen.explain("weight").kind == "frozen"


def test_every_answer_says_that_it_used_the_observed_run() -> None:
    model = nn.Linear(2, 2)
    with wg.watch(model) as seen:
        functional.relu(model(torch.ones(1, 2))).sum().backward()
    answers = [seen.blame(), seen.explain("weight"), seen.flow(), seen.check_backward()]

    assert ["from the observed run: " in str(answer).splitlines()[-1] for answer in answers] == [True] * 4


SCRIPT = """
import sys
import torch

print("steps:", sys.argv[1])
w = torch.tensor(1.0, requires_grad=True)
for step in range(int(sys.argv[1])):
    loss = torch.log(torch.relu(w))
    loss.backward()
    with torch.no_grad():
        w -= 0.6
print("done")
"""


@pytest.mark.parametrize(("steps", "code"), [(2, 0), (9, 1)])
def test_the_command_blames_a_script(tmp_path: Path, steps: int, code: int) -> None:
    script = tmp_path / "train.py"
    script.write_text(SCRIPT)
    command = [sys.executable, "-m", "wiregrad", "blame", str(script), str(steps)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False)

    assert done.returncode == code, done.stderr
    assert "steps:" in done.stderr
    assert ("done" in done.stderr) == (code == 0)
    assert ("log gave -Inf" in done.stdout and f"{script}:8" in done.stdout) == (code == 1)


HARMLESS_SCRIPT = """
import sys
import torch

layer = torch.nn.Linear(2, 2)
torch.nn.init.zeros_(layer.weight)
torch.nn.init.constant_(layer.bias, 0.0)
for step in range(int(sys.argv[1])):
    roots = torch.sqrt(torch.relu(layer(torch.ones(3, 2))))
    loss = roots.sum()
    if step == 2:
        loss = loss + torch.sqrt(layer.weight).sum()
    loss.backward()
    print(all(bool(p.grad.isfinite().all()) for p in layer.parameters()))
"""


@pytest.mark.parametrize(("steps", "code"), [(2, 0), (3, 1), (6, 1)])
def test_the_command_fails_only_where_a_gradient_is_spoiled(tmp_path: Path, steps: int, code: int) -> None:
    script = tmp_path / "train.py"
    script.write_text(HARMLESS_SCRIPT)
    command = [sys.executable, "-m", "wiregrad", "blame", "--json", str(script), str(steps)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False)
    answer = json.loads(done.stdout)["answer"]

    assert done.returncode == code, done.stderr
    assert [(origin["op"], origin["place"]) for origin in answer["origins"]] == [("sqrt", f"{script}:12")] * code
    assert [origin["spoils"] for origin in answer["origins"]] == [["the gradient of Linear.weight"]] * code
    assert [(finding["op"], finding["place"]) for finding in answer["harmless"]] == [("sqrt", f"{script}:9")]
    assert answer["source"].endswith("of step 2" if code else "of step 1")


def test_the_command_says_that_a_fault_is_harmless(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(HARMLESS_SCRIPT)
    command = [sys.executable, "-m", "wiregrad", "blame", str(script), "1"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False)

    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("the losses and all gradients are finite\nharmless, because nothing of it reaches")
    assert "True" in done.stderr


def rectify_in_place(x: torch.Tensor) -> torch.Tensor:
    return torch.relu_(x * 1)


class Rectify(torch.autograd.Function):
    """A rectifier of the user, which blocks infinities too."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(x)
        return x.clamp_min(0)

    @staticmethod
    def backward(ctx: Any, g: torch.Tensor) -> torch.Tensor:
        return torch.where(ctx.saved_tensors[0] > 0, g, 0.0)


BLOCKING: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "relu": torch.relu,
    "relu in place": rectify_in_place,
    "relu and views": lambda x: torch.relu(x).reshape(2, 1).t(),
    "where": lambda x: torch.where(x > 0, x, 0.0),
    "masked_fill": lambda x: x.masked_fill(x <= 0, 0.0),
    "custom function": Rectify.apply,
}


@pytest.mark.parametrize("name", BLOCKING)
@pytest.mark.parametrize("keep", ["auto", "summaries"])
def test_an_infinity_that_is_blocked_is_harmless(name: str, keep: str) -> None:
    x = torch.tensor([0.0, 4.0], requires_grad=True)
    with wg.watch(keep=keep) as seen:
        torch.sqrt(BLOCKING[name](x)).sum().backward()
    answer = seen.blame()

    assert x.grad is not None
    assert bool(x.grad.isfinite().all())
    assert not answer, str(answer)
    assert [finding.op for finding in answer.harmless] == ["sqrt"]


def test_a_harmless_fault_beside_a_real_one_is_told_apart() -> None:
    x = torch.tensor([0.0, 4.0], requires_grad=True)
    with wg.watch() as seen:
        (torch.sqrt(torch.relu(x)).sum() + torch.sqrt(x * x).sum()).backward()
    answer = seen.blame()

    assert [origin.call for origin in answer.origins] == ["torch.sqrt(x * x)"]
    assert [origin.spoils for origin in answer.origins] == [("the gradient of x",)]
    assert [finding.call for finding in answer.harmless] == ["torch.sqrt(torch.relu(x))"]


def test_the_first_step_with_a_spoiled_gradient_is_named() -> None:
    x = torch.tensor([0.0, 4.0], requires_grad=True)
    with wg.watch() as seen:
        for step in range(6):
            root = torch.sqrt(torch.relu(x))
            (root.sum() + (torch.sqrt(x * x).sum() if step in (2, 4) else 0)).backward()

    assert seen.run.step == 2
    assert [origin.call for origin in seen.blame().origins] == ["torch.sqrt(x * x)"]


def test_a_watched_function_leaves_no_gradient_behind() -> None:
    model = nn.Linear(2, 1)
    model.weight.grad = torch.full((1, 2), 5.0)
    x = torch.ones(2, requires_grad=True)
    seen = wg.watch(lambda x: model(x).sum(), x)

    assert x.grad is None
    assert model.bias.grad is None
    assert model.weight.grad.tolist() == [[5.0, 5.0]]
    assert {name: array.tolist() for name, array in seen.run.read_gradients().items()} == {
        "x": model.weight[0].tolist(),
        "model.weight": [[1.0, 1.0]],
        "model.bias": [1.0],
    }


def write_to_argument(x: Any) -> Any:
    x += 1.0
    return x.sqrt().sum()


def take_parts(parts: Any) -> Any:
    return parts["a"].sqrt().sum() + parts["b"][0].sum()


FUNCTIONS: dict[str, tuple[Callable[..., Any], tuple[Any, ...], str]] = {
    "in place": (write_to_argument, (-torch.ones(2),), "sqrt"),
    "nested": (take_parts, ({"a": torch.zeros(2), "b": [torch.ones(2)]},), "sqrt"),
    "module": (nn.Sequential(nn.Linear(2, 1), nn.Flatten(0)), (torch.full((1, 2), torch.inf),), ""),
    "several results": (lambda x: (x.log().sum(), x.sqrt()), (torch.zeros(2),), "log"),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_function_is_watched_with_its_arguments(name: str) -> None:
    function, args, op = FUNCTIONS[name]

    assert wg.watch(function, *args).blame().origins[0].op == op


def derive_first(x: Any) -> Any:
    (slope,) = torch.autograd.grad((x**3).sum(), x, create_graph=True)
    return slope.sqrt().sum()


def test_a_gradient_of_a_gradient_is_that_of_the_last_pass() -> None:
    seen = wg.watch(derive_first, torch.ones(2))

    assert seen.run.read_gradients()["x"] == pytest.approx([3.0**0.5] * 2)
    assert not seen.blame()
    assert wg.watch(derive_first, torch.zeros(2)).blame().origins[0].op == "sqrt"


def test_a_function_that_differentiates_itself_is_asked_about_that() -> None:
    model = nn.Linear(2, 1)

    def take_step(x: Any) -> Any:
        loss = (model(x) * 0.0).sqrt().sum()
        loss.backward()
        return loss

    assert wg.watch(take_step, torch.ones(2)).blame().origins[0].op == "sqrt"
    assert wg.watch(lambda x: take_step(x).detach(), torch.ones(2)).blame()


@pytest.mark.parametrize("layer", ["observed", "circuit"])
def test_a_page_is_written_instead_of_opened(tmp_path: Path, layer: str) -> None:
    seen = wg.watch(lambda x: x.sqrt().sum(), torch.ones(2))
    seen.explore(layer=layer, output=tmp_path / "page.html")

    assert (tmp_path / "page.html").read_text(encoding="utf-8").startswith("<!doctype html>")
