"""Plans of instances that need no checkpoint, for the tests of planning."""

from circuit.load.hardware import load_hardware
from circuit.load.policy import Policy, load_policy
from circuit.lower.fuse import fuse
from circuit.lower.ir import Which
from circuit.lower.kernels import defined
from circuit.plan.build import Request, plan
from circuit.plan.digest import Run
from circuit.plan.ir import Plan
from circuit.tir.ir import Tir
from tests.lower.library import class_families, class_rules, own_library

LIBRARY = own_library()
RULES = class_rules(LIBRARY)
FAMILIES = class_families(LIBRARY)
POLICY = load_policy(LIBRARY)
ROWS = {"decode": (3, 8), "prefill": (1, 32)}


def request(mode: str = "decode", *, hardware: str = "cpu", run: Run = (), policy: Policy = POLICY) -> Request:
    """What a test plan is asked for."""
    return Request(
        hardware=load_hardware(LIBRARY, hardware),
        families=FAMILIES,
        policy=policy,
        mode=mode,
        rows=ROWS[mode],
        run=run,
        realize=defined,
        scheduled=False,
    )


def planned(tir: Tir, which: Which = "all", asked: Request | None = None) -> Plan:
    """The plan of an instance."""
    asked = asked or request()
    return plan(tir, fuse(tir, RULES, asked.policy, asked.mode, asked.rows, which), asked)
