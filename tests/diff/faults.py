"""Faults in one launch of an emitted program, which calls a changed copy of its kernel under another name."""

import re
from collections.abc import Callable

from circuit_exec.diff.sides import Alter, Side

Change = Callable[[str], str]


def fault_in(member: str, change: Change, applies: Callable[[Side], bool]) -> Alter:
    """Alters the sides that it applies to: each launch that has the node `member` runs a changed copy of its kernel."""

    def alter(side: Side, source: str) -> str:
        return with_fault(source, member, change) if applies(side) else source

    return alter


def with_fault(source: str, member: str, change: Change) -> str:
    """The source with the changed copies, one a kernel: plans of a set may launch different ones."""
    call = re.compile(
        r"^( *)(\w+)(\(.*\); /\* [\w+]+: (?:\S+ )*" + re.escape(member) + r"(?: \S+)* \*/)$", re.MULTILINE
    )
    names = dict.fromkeys(match[2] for match in call.finditer(source))
    assert names, f"no launch has the node {member}"
    for name in names:
        source = source.replace(kernel_of(source, name), _both(source, name, change))
    return call.sub(r"\1\2_faulty\3", source)


def kernel_of(source: str, name: str) -> str:
    """The text of a kernel, its last line included."""
    found = re.search(rf"^__attribute__\(\(noinline\)\) static void {name}\(.*?^}}\n", source, re.MULTILINE | re.DOTALL)
    assert found is not None, f"the program has no kernel {name}"
    return found[0]


def replaced(old: str, new: str) -> Change:
    """Another text where `old` stands; it must stand there."""

    def change(kernel: str) -> str:
        assert old in kernel, f"the kernel has no {old}"
        return kernel.replace(old, new)

    return change


def last_bit_flipped(element: int) -> Change:
    """One element of the kernel's last output, one unit in the last place off. For programs of one thread."""

    def change(kernel: str) -> str:
        output = re.findall(r"(?<!const )f32m \*(p\d+)", kernel.splitlines()[0])[-1]
        return kernel[: kernel.rindex("}")] + f"  ((u32m *){output})[{element}] ^= 1u;\n}}\n"

    return change


def _both(source: str, name: str, change: Change) -> str:
    kernel = kernel_of(source, name)
    return kernel + change(kernel.replace(f" {name}(", f" {name}_faulty(", 1))
