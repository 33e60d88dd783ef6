"""The pages of the reference, which are written when the site is built: nothing that users call is missing."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import wiregrad as wg
from wiregrad.api.compiled_function import CompiledFunction
from wiregrad.backends.compiled import Compiled

from .support.scripts import load_script

SITE_PAGES = Path(__file__).parents[1] / "docs" / "site_pages.py"
COMPILED = [CompiledFunction, Compiled]


@pytest.fixture(scope="module")
def pages() -> ModuleType:
    """Return the module that writes the pages."""
    return load_script(SITE_PAGES)


def list_public_methods(cls: type) -> list[str]:
    """Return the methods and properties that the classes of the package define, without asking the pages."""
    bases = [base for base in cls.__mro__ if base.__module__.startswith("wiregrad")]
    members = {name: member for base in bases for name, member in vars(base).items() if not name.startswith("_")}
    return sorted(name for name, member in members.items() if callable(member) or hasattr(member, "__get__"))


@pytest.mark.parametrize("cls", COMPILED)
def test_every_method_of_what_compile_returns_has_an_entry_with_sentence_and_example(cls: type, pages: Any) -> None:
    hidden = pages.INTERNAL_MEMBERS
    missing_names = {
        name for name in dir(cls) if isinstance(find_member(cls, name), wg.errors.MissingName) or name in hidden
    }
    text = "\n".join(pages.document_class(cls))
    entries = {entry.splitlines()[0]: entry for entry in text.split("#### fast.")[1:]}

    assert sorted(entries) == [name for name in list_public_methods(cls) if name not in missing_names]
    for name, entry in entries.items():
        assert ">>> " in entry, name
        assert entry.strip().count("\n") > 3, name
        is_call = callable(find_member(cls, name))
        assert not is_call or f"fast.{name}(" in entry, name


def find_member(cls: type, name: str) -> object:
    return next((vars(base)[name] for base in cls.__mro__ if name in vars(base)), None)


@pytest.mark.parametrize(("name", "cls"), [("compile", CompiledFunction), ("Circuit", Compiled)])
def test_the_class_is_on_the_page_of_the_name_that_leads_to_it(name: str, cls: type, pages: Any) -> None:
    topic = pages.find_topic(name)
    page = pages.write_topic(topic, pages.list_topics()[topic])

    assert f"### {cls.__name__}\n" in page
    assert page.index(f"## wg.{name}\n") < page.index(f"### {cls.__name__}\n")


def test_every_public_name_is_on_one_page(pages: Any) -> None:
    listed = [name for names in pages.list_topics().values() for name in names]

    assert sorted(listed) == sorted(wg.__all__)
