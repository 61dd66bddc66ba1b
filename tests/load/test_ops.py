"""The table of how ops are used agrees with their definitions."""

from circuit.load.ops import OPS
from circuit.sigma import OPS as SIGMA
from circuit.sigma import ROLES


def test_the_use_of_each_op_is_that_of_its_definition() -> None:
    assert set(OPS) == set(SIGMA)
    for name, use in OPS.items():
        kind = SIGMA[name]
        assert use.inputs == kind.n_inputs, name
        assert {param for param, _ in use.params} == set(kind.params), name
        assert len((*use.weights, *use.optional_weights)) == len(kind.weights), name
        assert use.state == (kind.state != ""), name
    assert OPS["linear"].roles == ROLES
