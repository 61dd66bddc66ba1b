"""Requests made from the server's own description of itself, right and wrong ones: none makes it fail."""

from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from tests.server.harness import Server

CHECKS = [not_a_server_error, status_code_conformance, content_type_conformance, response_schema_conformance]
QUICK = settings(
    max_examples=8,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=list(HealthCheck),
)
THOROUGH = settings(QUICK, max_examples=300)


def short(case: Any) -> Any:  # noqa: ANN401
    """The request, with answers of few tokens where it asks for a valid number of them."""
    body = case.body
    if isinstance(body, dict) and case.path.startswith("/v1/") and "completions" in case.path:
        case.body = {**body, "max_tokens": 2} if isinstance(body.get("max_tokens", 16), int | None) else body
    if isinstance(case.body, dict) and isinstance(case.body.get("model"), str):
        case.body = {**case.body, "model": "model"}
    return case


def check(server: Server, mode: GenerationMode, wanted: settings) -> None:
    """Sends requests to every route and checks each answer against the description."""
    described: Any = schemathesis.openapi.from_url(f"http://127.0.0.1:{server.port}/openapi.json")
    paths = []
    for found in described.get_all_operations():
        operation = found.ok()
        if mode is GenerationMode.NEGATIVE and operation.method != "post":
            continue  # there is nothing to get wrong
        paths.append(operation.path)

        @wanted
        @given(case=operation.as_strategy(generation_mode=mode))
        def answers(case: Any) -> None:  # noqa: ANN401
            short(case).call_and_validate(checks=CHECKS)

        answers()
    assert {"/v1/chat/completions", "/v1/completions", "/v1/embeddings", "/tokenize"} <= set(paths)


MODES = pytest.mark.parametrize("mode", [GenerationMode.POSITIVE, GenerationMode.NEGATIVE], ids=["right", "wrong"])


@MODES
def test_no_request_makes_the_server_fail(server: Server, mode: GenerationMode) -> None:
    check(server, mode, QUICK)


@pytest.mark.slow
@MODES
def test_no_request_of_many_makes_the_server_fail(server: Server, mode: GenerationMode) -> None:
    check(server, mode, THOROUGH)
