"""Front ends record circuits from what people write."""

from wiregrad.frontends.formula import parse_formula

__all__ = ["parse_formula"]
