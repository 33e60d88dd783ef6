"""Write the pages that are derived from the op table: `make docs`."""

from __future__ import annotations

from pathlib import Path

from wiregrad.ops import Pattern, docs_table

PAGE = Path(__file__).parent / "ops.md"


def main() -> None:
    """Write docs/ops.md."""
    patterns = "\n".join(
        f"- **{pattern.name.lower()}** {pattern.value}." for pattern in Pattern if pattern is not Pattern.SOURCE
    )
    intro = "Written by `make docs` from the op table. Every op is a function in formulas and a method of `Builder`."
    PAGE.write_text(f"# Ops\n\n{intro}\n\nA pattern says how an op passes the upstream gradient on:\n\n{patterns}\n\n")
    with PAGE.open("a") as page:
        page.write(docs_table() + "\n")


if __name__ == "__main__":
    main()
