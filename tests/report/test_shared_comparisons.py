"""Published models beside one of them: what is novel is what their architecture adds, and every report is a text."""

import pytest

from circuit.comparisons import kernel_base, plans_compared, venned
from circuit.compiled import Goal
from circuit.load.devices import device_named, load_devices
from circuit.report.lkb_text import lkb_sections
from circuit.report.plan_diff_text import plan_diff_sections
from circuit.report.sections import sections_text
from circuit.report.venn_text import venn_sections
from tests.lower.library import own_library
from tests.report.test_shared_plans import SHARED, refusal, shared

LIBRARY = own_library()
H200 = device_named(load_devices(LIBRARY), "h200")
GOAL = Goal(hardware_class=H200.hardware_class, scheduled=False)
BASE = "meta-llama--Meta-Llama-3.1-8B"


@pytest.mark.slow
@pytest.mark.skipif(not SHARED.is_dir(), reason="the published configs are not here")
def test_norms_of_heads_are_all_that_published_models_have_alone() -> None:
    models = {name: each for name, each in shared().items() if refusal(each) is None}
    base = models[BASE]
    with_norms = set()
    for name, checkpoint in models.items():
        found = venned(((checkpoint, GOAL), (base, GOAL)), LIBRARY, H200)
        novel = {op for site in found.sites for op in site.novel}
        assert novel <= {"rms_norm (l{i}.attn.q_norm)", "rms_norm (l{i}.attn.k_norm)"}, name
        if novel:
            with_norms.add(found.models[0].model_type)
        assert all(sites == () for _, sites in found.others), name
        for sections in (
            venn_sections(found),
            lkb_sections(kernel_base((checkpoint, GOAL), LIBRARY, H200)),
            plan_diff_sections(plans_compared((checkpoint, GOAL), (base, GOAL), LIBRARY)),
        ):
            for width in (80, 120):
                assert max(map(len, sections_text(sections, width).splitlines())) <= width, name
    assert with_norms == {"qwen3"}
    assert len(models) >= 20
