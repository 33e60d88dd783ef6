"""How the package is built, as `tools/house.py` measures it."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parent.parent


def load_house() -> ModuleType:
    spec = importlib.util.spec_from_file_location("house", ROOT / "tools" / "house.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    # A dataclass looks its module up in sys.modules.
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


house = load_house()


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
