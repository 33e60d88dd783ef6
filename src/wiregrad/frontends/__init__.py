"""Front ends: they only record. Formulas give circuits at once; values record as Python runs."""

from wiregrad.frontends.formula import parse_formula

__all__ = ["parse_formula"]
