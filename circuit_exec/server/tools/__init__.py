"""Calls of tools: how the covered models write them, the grammar that makes them, the parser that finds them."""
