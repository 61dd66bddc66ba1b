"""What part of a step each kernel takes on a device, by the roofline of one decode and one prefill work."""

from msgspec import Struct
from msgspec.structs import replace

from circuit.load.devices import Device
from circuit.plan.ir import Plan
from circuit.report.cost import Costs
from circuit.report.roofline import FIRST_PREFILL, WORKS, roofline, share


class Share(Struct, frozen=True, kw_only=True):
    """One work and the plan that does it, by mode and rows. `sites`: rule and kernel, with the part of the time."""

    work: str
    mode: str
    rows: tuple[int, int]
    sites: tuple[tuple[tuple[str, str], float], ...]


def shares_of(plans: tuple[Plan, ...], device: Device, costs: Costs) -> tuple[Share, ...]:
    """Of the first decode work and the first prefill, cut to the model's context; of modes that the plans have."""
    found = []
    for work in (WORKS[0], FIRST_PREFILL):
        if any(plan.mode == work.mode for plan in plans):
            cut = replace(work, context=min(work.context, plans[0].context))
            made = roofline(plans, device, cut, costs=costs)
            sites = tuple(((site.rule, site.kernel), share(site, made)) for site in made.sites)
            found.append(Share(work=work.name, mode=work.mode, rows=made.rows, sites=sites))
    return tuple(found)
