"""Dim expressions: sums of products of dim names and positive integers, such as `heads*head_dim` or `2*ff`."""

import re
from collections.abc import Mapping

_FACTOR = re.compile(r"[a-z][a-z0-9_]*|[1-9][0-9]*")

Expr = tuple[tuple[str, ...], ...]
"""A sum of products; each factor is a name or a literal."""


def parse_expr(text: str) -> Expr:
    """The sum of products in `text`; ValueError with what is wrong."""
    terms: list[tuple[str, ...]] = []
    for term in text.split("+"):
        factors = tuple(factor.strip() for factor in term.split("*"))
        for factor in factors:
            if not _FACTOR.fullmatch(factor):
                raise ValueError(f"`{text}` is no sum of products of dims and positive integers")
        terms.append(factors)
    return tuple(terms)


def names_of(expr: Expr) -> tuple[str, ...]:
    """The dims that the expression reads, in order, each once."""
    return tuple(dict.fromkeys(factor for term in expr for factor in term if not factor[0].isdigit()))


def value_of(expr: Expr, dims: Mapping[str, int]) -> int:
    """The number the expression stands for; every name must be in `dims`."""
    total = 0
    for term in expr:
        product = 1
        for factor in term:
            product *= int(factor) if factor[0].isdigit() else dims[factor]
        total += product
    return total


def expr_text(expr: Expr) -> str:
    """The canonical spelling."""
    return " + ".join("*".join(term) for term in expr)


def parse_shape(text: str) -> tuple[Expr, ...]:
    """`vocab x dim` as its sides; ValueError with what is wrong."""
    return tuple(parse_expr(side.strip()) for side in re.split(r"\sx\s", text.strip()))
