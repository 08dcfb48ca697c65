"""The OpenAPI document is made once, of every route, and speaks of the gates' own schemas."""

from app.api.document import document
from app.main import build
from app.settings import Settings


def test_the_document_is_made_once():
    app = build(Settings(journal="memory:"))

    assert document(app) is document(app)


def test_every_operation_says_what_a_problem_looks_like_and_none_promises_the_frameworks_own():
    made = document(build(Settings(journal="memory:")))

    answers = [operation["responses"] for path in made["paths"].values() for operation in path.values()]

    assert answers
    assert all("default" in each and "422" not in each for each in answers)
    assert not {"HTTPValidationError", "ValidationError"} & made["components"]["schemas"].keys()


def test_the_schemas_of_tokens_rigs_and_refusals_stand_where_they_are_referred_to():
    schemas = document(build(Settings(journal="memory:")))["components"]["schemas"]

    assert {"Token", "Rig", "Spawn", "Despawn", "Problem", "Refused", "Accepted", "RefusedEnvelope"} <= schemas.keys()
