"""Recipes on a device: what does not fit is refused with numbers, and goals choose what the planner's figures say."""

from functools import cache

import pytest
from msgspec.structs import replace

from circuit.compiled import Goal
from circuit.errors import PlanError
from circuit.load.devices import Device, device_named, load_devices
from circuit.load.families import load_families, panel_of
from circuit.load.hardware import load_hardware
from circuit.load.owners import load_owners, policy_keys
from circuit.load.policy import Policy, load_policy
from circuit.load.recipe import load_recipe
from circuit.pipeline import compiled
from circuit.plan.ir import Plan
from circuit.report.memory import memory, needed
from circuit.report.recipe_choice import WORTH, Choice, Price, Wish, choose
from circuit.report.recipe_fit import unfit
from circuit.report.roofline import Work, roofline
from circuit.reports import assessed
from circuit.text import Source
from tests.cases.texts import case, tensors_of, texts, tir_of
from tests.load.test_recipe import TEXT
from tests.lower.library import own_library

LIBRARY = own_library()
CONFIG = case("llama")
CHECKPOINT = texts(CONFIG, tensors_of(tir_of(CONFIG), "q4_0"))
KEYS = policy_keys(load_owners(LIBRARY))
DEFAULT = load_policy(LIBRARY)


def device(name: str) -> Device:
    return device_named(load_devices(LIBRARY), name)


@cache
def plans_of(policy: Policy) -> tuple[Plan, ...]:
    choices = tuple(f"{key}={value}" for key, value in policy.entries)
    return compiled(CHECKPOINT, LIBRARY, Goal(hardware_class="avx2", choices=choices, scheduled=False)).plans


def refusals(resources: str, name: str = "epyc_9654") -> list[tuple[int | None, str, str]]:
    """Line, message and fix of what does not fit; `resources` replace the section."""
    head, _, rest = TEXT.partition("[resources]\n")
    text = f'{head}[resources]\nhardware = "{name}"\n{resources}\n\n[expect]{rest.partition("[expect]")[2]}'
    recipe = load_recipe(Source(path="recipe.toml", text=text), LIBRARY)
    chosen = device(name)
    report = assessed(CHECKPOINT, LIBRARY, Goal(hardware_class=chosen.hardware_class, scheduled=False), chosen)
    hardware = load_hardware(LIBRARY, chosen.hardware_class)
    return [(p.line, p.message, p.fix) for p in unfit(recipe, report.memory, chosen, hardware)]


def test_resources_that_fit_are_not_refused() -> None:
    assert refusals("sequences = 2\ncontext = 512\nreserved_bytes = 0\nthreads = 4") == []


def test_every_number_that_does_not_fit_is_named_with_what_would() -> None:
    assert refusals("sequences = 65\ncontext = 2000\nreserved_bytes = 0\nthreads = 97") == [
        (20, "65 sequences, a decode step of class avx2 has at most 64 rows", "write sequences = 64 or less"),
        (21, "a context of 2,000 positions, the model has 1,024", "write context = 1024 or less"),
        (23, "97 threads, epyc_9654 has 96 cores", "write threads = 96 or less"),
    ]


def test_too_much_memory_is_refused_with_the_most_that_fits() -> None:
    reserved = 384_000_000_000 - 2_000_000
    ((line, message, fix),) = refusals(f"sequences = 8\ncontext = 1024\nreserved_bytes = {reserved}\nthreads = 4")
    assert line == 20
    assert message.startswith("8 sequences of 1,024 positions take ")
    assert message.endswith("epyc_9654 has 384.0 GB, 384.0 GB of them reserved")
    sequences, context = (int(word.partition(" ")[0]) for word in fix.split("= ")[1:])
    held = memory(plans_of(DEFAULT), panel_of(load_families(LIBRARY, load_hardware(LIBRARY, "avx2"))))
    assert needed(held, sequences, 1024) <= 2_000_000 < needed(held, sequences + 1, 1024)
    assert needed(held, 8, context) <= 2_000_000 < needed(held, 8, context + 1)


@pytest.mark.parametrize(
    ("reserved", "key", "message", "fix"),
    [
        (384_000_000_000, 22, "384.0 GB are reserved of the 384.0 GB of epyc_9654", "reserve less"),
        (383_999_999_000, 21, "1 sequence of 64 positions take", "name a device with more memory"),
    ],
)
def test_a_device_that_holds_nothing_is_refused(reserved: int, key: int, message: str, fix: str) -> None:
    ((line, found, found_fix),) = refusals(f"sequences = 1\ncontext = 64\nreserved_bytes = {reserved}\nthreads = 1")
    assert (line, found[: len(message)], found_fix) == (key, message, fix)


def test_threads_belong_to_processors() -> None:
    assert refusals("sequences = 1\ncontext = 64\nreserved_bytes = 0\nthreads = 1", "h200") == [
        (23, "1 threads for h200, which is no processor", "remove `threads`")
    ]
    assert refusals("sequences = 1\ncontext = 64\nreserved_bytes = 0") == [
        (18, "missing key `resources.threads`: epyc_9654 is a processor", "add `threads = ...`")
    ]


def chosen(goal: str | None, **changes: object) -> Choice:
    assert goal in (None, "latency", "throughput", "memory")
    wish = Wish(goal=goal, policy=DEFAULT, fixed=(), sequences=None, context=None, reserved=0)  # type: ignore[arg-type]
    hardware = load_hardware(LIBRARY, "avx2")
    panel = panel_of(load_families(LIBRARY, hardware))
    return choose(plans_of, KEYS, replace(wish, **changes), panel, device("epyc_9654"), hardware)


def test_without_a_goal_the_default_policy_is_stated_and_every_value_is_priced() -> None:
    found = chosen(None)
    assert (found.policy, found.moved, found.sequences, found.context) == (DEFAULT, (), 1, 1024)
    assert [(each.key, each.value) for each in found.options] == [(k.name, v) for k in KEYS for v in k.implemented]
    assert all(each.price is not None for each in found.options)
    assert [(each.key, each.value) for each in found.options if each.stated] == list(DEFAULT.entries)


def cost(goal: str, price: Price | None) -> float:
    assert price is not None
    if goal == "memory":
        return price.needed
    return price.decode_s if goal == "latency" else 1 / price.tokens_per_s


@pytest.mark.parametrize("goal", ["latency", "throughput", "memory"])
def test_a_goal_takes_the_best_value_of_each_key_and_only_where_it_is_worth_it(goal: str) -> None:
    found = chosen(goal)
    for key in KEYS:
        costs = {each.value: cost(goal, each.price) for each in found.options if each.key == key.name}
        stated, default = dict(found.policy.entries)[key.name], dict(DEFAULT.entries)[key.name]
        assert (key.name in found.moved) == (stated != default)
        if stated == default:
            assert min(costs.values()) >= (1 - WORTH) * costs[default]
        else:
            assert costs[stated] == min(costs.values()) < (1 - WORTH) * costs[default]
    assert "kv" in found.moved


def test_throughput_takes_as_many_sequences_as_give_most_tokens() -> None:
    found = chosen("throughput")
    plans = plans_of(found.policy)

    def per_s(n: int) -> float:
        work = Work(name="decode", mode="decode", sequences=n, context=found.priced_context)
        return n / roofline(plans, device("epyc_9654"), work).ceiling_s

    assert per_s(found.sequences) == max(per_s(n) for n in (1, 2, 4, 8, 16, 32, 64))


def test_a_goal_leaves_alone_what_is_stated() -> None:
    found = chosen("memory", fixed=("kv",), sequences=3, context=100)
    assert dict(found.policy.entries)["kv"] == "f32"
    assert (found.sequences, found.context, found.priced_context) == (3, 100, 100)


def test_a_model_that_does_not_fit_has_no_recipe() -> None:
    with pytest.raises(PlanError) as error:
        chosen(None, reserved=384_000_000_000 - 1000)
    (problem,) = error.value.problems
    assert problem.message.startswith("1 x 1,024 positions need ")
    assert problem.message.endswith(" bytes, epyc_9654 has 1,000")
    assert problem.fix == "choose a device with more memory: not even one position fits"
    with pytest.raises(PlanError, match=r"fix: ask for --sequences \d+ or --context \d+"):
        chosen(None, reserved=384_000_000_000 - 2_000_000, sequences=8, context=1024)
