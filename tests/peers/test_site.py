"""The documentation site builds without a warning, has every public name, and leads nowhere that does not exist."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from urllib.parse import unquote

import pytest

import wiregrad as wg

from ..support.limits import PATIENCE

ROOT = Path(__file__).parent.parent.parent
WORD = re.compile(r"<[^>]*>")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    words = [sys.executable, str(ROOT / "tools" / "build_site.py"), str(folder)]
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=PATIENCE)
    assert done.returncode == 0, done.stderr
    return folder


def read_page(path: Path) -> str:
    return path.read_text(encoding="utf-8")


def test_every_page_of_the_folder_is_in_the_site(site: Path) -> None:
    docs = ROOT / "docs"
    pages = [page.relative_to(docs).with_suffix(".html") for page in docs.rglob("*.md")]

    assert [page for page in pages if not (site / page).is_file()] == []
    assert len(pages) > 130


def test_every_public_name_is_documented_with_an_anchor(site: Path) -> None:
    index = read_page(site / "reference" / "index.html")
    name = r'(?:<[^>]*>)*<span class="pre">wg\.(\w+)</span>'
    links = re.findall(rf'href="([\w-]+\.html)#([\w-]+)"[^>]*>{name}', index)

    assert sorted(name for _, _, name in links) == sorted(wg.__all__)
    for page, anchor, name in links:
        text = read_page(site / "reference" / page)
        assert f'id="{anchor}"' in text
        assert f"wg.{name}" in WORD.sub("", text)


def test_links_and_pictures_lead_to_files_of_the_site(site: Path) -> None:
    missing = []
    for page in site.rglob("*.html"):
        if "playground" in page.parts or "_downloads" in page.parts:
            continue
        for target in re.findall(r'(?:href|src)="(?!https?:|mailto:|#|data:)([^"#?]+)', read_page(page)):
            if not (page.parent / unquote(target)).exists():
                missing.append(f"{page.relative_to(site)}: {target}")

    assert missing == []


def test_the_playground_needs_no_network(site: Path) -> None:
    pages = sorted((site / "_static" / "playground").glob("*.html"))

    assert len(pages) == 7
    for page in pages:
        assert not re.findall(r'<(?:script|link|img|iframe)[^>]*(?:src|href)="(?!data:)[^"]+"', read_page(page))


def test_every_program_has_a_page_with_its_code(site: Path) -> None:
    programs = [path for folder in ("examples", "examples/gallery") for path in (ROOT / folder).glob("*.py")]

    assert len(programs) > 35
    for program in programs:
        text = WORD.sub("", read_page(site / "programs" / f"{program.stem}.html"))
        assert "import" in text
        assert program.stem in text
    assert 'href="programs/optics.html"' in read_page(site / "gallery.html")


def test_the_first_page_has_the_live_explorer(site: Path) -> None:
    frames = re.findall(r'<iframe[^>]*src="([^"]+)"', read_page(site / "index.html"))

    assert frames == ["_static/playground/expression.html"]
    assert (site / frames[0]).is_file()


def test_errors_that_the_reference_lists_have_their_fix(site: Path) -> None:
    table = WORD.sub("", read_page(site / "reference" / "ops-and-errors.html"))
    fixes = WORD.sub("", read_page(site / "errors.html"))

    for name in ("ShapeError", "BranchError", "NotInstalledError", "UnknownOpsError"):
        assert name in table
        assert name in fixes


def test_the_reference_leaves_out_names_that_only_raise_an_error(site: Path) -> None:
    text = WORD.sub("", read_page(site / "reference" / "circuits-and-runs.html"))

    assert "backward_circuit()" in text
    assert "A name that a class does not have" not in text


def test_sentences_that_programs_print_wrap(site: Path) -> None:
    printed = re.findall(r'<span class="go sentence">(.*?)</span>', read_page(site / "tutorials" / "hunt-a-nan.html"))
    plain = re.findall(r'<span class="sentence">(.*?)</span>', read_page(site / "tutorials" / "ask-pytorch.html"))

    assert printed[0].startswith("sqrt sent -Inf back")
    assert any(line.startswith("div gave NaN") for line in plain)


def test_drawings_and_tables_that_programs_print_do_not_wrap(site: Path) -> None:
    sentences = re.findall(r'class="(?:go )?sentence">(.*?)</span>', read_page(site / "pictures.html"))

    assert [line for line in sentences if re.search("[─-╿]", line)] == []


def test_wide_tables_with_sentences_become_cards_on_a_phone(site: Path) -> None:
    tables = re.findall(r'<table class="cards .*?</table>', read_page(site / "functions.html"), re.DOTALL)
    cells = re.findall(r"<td([^>]*)>(.*?)</td>", tables[0], re.DOTALL)
    described = {WORD.sub("", text).strip(): attributes for attributes, text in cells}

    assert "long" in described["Sum along axes, or of everything, of the parts of an axis that begin at indices."]
    assert "long" not in described["Whether no element is 0."]
    assert 'data-label="gradient"' in described["plain"]


def test_blocks_show_no_marks_of_doctest(site: Path) -> None:
    pages = [page for page in site.rglob("*.html") if "programs" not in page.parts]

    assert [page for page in pages if "BLANKLINE" in read_page(page)] == []


def test_messages_of_errors_wrap_in_their_boxes(site: Path) -> None:
    boxes = re.findall(r"<pre>(.*?)</pre>", read_page(site / "errors.html"), re.DOTALL)
    tracebacks = [box for box in boxes if "Traceback" in box]
    rules = dict(re.findall(r"^(\S.*?) \{(.*?)\}", (site / "_static" / "site.css").read_text(), re.MULTILINE))

    assert len(tracebacks) > 30
    assert [box for box in tracebacks if 'class="gt"' not in box] == []
    assert "white-space: pre-wrap" in rules[".highlight pre:has(.gt)"]
