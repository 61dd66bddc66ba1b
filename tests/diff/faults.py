"""Faults in one launch of an emitted program, which calls a changed copy of its kernel under another name."""

import re
from collections.abc import Callable

from circuit.emit.sources import Sources
from circuit.text import Source
from circuit_exec.diff.sides import Alter, Side

Change = Callable[[str], str]


def fault_in(member: str, change: Change, applies: Callable[[Side], bool]) -> Alter:
    """Alters the sides that it applies to: each launch that has the node `member` runs a changed copy of its kernel."""

    def alter(side: Side, sources: Sources) -> Sources:
        return with_fault(sources, member, change) if applies(side) else sources

    return alter


def with_fault(sources: Sources, member: str, change: Change) -> Sources:
    """The sources with the changed copies, one a kernel: plans of a set may launch different ones."""
    call = re.compile(
        r"^( *)(\w+)(\(.*\); /\* [\w+]+: (?:\S+ )*" + re.escape(member) + r"(?: \S+)* \*/)$", re.MULTILINE
    )
    texts = {source.path: source.text for source in sources}
    names = dict.fromkeys(match[2] for match in call.finditer(texts["steps.c"]))
    assert names, f"no launch has the node {member}"
    texts["steps.c"] = call.sub(r"\1\2_faulty\3", texts["steps.c"])
    for name in names:
        faulty = change(_kernel_of(texts[f"kernels/{name}.c"], name).replace(f" {name}(", f" {name}_faulty(", 1))
        texts[f"kernels/{name}.c"] += faulty
        texts["kernels.h"] = texts["kernels.h"].replace("#endif", faulty[: faulty.index(" {")] + ";\n#endif")
    return tuple(Source(path=path, text=text) for path, text in texts.items())


def _kernel_of(text: str, name: str) -> str:
    """The text of a kernel in its file."""
    found = re.search(rf"^MET_KERNEL {name}\(.*?^}}\n", text, re.MULTILINE | re.DOTALL)
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
        output = re.findall(r"(?<!const )[fu]32m \*(p\d+)", kernel.splitlines()[0])[-1]
        return kernel[: kernel.rindex("}")] + f"  ((u32m *){output})[{element}] ^= 1u;\n}}\n"

    return change
