"""The served OpenAPI document is held against the service, from outside: whatever it allows and whatever it forbids."""

from typing import Any

import schemathesis
from hypothesis import HealthCheck, settings
from schemathesis.specs.openapi.checks import negative_data_rejection, positive_data_acceptance

from app.gates.identity import is_identifier
from app.main import build
from app.settings import Settings
from tests.support.caller import RIG, strict_json

EXAMPLES = 15
"""How many requests each operation gets besides those that cover its schema one by one."""

BEYOND_SCHEMAS = (
    b'"/problems/key-reused"',
    b"is driven by graphs",
    b"the rig has no graph",
    b"which the rig does not have",
    b"must be one of `states`",
    b"`min` is above `max`",
    b"takes no range",
    b"`default` ",
    b"takes no default",
    b"have the same id",
    b"cannot end itself",
    b"must have the same class",
    b"gameplay kinds need",
    b"frames, which count from 0",
    b"has kind ",
    b"which the rig does not list",
)
"""What is said of bodies whose parts do not fit each other."""

app = build(Settings(journal="memory:"))
schema = schemathesis.openapi.from_asgi("/openapi.json", app)


@schema.hook
def map_path_parameters(context: Any, path_parameters: dict[str, Any] | None) -> dict[str, Any] | None:
    """Send half of the requests to where somebody is alive."""
    known = {"scene": "match-7", "character": "hero"}
    return path_parameters and {
        name: known[name] if name in known and is_identifier(str(value)) and len(str(value)) % 2 else value
        for name, value in path_parameters.items()
    }


def test_the_document_is_openapi_3_1():
    schema.validate()

    assert schema.specification.version == "3.1.0"


# A watch that is let in has no end, which a request in this process waits for: tests/api/test_watch.py has it.
@schema.exclude(path="/v1/scenes/{scene}/watch").parametrize()
@settings(
    max_examples=EXAMPLES, deadline=None, derandomize=True, database=None, suppress_health_check=list(HealthCheck)
)
def test_every_request_is_answered_as_the_document_says(case: schemathesis.Case):
    spawn: dict[str, Any] = {"rig": RIG}
    schema["/v1/scenes/{scene}/characters/{character}"]["PUT"].Case(
        path_parameters={"scene": "match-7", "character": "hero"}, body=spawn, media_type="application/json"
    ).call()

    response = case.call()

    case.validate_response(response, excluded_checks=undocumented(case, response))
    if response.status_code >= 400 and case.operation.path != "/readyz":
        assert response.headers["content-type"] == ["application/problem+json"]
        assert strict_json(response.content)["status"] == response.status_code


def undocumented(case: schemathesis.Case, response: schemathesis.Response) -> list[Any]:
    """Name the checks that ask for what no schema can say."""
    if case.operation.path.endswith("/batch"):
        return [negative_data_rejection]  # each command of a batch is answered in its own place
    if case.operation.path.endswith(("/bundle", "/tick")):
        return [positive_data_acceptance, negative_data_rejection]  # the fields of their commands are not spelled out
    if case.operation.path.endswith("/channel"):
        return [positive_data_acceptance]  # what it asks for is a WebSocket, which is no part of a schema
    is_beyond_schemas = response.status_code == 413 or any(said in response.content for said in BEYOND_SCHEMAS)
    return [positive_data_acceptance] if is_beyond_schemas else []
