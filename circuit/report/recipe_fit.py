"""Whether the resources of a recipe fit its device: every number that does not, with what would."""

from collections.abc import Iterator

from circuit.errors import Problem
from circuit.load.devices import Device
from circuit.load.hardware import HardwareClass, rows_of
from circuit.load.recipe import Recipe, Resources, problem_of
from circuit.report.memory import Memory, longest_context, most_sequences, needed, weight_bytes
from circuit.report.sections import bytes_text


def unfit(recipe: Recipe, held: Memory, device: Device, hardware: HardwareClass) -> Iterator[Problem]:
    """What the device or the model cannot give. `held`: the memory of the recipe's plan set."""
    asked = recipe.resources

    def wrong(key: str, message: str, fix: str) -> Problem:
        return problem_of(recipe, ("resources", key), message, fix)

    most_rows = rows_of(hardware, "decode")[1]
    if asked.sequences > most_rows:
        message = f"{asked.sequences} sequences, a decode step of class {hardware.name} has at most {most_rows} rows"
        yield wrong("sequences", message, f"write sequences = {most_rows} or less")
    if asked.context > held.context:
        message = f"a context of {asked.context:,} positions, the model has {held.context:,}"
        yield wrong("context", message, f"write context = {held.context} or less")
    if hardware.language != "c" and asked.threads is not None:
        message = f"{asked.threads} threads for {device.id}, which is no processor"
        yield wrong("threads", message, "remove `threads`")
    if hardware.language == "c" and asked.threads is None:
        yield wrong("threads", f"missing key `resources.threads`: {device.id} is a processor", "add `threads = ...`")
    units = int(device.units.value)
    if hardware.language == "c" and asked.threads is not None and asked.threads > units:
        message = f"{asked.threads} threads, {device.id} has {units} cores"
        yield wrong("threads", message, f"write threads = {units} or less")
    usable = int(device.memory_bytes.value) - asked.reserved_bytes
    if usable <= 0:
        message = f"{bytes_text(asked.reserved_bytes)} are reserved of the {_memory(device)} of {device.id}"
        yield wrong("reserved_bytes", message, "reserve less")
    elif needed(held, asked.sequences, asked.context) > usable:
        yield wrong("sequences" if asked.sequences > 1 else "context", *_too_much(held, asked, device, usable))


def _too_much(held: Memory, asked: Resources, device: Device, usable: int) -> tuple[str, str]:
    takes = bytes_text(needed(held, asked.sequences, asked.context))
    what = f"{asked.sequences} sequence{'s' if asked.sequences > 1 else ''} of {asked.context:,} positions"
    reserved = f", {bytes_text(asked.reserved_bytes)} of them reserved" if asked.reserved_bytes else ""
    message = (
        f"{what} take {takes} (weights {bytes_text(weight_bytes(held))}), {device.id} has {_memory(device)}{reserved}"
    )
    sequences = most_sequences(held, usable, asked.context)
    context = longest_context(held, usable, asked.sequences)
    fits = [f"sequences = {sequences}"] if sequences else []
    fits += [f"context = {context}"] if context else []
    return message, f"write {' or '.join(fits)}" if fits else "name a device with more memory"


def _memory(device: Device) -> str:
    return bytes_text(device.memory_bytes.value)
