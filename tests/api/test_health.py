"""Health and help: what operators ask, and what a caller asks first."""

from app import __version__
from app.settings import Settings
from tests.support.caller import Caller


def test_a_service_that_lives_says_so(call: Caller):
    reply = call.ask("GET", "/livez")

    assert (reply.status, reply.body) == (200, {"alive": True})


def test_a_service_that_takes_commands_is_ready(call: Caller):
    reply = call.ask("GET", "/readyz")

    assert (reply.status, reply.body) == (200, {"ready": True, "reasons": []})


def test_info_names_the_version_the_kind_of_journal_and_every_limit(call: Caller):
    body = call.ask("GET", "/v1/info").body

    assert (body["name"], body["version"], body["journal"]) == ("posegate", __version__, "memory")
    assert body["limits"].keys() == {name for name in Settings.model_fields if name.endswith("_max")}


def test_metrics_count_decisions_by_gate_command_and_outcome_and_name_nobody(call: Caller):
    call.accepted("begin", {"layer": "base", "target": "Run"})

    reply = call.ask("GET", "/metrics")

    assert reply.media_type == "text/plain"
    assert b'posegate_decisions_total{command="begin",gate="transition",outcome="granted"}' in reply.content
    assert call.scene.encode() not in reply.content
    assert b"hero" not in reply.content


def test_the_document_and_its_page_are_served(call: Caller):
    assert call.ask("GET", "/openapi.json").body["openapi"] == "3.1.0"
    assert call.ask("GET", "/docs").media_type == "text/html"
