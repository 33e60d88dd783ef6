"""The command takes functions of PyTorch and JAX as it takes those of NumPy."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch

from wiregrad.cli import main
from wiregrad.cli.framework_choice import FrameworkChoice, choose_framework

PROGRAMS = {
    "torch": """
import torch
def inner(x): return torch.sqrt(x.sum())
def loss(x, w=2.0): return inner(x * w)
net = torch.nn.Sequential(torch.nn.Linear(2, 1))
torch.nn.init.constant_(net[0].weight, 3.0); torch.nn.init.constant_(net[0].bias, 1.0)
""",
    "jax": """
import jax.numpy as jnp
def inner(x): return jnp.sqrt(jnp.sum(x))
def loss(x, w=2.0): return inner(x * w)
""",
    "numpy": """
import numpy as np
def inner(x): return np.sqrt(np.sum(x))
def loss(x, w=2.0): return inner(x * w)
""",
}


@pytest.fixture(params=PROGRAMS)
def model(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    path = tmp_path / f"{request.param}_model.py"
    path.write_text(PROGRAMS[request.param])
    return path


def run(capsys: pytest.CaptureFixture[str], *args: str) -> tuple[int, str, str]:
    code = main(args)
    out, err = capsys.readouterr()
    return code, out, err


@pytest.mark.peers
def test_the_value_of_a_function_is_printed(capsys: pytest.CaptureFixture[str], model: Path) -> None:
    code, out, err = run(capsys, "run", f"{model}:loss", "x=[2, 6]")

    assert (code, out, err) == (0, "4\n", "")


@pytest.mark.peers
def test_the_gradient_of_a_function_is_printed(capsys: pytest.CaptureFixture[str], model: Path) -> None:
    code, out, _ = run(capsys, "grad", f"{model}:loss", "x=[2, 6]")

    assert code == 0
    assert out.splitlines()[-1].split() == ["gradients", "x=[0.25,", "0.25]", "w=1"]


@pytest.mark.peers
def test_blame_names_the_line_of_the_function(capsys: pytest.CaptureFixture[str], model: Path) -> None:
    code, out, _ = run(capsys, "blame", f"{model}:loss", "x=[0, 0]")

    assert code == 1
    assert out.startswith(("sqrt sent Inf back", "sqrt sent back Inf"))
    assert f"{model.name}:3" in out


@pytest.mark.peers
@pytest.mark.parametrize("words", [["draw"], ["check", "--order", "1"], ["find"]], ids=str)
def test_other_questions_are_answered_too(capsys: pytest.CaptureFixture[str], model: Path, words: list[str]) -> None:
    query = ["op:sqrt"] if words == ["find"] else []
    code, out, _ = run(capsys, *words, f"{model}:loss", *query, "x=[2, 6]")

    assert code == 0
    assert "sqrt" in out or "rules" in out or "checked" in out


@pytest.mark.peers
def test_a_module_of_pytorch_is_a_function(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "model.py").write_text(PROGRAMS["torch"])

    assert run(capsys, "run", f"{tmp_path / 'model.py'}:net", "input=[1, 2]") == (0, "[10.0]\n", "")


@pytest.mark.peers
def test_names_decide_which_framework_a_function_uses(model: Path) -> None:
    names: dict[str, object] = {}
    exec(model.read_text(), names)
    framework = model.name.partition("_")[0]

    assert choose_framework(names["inner"]) == FrameworkChoice(None if framework == "numpy" else framework)  # type: ignore[arg-type]


UNEQUAL_GRADIENTS = {
    "torch": {
        "masked_root": "return torch.where(x > 0, torch.sqrt(x), torch.zeros_like(x)).sum()",
        "clamped_root": "return torch.sqrt((x**2).sum().clamp(min=0.0))",
        "replaced_log": "return torch.nan_to_num(torch.log(x), neginf=0.0).sum()",
        "own_rule": "return Own.apply(x).sum()",
        "own_rule_of_methods": "return OfMethods.apply(x).sum()",
        "hypot": "return torch.hypot(x, x).sum()",
        "norm": "return torch.linalg.norm(x)",
        "methods": "return ((x > 0) * x.sqrt()).sum()",
        "several": "return x.sum(), x.sqrt()",
        "in_place": "x *= 2.0; return x.sqrt().sum()",
        "lowest": "return torch.logsumexp(x - torch.inf, 0).exp()",
        "finite": "return torch.exp(x).sum()",
    },
    "jax": {
        "masked_root": "return jnp.sum(jnp.where(x > 0, jnp.sqrt(x), 0.0))",
        "norm": "return jnp.linalg.norm(x)",
        "divided_by_norm": "return jnp.sum(x / jnp.maximum(jnp.linalg.norm(x), 1e-8))",
        "array": "return jnp.sqrt(x)",
        "several": "return {'a': jnp.sum(x), 'b': jnp.sqrt(x)}",
        "own_rule": "return jnp.sum(own(x))",
        "finite": "return jnp.sum(jnp.exp(x))",
        "hypot": "return jnp.sum(jnp.hypot(x, x))",
    },
}
HEADS = {
    "torch": """
import torch
class Own(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return torch.sqrt(x)
    @staticmethod
    def backward(ctx, g):
        return g / ctx.saved_tensors[0] * 0
class OfMethods(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.sqrt()
    @staticmethod
    def backward(ctx, g):
        return g / ctx.saved_tensors[0] * 0
""",
    "jax": """
import jax
import jax.numpy as jnp
@jax.custom_vjp
def own(x): return jnp.sqrt(x)
own.defvjp(lambda x: (own(x), x), lambda x, g: (g / x * 0.0,))
""",
}


def compute_framework_gradient(framework: str, function: Any) -> Any:
    """Return the framework's own gradient of all results at 0."""
    if framework == "torch":
        x = torch.zeros(2, requires_grad=True)
        results = function(x * 1.0)
        results = results if isinstance(results, tuple) else (results,)
        sum(result.sum() for result in results).backward()  # type: ignore[union-attr]
        assert x.grad is not None
        return x.grad.numpy()
    return jax.grad(lambda x: sum(jnp.sum(part) for part in jax.tree_util.tree_leaves(function(x))))(jnp.zeros(2))


@pytest.mark.peers
@pytest.mark.parametrize(
    ("framework", "name"), [(framework, name) for framework, bodies in UNEQUAL_GRADIENTS.items() for name in bodies]
)
def test_blame_finds_what_is_not_finite_in_the_framework_itself(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, framework: str, name: str
) -> None:
    path = tmp_path / "model.py"
    path.write_text(f"{HEADS[framework]}def f(x):\n    {UNEQUAL_GRADIENTS[framework][name]}\n")
    names: dict[str, Any] = {}
    exec(path.read_text(), names)
    gradient = compute_framework_gradient(framework, names["f"])
    code, out, _ = run(capsys, "blame", f"{path}:f", "x=[0, 0]")

    assert code == (0 if np.isfinite(gradient).all() else 1)
    assert "from the observed run" in out


@pytest.mark.peers
@pytest.mark.parametrize("command", ["grad", "explain", "draw", "find nan", "explore -o page.html"])
@pytest.mark.parametrize("framework", HEADS)
def test_gradients_that_the_framework_does_not_have_are_noted(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, framework: str, command: str
) -> None:
    path = tmp_path / "model.py"
    body = UNEQUAL_GRADIENTS[framework]["masked_root"]
    path.write_text(f"{HEADS[framework]}def f(x):\n    {body}\n")
    monkeypatch.chdir(tmp_path)
    name, *words = command.split()
    noted = run(capsys, name, f"{path}:f", *words, "x=[0, 1]")[2]
    quiet = run(capsys, name, f"{path}:f", *words, "x=[1, 4]")[2]

    assert f"those of {framework} itself are x [NaN, 0.5]" in noted
    assert "itself are" not in quiet


WRONG_RULES = {
    "torch": """
import torch
class Wrong(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x): return x.clone()
    @staticmethod
    def backward(ctx, g): return g * 7
def f(x): return Wrong.apply(x).sum()
""",
    "jax": """
import jax
import jax.numpy as jnp
@jax.custom_vjp
def Wrong(x): return x * 1.0
Wrong.defvjp(lambda x: (Wrong(x), x), lambda x, g: (g * 7,))
def f(x): return jnp.sum(Wrong(x))
""",
}


@pytest.mark.peers
@pytest.mark.parametrize("framework", WRONG_RULES)
def test_check_compares_the_rules_that_the_user_wrote(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, framework: str
) -> None:
    path = tmp_path / "model.py"
    path.write_text(WRONG_RULES[framework])
    code, out, _ = run(capsys, "check", f"{path}:f", "x=[1, 2]")
    meant = run(capsys, "check", f"{path}:f", "x=[1, 2]", "--straight-through", "Wrong")

    assert code == 1
    assert "Wrong sent 7 where the derivative" in out
    assert meant[0] == 0


def test_straight_through_is_for_frameworks(capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = run(capsys, "check", "x * x", "x=1", "--straight-through", "Wrong")

    assert code == 2
    assert "names rules of PyTorch or JAX" in err


MATRIX = "x=[[1, 2], [3, 5]]"
METHODS = {
    "std": "x.std()",
    "transposed": "(x.transpose(0, 1)[0] ** 2).sum()",
    "combined": "(x - x.mean()).square().mean().sqrt() / x.std()",
    "varied": "x.var(0).sum()",
    "norm": "(x / x.norm()).mean()",
    "operators": "(x @ x)[0, 0] / 3",
    "class": "Own.apply(x).sum()",
    "helper": "helper(x)",
}
"""What a function returns: methods that tensors have with another meaning than arrays, or that arrays have not."""
USES_OF_TORCH = {
    "imported": "import torch\ndef helper(x): return x.std()\n",
    "a name": "from torch import nn\ndef helper(x): return x.std()\n",
    "a function": "from torch import sqrt\ndef helper(x): return x.std()\n",
    "inside": "def helper(x):\n    import torch\n    return x.std()\n",
    "a tensor": "from torch import ones\nscale = ones(2)\ndef helper(x): return x.std() * scale[0]\n",
}


@pytest.mark.peers
@pytest.mark.parametrize("name", METHODS)
def test_methods_are_those_of_tensors_in_a_file_that_imports_pytorch(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, name: str
) -> None:
    path = tmp_path / "model.py"
    path.write_text(f"{HEADS['torch']}def helper(x): return x.std()\ndef f(x): return {METHODS[name]}\n")
    names: dict[str, Any] = {}
    exec(path.read_text(), names)
    wanted = names["f"](torch.tensor([[1.0, 2.0], [3.0, 5.0]])).item()
    code, out, err = run(capsys, "run", f"{path}:f", MATRIX)

    assert (code, err) == (0, "")
    assert float(out) == pytest.approx(wanted, rel=1e-6)


@pytest.mark.peers
@pytest.mark.parametrize("use", USES_OF_TORCH)
def test_any_use_of_pytorch_makes_arguments_tensors(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, use: str
) -> None:
    path = tmp_path / "model.py"
    path.write_text(f"{USES_OF_TORCH[use]}def f(x): return helper(x)\n")

    assert float(run(capsys, "run", f"{path}:f", MATRIX)[1]) == pytest.approx(1.70782513)


@pytest.mark.peers
def test_functions_of_neighbouring_files_are_followed(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "neighbouring_helpers.py").write_text("import torch\ndef spread(x): return x.std()\n")
    path = tmp_path / "model.py"
    path.write_text("import neighbouring_helpers\ndef f(x): return neighbouring_helpers.spread(x)\n")

    assert float(run(capsys, "run", f"{path}:f", MATRIX)[1]) == pytest.approx(1.70782513)


BOTH = "import numpy as np\nimport torch\n"
OPEN_CASES = {
    "methods alone": (f"{BOTH}def f(x): return x.std()\n", 1.70782513, "note: f runs with torch"),
    "functions alone": (f"{BOTH}def f(x): return np.std(x)\n", 1.47901995, "note: f runs by NumPy's meaning"),
    "annotated tensor": (f"{BOTH}def f(x: torch.Tensor): return x.std() * np.sqrt(1.0)\n", 1.70782513, ""),
    "annotated text": (f"{BOTH}def f(x: 'torch.Tensor | None'): return x.std() * np.sqrt(1.0)\n", 1.70782513, ""),
    "annotated array": (f"{BOTH}def f(x: np.ndarray): return x.std() * np.sqrt(1.0)\n", 1.47901995, ""),
    "numbers": ("import math\nimport torch\ndef f(x): return x.std() * math.sqrt(1)\n", 1.70782513, "note: f runs"),
    "only in the annotation": ("def f(x: 'torch.Tensor'): return x.std()\n", 1.70782513, ""),
    "numpy alone": ("import numpy as np\ndef f(x): return x.std()\n", 1.47901995, ""),
    "array of a method": (
        f"{BOTH}def f(x): return np.exp(x).std()\n",
        None,
        "annotation of a parameter: x: np.ndarray",
    ),
    "constant of a method": (f"{BOTH}def f(x): return x.std() * np.pi\n", None, "or x: torch.Tensor"),
    "two frameworks": (
        "import jax\nimport torch\ndef f(x): return x.std()\n",
        None,
        "is in a file that imports jax and",
    ),
    "both used": ("import jax.numpy as jnp\nimport torch\ndef f(x): return jnp.sum(torch.exp(x))\n", None, "uses jax"),
}


@pytest.mark.peers
@pytest.mark.parametrize("case", OPEN_CASES)
def test_what_is_open_is_noted_or_refused(capsys: pytest.CaptureFixture[str], tmp_path: Path, case: str) -> None:
    text, wanted, said = OPEN_CASES[case]
    path = tmp_path / "model.py"
    path.write_text(text)
    code, out, err = run(capsys, "run", f"{path}:f", MATRIX)

    assert said in err if said else not err
    if wanted is None:
        assert code == 2
    else:
        assert float(out) == pytest.approx(wanted)
