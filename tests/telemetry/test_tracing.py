"""Spans join what belongs together: a request, its turn, its append, and the grant that it reports."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import StatusCode

from app.journal import open_journal
from app.journal.codec import decode_entry
from app.journal.port import JournalUnavailable
from app.telemetry.export import sampling
from app.telemetry.tracing import Tracing, context_of, link, traceparent_of
from tests.telemetry.conftest import Serve

HERO = "/v1/scenes/match-7/characters/hero"
RUN = {"layer": "base", "target": "Run"}
CALLER = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
UNSAMPLED = CALLER.removesuffix("01") + "00"


class Traced:
    """A tracing whose spans stay here, in the order in which they ended."""

    def __init__(self, ratio: float = 1.0) -> None:
        self._exporter = InMemorySpanExporter()
        provider = sampling(ratio)
        provider.add_span_processor(SimpleSpanProcessor(self._exporter))
        self.tracing = Tracing(provider)

    def spans(self) -> Sequence[ReadableSpan]:
        """Give what ended since it was last asked."""
        ended = self._exporter.get_finished_spans()
        self._exporter.clear()
        return ended

    def named(self, *names: str) -> list[ReadableSpan]:
        """Give the spans of these names, one each, of what ended since it was last asked."""
        spans = self.spans()
        found = [[span for span in spans if span.name == name] for name in names]
        assert all(len(each) == 1 for each in found), [span.name for span in spans]
        return [span for [span] in found]


def ids(span: ReadableSpan) -> tuple[int, int]:
    assert span.context is not None
    return span.context.trace_id, span.context.span_id


def linked(span: ReadableSpan) -> list[tuple[int, int]]:
    return [(each.context.trace_id, each.context.span_id) for each in span.links]


def request_of(command: str) -> str:
    return f"POST /v1/scenes/{{scene}}/characters/{{character}}/{command}"


async def test_a_request_its_turn_and_the_append_are_one_trace_of_the_callers(serve: Serve):
    traced = Traced()
    async with serve(traced.tracing) as client:
        await client.put(HERO, json={})
        traced.spans()
        await client.post(f"{HERO}/begin", json=RUN, headers={"traceparent": CALLER})
        append, turn, request = traced.named("append", "turn", request_of("begin"))

    caller = context_of(CALLER)
    assert caller is not None
    assert request.parent is not None
    assert (request.parent.trace_id, request.parent.span_id) == (caller.trace_id, caller.span_id)
    assert turn.parent is not None
    assert (turn.parent.trace_id, turn.parent.span_id) == ids(request)
    assert append.parent is not None
    assert (append.parent.trace_id, append.parent.span_id) == ids(turn)
    assert linked(turn) == [ids(request)]
    assert turn.attributes is not None
    assert turn.attributes["posegate.scene"] == "match-7"
    assert append.attributes is not None
    assert append.attributes["posegate.sequence.first"] == append.attributes["posegate.sequence.last"] == 2


async def test_a_completion_is_linked_to_the_request_that_was_granted_its_token(serve: Serve):
    traced = Traced()
    async with serve(traced.tracing) as client:
        await client.put(HERO, json={})
        token = (await client.post(f"{HERO}/begin", json=RUN)).json()["token"]
        [begin] = traced.named(request_of("begin"))
        answer = await client.post(f"{HERO}/complete", json={"token": token})
        [complete] = traced.named(request_of("complete"))

    assert answer.json()["outcome"] == "committed"
    assert linked(complete) == [ids(begin)]


async def test_a_late_completion_that_is_refused_is_linked_too(serve: Serve):
    """The stale report is the one whose begin is looked for."""
    traced = Traced()
    async with serve(traced.tracing) as client:
        await client.put(HERO, json={})
        token = (await client.post(f"{HERO}/begin", json=RUN)).json()["token"]
        [begin] = traced.named(request_of("begin"))
        await client.post(f"{HERO}/begin", json={"layer": "base", "target": "Hit"})
        traced.spans()
        answer = await client.post(f"{HERO}/complete", json={"token": token})
        [complete] = traced.named(request_of("complete"))

    assert answer.json()["outcome"] == "stale_generation"
    assert linked(complete) == [ids(begin)]


async def test_a_completion_after_a_restart_is_linked_to_its_begin(serve: Serve, tmp_path: Path):
    journal = f"sqlite:{tmp_path / 'p.db'}"
    before, after = Traced(), Traced()
    async with serve(before.tracing, journal=journal) as client:
        await client.put(HERO, json={})
        token = (await client.post(f"{HERO}/begin", json=RUN)).json()["token"]
        [begin] = before.named(request_of("begin"))
    async with serve(after.tracing, journal=journal) as client:
        answer = await client.post(f"{HERO}/complete", json={"token": token})
        [complete] = after.named(request_of("complete"))

    assert answer.json()["outcome"] == "committed"
    assert linked(complete) == [ids(begin)]


async def test_entries_hold_the_traces_of_traced_requests_and_are_what_they_were_without(serve: Serve, tmp_path: Path):
    stored: dict[str, list[Any]] = {}
    traced = Traced()
    for name, tracing in (("traced", traced.tracing), ("plain", None)):
        journal = f"sqlite:{tmp_path / name}.db"
        async with serve(tracing, journal=journal) as client:
            await client.put(HERO, json={})
            await client.post(f"{HERO}/begin", json=RUN)
        opened = open_journal(journal, read_only=True)
        stored[name] = [decode_entry(entry.blob) for entry in await opened.read("match-7", after=0, limit=9)]
        await opened.close()

    [begin] = traced.named(request_of("begin"))
    [part] = stored["traced"][1].traced
    context = context_of(part.traceparent)
    assert context is not None
    assert (part.first, part.last) == (2, 2)
    assert (context.trace_id, context.span_id) == ids(begin)
    assert [entry.traced for entry in stored["plain"]] == [[], []]


@pytest.mark.parametrize(("ratio", "parent"), [(0.0, None), (1.0, UNSAMPLED)])
async def test_a_request_that_is_not_kept_leaves_no_span_and_no_trace_in_its_entry(
    serve: Serve, tmp_path: Path, ratio: float, parent: str | None
):
    traced, journal = Traced(ratio), f"sqlite:{tmp_path / 'p.db'}"
    headers = {} if parent is None else {"traceparent": parent}
    async with serve(traced.tracing, journal=journal) as client:
        await client.put(HERO, json={}, headers=headers)
        await client.post(f"{HERO}/begin", json=RUN, headers=headers)
    opened = open_journal(journal, read_only=True)
    entries = await opened.read("match-7", after=0, limit=9)
    await opened.close()

    assert not traced.spans()
    assert [decode_entry(entry.blob).traced for entry in entries] == [[], []]


async def test_a_caller_that_keeps_its_trace_has_it_kept_here(serve: Serve):
    traced = Traced(ratio=0.0)
    async with serve(traced.tracing) as client:
        await client.put(HERO, json={}, headers={"traceparent": CALLER})

    assert {span.name for span in traced.spans()} == {
        "PUT /v1/scenes/{scene}/characters/{character}",
        "turn",
        "append",
    }


async def test_health_and_metrics_are_not_traced(serve: Serve):
    traced = Traced()
    async with serve(traced.tracing) as client:
        for path in ("/livez", "/readyz", "/metrics"):
            await client.get(path)

    assert not traced.spans()


async def test_a_query_is_not_told(serve: Serve):
    traced = Traced()
    async with serve(traced.tracing) as client:
        await client.get("/v1/scenes?limit=1&token=hunter2")
        [request] = traced.named("GET /v1/scenes")

    assert "hunter2" not in request.to_json()


def test_a_failure_inside_a_span_is_told_by_its_type_not_by_its_message():
    traced = Traced()
    caller = traced.tracing._tracer
    assert caller is not None

    span = caller.start_span("request")
    with (
        pytest.raises(JournalUnavailable),
        traced.tracing.turn("room", [span]),
        traced.tracing.append(first=1, last=1, size=9),
    ):
        raise JournalUnavailable("hunter2")

    append, turn = traced.named("append", "turn")
    for failed in (append, turn):
        assert failed.status.status_code is StatusCode.ERROR
        assert failed.attributes is not None
        assert failed.attributes["error.type"] == "JournalUnavailable"
        assert "hunter2" not in failed.to_json()


def test_a_turn_links_to_every_traced_request_in_it_up_to_a_bound():
    traced = Traced()
    tracer = traced.tracing._tracer
    assert tracer is not None
    callers = [tracer.start_span("request") for _ in range(200)]

    with traced.tracing.turn("room", callers):
        pass

    [turn] = traced.named("turn")
    assert linked(turn) == [
        (caller.get_span_context().trace_id, caller.get_span_context().span_id) for caller in callers[:128]
    ]


async def test_without_a_provider_nothing_is_traced():
    tracing = Tracing.to("", ratio=1.0)

    with tracing.turn("room", []), tracing.append(first=1, last=1, size=1):
        assert not trace.get_current_span().is_recording()
    await tracing.close()

    assert tracing.caller() is None
    assert tracing.of_requests()["tracing"] is False


def test_a_traceparent_is_what_the_header_has():
    tracer = Traced().tracing._tracer
    assert tracer is not None
    span = tracer.start_span("request")

    context, own = context_of(traceparent_of(span)), span.get_span_context()

    assert context is not None
    assert (context.trace_id, context.span_id, context.trace_flags) == (own.trace_id, own.span_id, own.trace_flags)
    assert len(traceparent_of(span)) == 55


@pytest.mark.parametrize(
    "text",
    ["", "00-1-2-01", f"{CALLER}-more", CALLER.upper(), f"00-{'0' * 32}-00f067aa0ba902b7-01", CALLER.replace("-", "_")],
)
def test_a_traceparent_that_names_nothing_is_no_context(text: str):
    assert context_of(text) is None


def test_a_span_is_not_linked_to_itself_to_nothing_or_after_its_end():
    traced = Traced()
    tracer = traced.tracing._tracer
    assert tracer is not None
    span, ended = tracer.start_span("request"), tracer.start_span("ended")
    ended.end()
    traced.spans()

    link(span, [traceparent_of(span), "nonsense", CALLER])
    link(ended, [CALLER])
    span.end()

    [request] = traced.named("request")
    assert [each.context.span_id for each in request.links] == [0x00F067AA0BA902B7]
    assert not ended.links  # type: ignore[attr-defined]  # of the SDK's span
