"""Recipes as text: `"key"`, `unpermute(HEADS, RECIPE)`, `concat(RECIPE, …)`."""

import re
from typing import assert_never

from circuit.text import quoted, unquoted
from circuit.tir.ir import Concat, Key, Recipe, Unpermute


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
    raise RecipeError(f"{head} begins no recipe")


def _expect(tokens: list[str], token: str) -> list[str]:
    if not tokens or tokens[0] != token:
        raise RecipeError(f"{token} is missing")
    return tokens[1:]
