"""The tokens of a request, over its prompts and choices."""

from collections.abc import Sequence

from circuit_exec.engine.request import Usage as ChoiceUsage
from circuit_exec.server.answers import PromptDetails, Usage


def usage_of(prompts: Sequence[Sequence[ChoiceUsage]]) -> Usage:
    """Of the choices of each prompt: a prompt counts once, whatever the number of its choices."""
    prompt = sum(choices[0].prompt for choices in prompts)
    made = sum(choice.made for choices in prompts for choice in choices)
    cached = sum(min(choice.cached for choice in choices) for choices in prompts)
    return Usage(
        prompt_tokens=prompt,
        completion_tokens=made,
        total_tokens=prompt + made,
        prompt_tokens_details=PromptDetails(cached_tokens=cached),
    )
