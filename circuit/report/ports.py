"""What is missing to run a model tuned on a class, by the share of a step that would gain from it."""

from msgspec import Struct

from circuit.load.instructions import Instruction
from circuit.report.audit import Audit
from circuit.report.operands import operand
from circuit.report.roofline import Roofline, Site, share


class Port(Struct, frozen=True, kw_only=True):
    """Something to write. `kind`: a kernel of a rule, which is generated from its definition so far; or the use of an
    instruction that takes the weights of some projections without loss.

    `launches` and `shares` are of one step each of the report's works, in their order. `gives_up` says what policy a
    use needs, "" where it needs none.
    """

    kind: str
    what: str
    launches: tuple[int, ...]
    shares: tuple[float, ...]
    gives_up: str


def ports(rooflines: tuple[Roofline, ...], found: Audit, instructions: tuple[Instruction, ...]) -> tuple[Port, ...]:
    """Every kernel to be written, and every instruction to be used, by their largest share of a work."""
    kernels = [
        _port("kernel", rule, rooflines, {(rule, "")})
        for rule in dict.fromkeys(site.rule for roof in rooflines for site in roof.sites)
    ]
    matrix = [each for each in instructions if each.id in found.matrix]
    uses = []
    for each in matrix:
        takes = [site for site in found.sites if site.op.startswith("linear") and _takes(each, site.weight)]
        weights = dict.fromkeys(site.weight for site in takes if site.runs_on != each.id)
        for weight in weights:
            own = [site for site in takes if site.weight == weight]
            exact = all(operand(site.reads, each).how != "no path" for site in own)
            what = f"{each.id} for {weight} weights"
            rows = "" if exact else f"rows in {each.operand}"
            uses.append(_port("instruction", what, rooflines, {(site.rule, site.kernel) for site in own}, rows))
    ordered = sorted((*kernels, *uses), key=lambda port: -max(port.shares, default=0.0))
    return tuple(port for port in ordered if max(port.shares, default=0.0) > 0.0)


def _takes(instruction: Instruction, weight: str) -> bool:
    return operand(weight, instruction).how != "no path"


def _port(
    kind: str, what: str, rooflines: tuple[Roofline, ...], sites_of: set[tuple[str, str]], gives_up: str = ""
) -> Port:
    """`sites_of`: rules, each with the name of one of its kernels, or "" for all of them."""
    own = [[site for site in roof.sites if any(_is_of(site, *each) for each in sites_of)] for roof in rooflines]
    return Port(
        kind=kind,
        what=what,
        launches=tuple(sum(site.launches for site in sites) for sites in own),
        shares=tuple(sum(share(site, roof) for site in sites) for sites, roof in zip(own, rooflines, strict=True)),
        gives_up=gives_up,
    )


def _is_of(site: Site, rule: str, kernel: str) -> bool:
    """Whether a site is the kernel's: in a plan, kernels of one name are told apart by a number behind it."""
    name, _, number = site.kernel.rpartition("_")
    return site.rule == rule and (kernel in ("", site.kernel) or (name == kernel and number.isdigit()))
