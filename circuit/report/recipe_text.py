"""A recipe as the commented file that `met recipe write` prints; it reads back to what it was written from."""

from collections.abc import Iterator
from textwrap import wrap

from msgspec import Struct

from circuit.load.devices import Device
from circuit.load.policy import Key, policy_value
from circuit.load.recipe import Checkpoint, Expect, Metadata, Output, Resources
from circuit.report.memory import Memory, needed
from circuit.report.recipe_choice import Choice, GoalName, Option
from circuit.report.sections import bytes_text, count_text, time_text
from circuit.text import quoted

WIDTH = 100

HEAD = (
    "A recipe: a checkpoint, the policy it runs under, the resources it has, and what comes out.",
    "`met recipe check` refuses what is wrong, `show` says what it comes to, `verify` runs it and compares the output,"
    " `met run --recipe` runs it. The architecture stands in the checkpoint.",
)


class Written(Struct, frozen=True, kw_only=True):
    """What a recipe file says. `held`: the memory of the plan set; `planned_by` and `ran_on` say where `expect` comes
    from, "" where there is none of it.
    """

    metadata: Metadata
    checkpoint: Checkpoint
    choice: Choice
    keys: tuple[Key, ...]
    goal: GoalName | None
    resources: Resources
    device: Device
    held: Memory
    expect: Expect
    ran_on: str


def recipe_text(written: Written) -> str:
    """The file."""
    parts = (
        [*_comment(*HEAD), "schema = 1"],
        _metadata(written.metadata),
        _checkpoint(written.checkpoint),
        _policy(written),
        _resources(written),
        _expect(written),
        *(_output(output) for output in written.expect.outputs),
    )
    return "\n\n".join("\n".join(part) for part in parts) + "\n"


def _metadata(metadata: Metadata) -> list[str]:
    values = (("title", metadata.title), ("why", metadata.why), ("author", metadata.author))
    return ["[metadata]", *(f"{name} = {quoted(value)}" for name, value in values)]


def _checkpoint(checkpoint: Checkpoint) -> list[str]:
    lines = ["[checkpoint]", *_comment("The name of a fetched model, or a path from the folder of this file.")]
    lines += [f"source = {quoted(checkpoint.source)}", "", "[checkpoint.files]"]
    lines += _comment("The SHA-256 of every file that is read; another file is another model.")
    return [*lines, *(f"{quoted(name)} = {quoted(digest)}" for name, digest in checkpoint.files)]


def _policy(written: Written) -> list[str]:
    choice = written.choice
    goal = "Without a goal, these are the values of the default policy." if written.goal is None else _goal(written)
    lines = ["[policy]"]
    lines += _comment(
        "Every key that may change the bytes or the behaviour; none has a default here. " + goal,
        f"The figures are ceilings of {written.device.name} for one value changed at a time, at "
        f"{choice.priced_context:,} positions: a decode step of one sequence, tokens a second of as many sequences as"
        " give most, and the memory that one sequence takes, weights and all.",
    )
    for key in written.keys:
        lines += ["", *_comment(f"{key.name}: {key.why}.")]
        for option in (each for each in choice.options if each.key == key.name):
            lines += _option(option, key)
        lines.append(f"{key.name} = {quoted(policy_value(choice.policy, key.name) or '')}")
    return lines


def _goal(written: Written) -> str:
    moved = ", ".join(written.choice.moved)
    if not moved:
        return f"For the goal {written.goal}, no value is worth leaving the default policy."
    return f"For the goal {written.goal}, {moved} left the default policy."


def _option(option: Option, key: Key) -> Iterator[str]:
    mark = "*" if option.stated else " "
    effect = key.effects[key.implemented.index(option.value)]
    yield from _comment(effect, first=f"{mark} {option.value:<9} ", rest=" " * 12)
    price = option.price
    if price is None:
        yield from _comment(f"not for this model: {option.refused}", first=" " * 12, rest=" " * 12)
    elif len(key.implemented) > 1:
        many = f"{count_text(price.tokens_per_s)} tok/s of {price.sequences}"
        figures = f"{time_text(price.decode_s)} a step; {many}; {bytes_text(price.needed)}"
        yield from _comment(figures, first=" " * 12, rest=" " * 12)


def _resources(written: Written) -> list[str]:
    asked, held, device = written.resources, written.held, written.device
    lines = ["[resources]", *_comment(f"{device.name}, class {device.hardware_class}.")]
    lines += [f"hardware = {quoted(asked.hardware)}", ""]
    takes, has = bytes_text(needed(held, asked.sequences, asked.context)), bytes_text(device.memory_bytes.value)
    lines += _comment(
        f"So many sequences at once, each of so many positions, take {takes} of {has}; the model has"
        f" {held.context:,} positions."
    )
    lines += [f"sequences = {asked.sequences}", f"context = {asked.context}", ""]
    lines += _comment("Bytes of the device's memory that others hold: a driver, a desktop.")
    lines.append(f"reserved_bytes = {asked.reserved_bytes}")
    if asked.threads is not None:
        lines += ["", *_comment(f"Of the {device.units.value:.0f} of the device; no byte depends on it.")]
        lines.append(f"threads = {asked.threads}")
    return lines


def _expect(written: Written) -> list[str]:
    expect = written.expect
    lines = ["[expect]"]
    lines += _comment(
        "The part digest of all that output bytes depend on besides the weights: the same on every class, machine and"
        " thread count."
    )
    lines.append(f"bytes = {quoted(expect.bytes)}")
    if expect.fingerprint is not None:
        lines += ["", *_comment("Of `bytes`, the weights, the tokenizer, the chat template and the sampler.")]
        lines.append(f"fingerprint = {quoted(expect.fingerprint)}")
    names = tuple(dict.fromkeys(name for name, _, _ in expect.plans))
    for name in names:
        lines += ["", f"[expect.plans.{name}]"]
        lines += _comment(
            f"Plans are of a class: these were planned for {name}, and no other class has them. They change with every"
            " kernel that is made faster; `bytes` does not."
        )
        lines += [f"{quoted(plan)} = {quoted(digest)}" for own, plan, digest in expect.plans if own == name]
    if not names:
        lines += ["", *_comment(f"No plan is recorded: nothing renders class {written.device.hardware_class} yet.")]
    lines += ["", *_comment(_about_outputs(written))]
    return lines


def _about_outputs(written: Written) -> str:
    if not written.expect.outputs:
        return "No output is recorded, so `met recipe verify` compares digests alone."
    return (
        f"What prompts gave, made on class {written.ran_on}. Every class gives the same. `text` is the SHA-256 of the"
        " answer, `logits` that of the logits of every position of prompt and answer, as `met logits` prints it."
    )


def _output(output: Output) -> list[str]:
    lines = ["[[expect.output]]", f"prompt = {quoted(output.prompt)}", f"chat = {str(output.chat).lower()}"]
    if output.date is not None:
        lines.append(f"date = {quoted(output.date)}")
    lines += [f"temperature = {output.temperature!r}", f"top_p = {output.top_p!r}", f"seed = {output.seed}"]
    lines += [f"n = {output.n}", *_ids("prompt_ids", output.prompt_ids), *_ids("ids", output.ids)]
    texts = (("ended", output.ended), ("text", output.text), ("logits", output.logits))
    return [*lines, *(f"{name} = {quoted(value)}" for name, value in texts)]


def _ids(name: str, ids: tuple[int, ...]) -> list[str]:
    one = f"{name} = [{', '.join(map(str, ids))}]"
    if len(one) <= WIDTH:
        return [one]
    lines = wrap(", ".join(map(str, ids)) + ",", WIDTH - 4)
    return [f"{name} = [", *(f"    {line}" for line in lines), "]"]


def _comment(*paragraphs: str, first: str = "", rest: str = "") -> list[str]:
    return [
        line.rstrip()
        for paragraph in paragraphs
        for line in wrap(
            paragraph,
            WIDTH,
            initial_indent=f"# {first}",
            subsequent_indent=f"# {rest}",
            break_on_hyphens=False,
            break_long_words=False,
        )
    ]
