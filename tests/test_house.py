"""How the package is built, as `tools/house.py` measures it."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from .support.scripts import load_script

ROOT = Path(__file__).parent.parent


house = load_script(ROOT / "tools" / "house.py")


@pytest.fixture(scope="module")
def modules() -> dict[str, object]:
    found: dict[str, object] = house.read_modules(house.PACKAGE)
    return found


@pytest.fixture
def small_package(tmp_path: Path) -> Path:
    """A package of three modules, of which one has one importer."""
    package = tmp_path / "package"
    package.mkdir()
    (package / "__init__.py").write_text("from package import used, shared\n")
    (package / "used.py").write_text("from package import shared\n")
    (package / "shared.py").write_text("def f(x: int) -> int:\n    return x\n")
    return package


def parse_module(name: str, text: str) -> object:
    return house.Module(name, text, ())


def test_public_class_names_are_unique_in_the_package(modules: dict[str, object]) -> None:
    assert house.repeated_classes(modules.values()) == {}


def test_no_module_imports_itself_through_others(modules: dict[str, object]) -> None:
    assert house.find_largest_ring(modules) == []


def test_a_class_name_in_two_modules_is_found() -> None:
    modules = [parse_module("a", "class Value: ...\n"), parse_module("b", "class Value: ...\nclass _Value: ...\n")]

    assert house.repeated_classes(modules) == {"Value": 2}


def test_a_ring_of_imports_is_found_inside_functions_too(tmp_path: Path) -> None:
    package = tmp_path / "package"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "one.py").write_text("from package import two\n")
    (package / "two.py").write_text("def f():\n    from package.one import g\n")

    assert house.find_largest_ring(house.read_modules(package)) == ["package.one", "package.two"]


@pytest.mark.parametrize(
    ("text", "share"),
    [
        ("def f(a: Any, b: int) -> None: ...\n", 1 / 3),
        ("def f(*a: Any, **b: Any) -> Any: ...\n", 1.0),
        ("def f(a: list[Any], b): ...\n", 0.0),
        ("x = 1\n", 0.0),
    ],
)
def test_the_share_of_any_counts_annotations_that_are_nothing_else(text: str, share: float) -> None:
    assert house.share_of_any([parse_module("a", text)]) == share


def test_a_module_with_one_importer_is_listed_with_it(small_package: Path) -> None:
    assert house.modules_with_one_importer(house.read_modules(small_package)) == {"package.used": "package"}


def test_a_large_class_is_listed_with_its_counts() -> None:
    methods = "\n".join(f"    def method_{k}(self): self.a{k % 3} = 1" for k in range(21))
    module = parse_module("a", f"class Large:\n    field: int\n{methods}\n    def __len__(self): ...\n")

    (large,) = house.find_large_classes([module])

    assert (large.name, large.methods, large.attributes) == ("Large", 21, 4)


def test_the_report_lists_names_only_where_asked(small_package: Path) -> None:
    short = house.report(small_package)
    long = house.report(small_package, with_lists=True)

    assert long.startswith(short)
    assert "imported by" not in short
    assert "imported by" in long


WAITING = {"communicate", "join", "result", "wait"}
"""Methods of processes, threads and futures that wait without end unless they are given a limit."""
RUNNING = {"run", "call", "check_call", "check_output"}
"""Functions of `subprocess` that wait for a process."""


SIGNS_OF_WAITS = re.compile(rf"subprocess|Barrier|waitpid|\.(?:{'|'.join(sorted(WAITING))})\s*\(\s*\)")
"""What the text of every file has that waits without end."""


def waits_without_end(call: ast.Call) -> bool:
    """Return whether a call waits for something that may never come."""
    if not isinstance(call.func, ast.Attribute):
        return False
    name, owner = call.func.attr, ast.unparse(call.func.value)
    options = {keyword.arg for keyword in call.keywords}
    if owner == "subprocess" and name in RUNNING:
        return "timeout" not in options
    if owner == "threading" and name == "Barrier":
        return "timeout" not in options
    if (owner, name) == ("os", "waitpid"):
        return True
    # A barrier has the limit that it was made with.
    return name in WAITING and not call.args and not options and not owner.endswith("barrier")


def find_endless_waits(text: str) -> list[str]:
    """Return the lines and texts of calls that wait without a limit; what asyncio awaits holds up no thread."""
    tree = ast.parse(text)
    awaited = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Await)}
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call) and id(node) not in awaited]
    return [f"{call.lineno}: {ast.unparse(call)}" for call in calls if waits_without_end(call)]


def test_every_wait_of_a_test_has_a_limit() -> None:
    """A test that hangs holds up the whole run: write `timeout=PATIENCE`, or use `start_process`, of support/limits."""
    paths = sorted((ROOT / "tests").rglob("*.py"))
    texts = {str(path.relative_to(ROOT)): path.read_text(encoding="utf-8") for path in paths}
    # Most files have none of the words, and need not be parsed.
    waits = {path: find_endless_waits(text) for path, text in texts.items() if SIGNS_OF_WAITS.search(text)}

    assert {path: calls for path, calls in waits.items() if calls} == {}


@pytest.mark.parametrize(
    "line",
    [
        *("subprocess.run(['true'])", "subprocess.check_output(['true'], text=True)", "process.communicate()"),
        *("process.wait()", "thread.join()", "future.result()", "event.wait()", "threading.Barrier(2)"),
        "os.waitpid(child, 0)",
    ],
)
def test_a_wait_without_a_limit_is_found(line: str) -> None:
    assert SIGNS_OF_WAITS.search(line)
    assert len(find_endless_waits(line)) == 1


@pytest.mark.parametrize(
    "line",
    [
        *("subprocess.run(['true'], timeout=60)", "process.wait(60)", "thread.join(timeout=60)", "', '.join(words)"),
        *("threading.Barrier(2, timeout=60)", "barrier.wait()", "async def f():\n    await event.wait()"),
    ],
)
def test_a_wait_with_a_limit_is_not_found(line: str) -> None:
    assert find_endless_waits(line) == []
