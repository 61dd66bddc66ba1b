"""Recipes as text: `"key"`, `unpermute(HEADS, RECIPE)`, `concat(RECIPE, …)`, and `SCHEME(ROWS, COLUMNS, ZERO, "codes",
"scales", "zeros", "order")` for what a quantization scheme keeps in several tensors; `""` stands for no tensor.
"""

import re
from typing import assert_never

from circuit.text import quoted, unquoted
from circuit.tir.ir import SCHEMES, Concat, Key, Quantized, Recipe, Scheme, Unpermute


class RecipeError(ValueError):
    """The text is not a recipe."""


def recipe_text(recipe: Recipe) -> str:
    """The text form of a recipe; it reads back with `parse_recipe`."""
    match recipe:
        case Key():
            return quoted(recipe.key)
        case Unpermute():
            return f"unpermute({recipe.heads}, {recipe_text(recipe.of)})"
        case Concat():
            return f"concat({', '.join(recipe_text(part) for part in recipe.parts)})"
        case Quantized():
            keys = (recipe.codes, recipe.scales, recipe.zeros or "", recipe.order or "")
            numbers = f"{recipe.rows}, {recipe.columns}, {recipe.zero}"
            return f"{recipe.scheme}({numbers}, {', '.join(map(quoted, keys))})"
        case _:
            assert_never(recipe)


def parse_recipe(text: str) -> Recipe:
    """The recipe of a text; RecipeError for anything else."""
    recipe, rest = _recipe(_tokens(text))
    if rest:
        raise RecipeError(f"{rest[0]} after the recipe")
    return recipe


def _tokens(text: str) -> list[str]:
    found = re.findall(r'"(?:[^"\\]|\\.)*"|\w+\(|\d+, |, |\)', text)
    if "".join(found) != text:
        raise RecipeError(f"{text} is not a recipe")
    return found


def _recipe(tokens: list[str]) -> tuple[Recipe, list[str]]:
    if not tokens:
        raise RecipeError("the recipe ends early")
    head, rest = tokens[0], tokens[1:]
    if head.startswith('"'):
        return Key(key=unquoted(head)), rest
    if head == "unpermute(" and rest and re.fullmatch(r"\d+, ", rest[0]):
        of, after = _recipe(rest[1:])
        return Unpermute(of=of, heads=int(rest[0][:-2])), _expect(after, ")")
    if head == "concat(":
        part, rest = _recipe(rest)
        parts = [part]
        while rest and rest[0] == ", ":
            part, rest = _recipe(rest[1:])
            parts.append(part)
        return Concat(parts=tuple(parts)), _expect(rest, ")")
    for scheme in SCHEMES:
        if head == f"{scheme}(":
            return _quantized(scheme, rest)
    raise RecipeError(f"{head} begins no recipe")


def _quantized(scheme: Scheme, tokens: list[str]) -> tuple[Recipe, list[str]]:
    numbers, names, rest = tokens[:3], tokens[3:10], tokens[10:]
    if not all(re.fullmatch(r"\d+, ", number) for number in numbers) or names[1::2] != [", "] * 3:
        raise RecipeError(f"{scheme} takes three numbers and four tensors")
    rows, columns, zero = (int(number[:-2]) for number in numbers)
    codes, scales, zeros, order = (unquoted(name) for name in names[::2])
    recipe = Quantized(
        scheme=scheme,
        codes=codes,
        scales=scales,
        zeros=zeros or None,
        order=order or None,
        rows=rows,
        columns=columns,
        zero=zero,
    )
    return recipe, _expect(rest, ")")


def _expect(tokens: list[str], token: str) -> list[str]:
    if not tokens or tokens[0] != token:
        raise RecipeError(f"{token} is missing")
    return tokens[1:]
