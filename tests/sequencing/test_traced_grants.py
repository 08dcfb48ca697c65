"""A report is joined to the trace of its grant: inside bundles and ticks too, within a bound, over restarts."""

import asyncio
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from app.gates.bundle import Bundle
from app.gates.decision import Command, Refused
from app.gates.identity import Token
from app.gates.lives import CloseScene, Spawn
from app.gates.roster import Roster
from app.gates.scene import Record
from app.gates.tick import Tick
from app.gates.transition import (
    Begin,
    Cancel,
    Complete,
    Fail,
    TransitionGranted,
    TransitionKept,
    TransitionRefusal,
)
from app.journal.codec import Traced, TracedGrant, decode_entry
from app.journal.port import START
from app.sequencing.mailbox import Addressed
from app.sequencing.registry import Registry
from app.sequencing.traced_grants import TracedGrants, granted, reported
from app.sequencing.verify import verify_scene
from app.settings import Settings
from app.telemetry.tracing import Tracing, traceparent_of
from tests.support.journal_fakes import Fault, FaultyJournal
from tests.support.played import member, request
from tests.support.sequenced import Clock, idle

RUN, HIT = Begin(layer="base", target="Run"), Begin(layer="base", target="Hit")


def token(generation: int, character: str = "hero") -> Token:
    return Token(character, "base", 1, generation, "Idle", "Run", "1-abc")


def grant(generation: int) -> Record:
    return Record("hero", RUN, TransitionGranted(token(generation), None), generation)


def parent(number: int) -> str:
    return f"00-{number:032x}-{number:016x}-01"


def test_a_report_of_a_granted_token_is_of_the_trace_it_was_granted_in():
    grants = TracedGrants(10)

    grants.note(7, [grant(1), grant(2), grant(3)], [Traced(7, 7, parent(1)), Traced(9, 9, parent(2))])

    assert grants.of(Complete(token=token(1))) == {parent(1)}
    assert grants.of(Cancel(token=token(2))) == set()
    assert grants.of(Fail(token=token(3), why="gone")) == {parent(2)}
    assert grants.of(Complete(token=token(3, "villain"))) == set()


def test_the_bound_lets_the_oldest_go():
    grants = TracedGrants(2)

    for generation in (1, 2, 3):
        grants.note(generation, [grant(generation)], [Traced(generation, generation, parent(generation))])

    known = [grants.of(Complete(token=token(generation))) for generation in (1, 2, 3)]
    assert known == [set(), {parent(2)}, {parent(3)}]


def test_a_checkpoint_is_given_pending_tokens_only_and_gives_them_back():
    grants, roster = TracedGrants(10), Roster(hot_max=1)
    grants.note(1, [grant(1), grant(2)], [Traced(1, 2, parent(1))])

    assert grants.pending(roster) == []
    grants.clear()
    grants.restore([TracedGrant("hero", "base", 1, 2, parent(1))])

    assert grants.of(Complete(token=token(2))) == {parent(1)}
    assert grants.of(Complete(token=token(1))) == set()


def test_only_grants_are_granted_and_only_ends_reported():
    assert list(granted(TransitionKept(token(1)))) == []
    assert list(granted(Refused(TransitionRefusal.UNKNOWN_LAYER))) == []
    assert list(reported(RUN)) == []
    assert list(reported(Spawn())) == []


class Watched:
    """A registry whose requests are traced, one span each, and what those spans were when they ended."""

    def __init__(self, journal: FaultyJournal, **settings: Any) -> None:
        self._exporter = InMemorySpanExporter()
        provider = TracerProvider(shutdown_on_exit=False)
        provider.add_span_processor(SimpleSpanProcessor(self._exporter))
        self._tracer = provider.get_tracer("test")
        self.journal = journal
        self.registry = Registry(journal, Settings(**settings), clock=Clock(), tracing=Tracing(provider))

    async def ask(self, name: str, *asked: tuple[str | None, Command]) -> list[Any]:
        """Send one request, called `name`; give its answers."""
        with self._tracer.start_as_current_span(name):
            results = await self.registry.submit("room", [Addressed(who, command) for who, command in asked])
        return [result.record.answer for result in results]  # type: ignore[union-attr]  # all of it is decided

    def ended(self, name: str) -> list[ReadableSpan]:
        """Give the spans of a name that ended so far."""
        return [span for span in self._exporter.get_finished_spans() if span.name == name]

    def links(self, name: str) -> list[str]:
        """Name the spans that the one span of a name links to."""
        [span] = self.ended(name)
        names = {each.context.span_id: each.name for each in self._exporter.get_finished_spans() if each.context}
        return sorted(names[each.context.span_id] for each in span.links)


@pytest.fixture
def watched(journal: FaultyJournal) -> Watched:
    return Watched(journal)


async def test_grants_of_a_bundle_are_known_and_reports_in_one_are_joined(watched: Watched):
    await watched.ask("spawn", ("hero", Spawn()), ("villain", Spawn()))
    [bundled] = await watched.ask("begin", (None, Bundle(commands=[member("hero", RUN), member("villain", HIT)])))
    tokens = [given.answer.token for given in bundled.answers]
    done = [member(each.character, Complete(token=each)) for each in tokens]
    await watched.ask("complete", (None, Bundle(commands=done)))
    await watched.registry.close()

    assert watched.links("complete") == ["begin"]


async def test_a_grant_inside_a_tick_is_of_the_request_that_sealed_it(watched: Watched):
    """Before the seal nothing was granted."""
    await watched.ask("spawn", ("hero", Spawn()))
    await watched.ask("hold", (None, Tick(requests=[request(1, RUN)])))
    [sealed] = await watched.ask("seal", (None, Tick(seal=1)))
    [held] = list(granted(sealed))
    await watched.ask("report", (None, Tick(requests=[request(2, Complete(token=held), number=2)])))
    await watched.registry.close()

    assert watched.links("report") == ["seal"]


async def test_a_batch_is_joined_to_each_begin_but_not_to_itself(watched: Watched):
    await watched.ask("spawn", ("hero", Spawn()), ("villain", Spawn()))
    [one] = await watched.ask("one", ("hero", RUN))
    [other] = await watched.ask("other", ("villain", HIT))
    await watched.ask(
        "both", ("hero", Complete(token=one.token)), ("villain", Complete(token=other.token)), ("hero", HIT)
    )
    await watched.registry.close()

    assert watched.links("both") == ["one", "other"]


async def test_a_turn_that_was_dropped_grants_nothing_and_joins_nothing(watched: Watched):
    await watched.ask("spawn", ("hero", Spawn()))
    [given] = await watched.ask("begin", ("hero", RUN))
    watched.journal.next(Fault.UNAVAILABLE)

    with pytest.raises(Exception, match="disk is full"):
        await watched.ask("complete", ("hero", Complete(token=given.token)))
    await watched.registry.close()

    assert watched.links("complete") == []
    assert len(watched.ended("turn")) == 3


async def test_an_entry_says_which_sequences_came_from_which_request(watched: Watched):
    await watched.ask("spawn", ("hero", Spawn()))
    watched.journal.hold()
    untraced = asyncio.create_task(watched.registry.submit("room", [Addressed("hero", HIT)]))
    await watched.journal.is_held.wait()
    asked = [
        asyncio.create_task(watched.ask("two", ("hero", RUN), ("hero", HIT))),
        asyncio.create_task(watched.registry.submit("room", [Addressed("hero", RUN)])),
        asyncio.create_task(watched.ask("one", ("hero", HIT))),
    ]
    for _ in range(5):
        await asyncio.sleep(0)
    watched.journal.release()
    await untraced
    for task in asked:
        await task
    await watched.registry.close()

    last = decode_entry(watched.journal.written[-1])
    [two], [one] = watched.ended("two"), watched.ended("one")
    assert [(part.first, part.last) for part in last.traced] == [(3, 4), (6, 6)]
    assert [part.traceparent for part in last.traced] == [
        traceparent_of(trace.NonRecordingSpan(span.context)) for span in (two, one) if span.context
    ]


async def test_a_scene_runs_in_no_requests_trace(watched: Watched):
    """Its task lives longer than the request that opened it."""
    await watched.ask("spawn", ("hero", Spawn()))
    await watched.registry.submit("room", [Addressed("hero", RUN)])
    await watched.registry.close()

    assert len(watched.ended("turn")) == len(watched.ended("append")) == 1


async def test_closing_a_scene_forgets_its_grants(watched: Watched):
    await watched.ask("spawn", ("hero", Spawn()))
    [given] = await watched.ask("begin", ("hero", RUN))
    await watched.ask("close", (None, CloseScene()))
    await watched.ask("again", ("hero", Spawn()))
    await watched.ask("late", ("hero", Complete(token=given.token)))
    await watched.registry.close()

    assert watched.links("late") == []


async def test_what_left_memory_is_known_again_and_the_journal_is_still_verified(journal: FaultyJournal):
    watched = Watched(journal, checkpoint_decisions=2)
    await watched.ask("spawn", ("hero", Spawn()), ("villain", Spawn()))
    [pending] = await watched.ask("pending", ("hero", RUN))
    [ended] = await watched.ask("ended", ("villain", RUN))
    await watched.ask("end", ("villain", Cancel(token=ended.token)))
    await idle(watched.registry)
    done = await watched.ask("complete", ("hero", Complete(token=pending.token)))
    await watched.ask("twice", ("villain", Cancel(token=ended.token)))
    await watched.registry.close()

    report = await verify_scene(journal.inner, "room", Settings())
    stored = await journal.inner.read("room", after=START, limit=1)
    assert [answer.__struct_config__.tag for answer in done] == ["committed"]
    assert watched.links("complete") == ["pending"]
    assert watched.links("twice") == []
    assert decode_entry(stored[0].blob).traced
    assert not report.differences


async def test_what_was_granted_behind_the_last_checkpoint_is_known_after_a_crash(journal: FaultyJournal):
    """Nothing but the entry tells, of tokens that ended too."""
    before = Watched(journal)
    await before.ask("spawn", ("hero", Spawn()))
    [given] = await before.ask("begin", ("hero", RUN))
    await before.ask("end", ("hero", Cancel(token=given.token)))
    journal.failing.add("checkpoint")
    await before.registry.close()
    after = Watched(FaultyJournal(journal.inner))
    await after.ask("late", ("hero", Complete(token=given.token)))
    await after.registry.close()

    [begin], [late] = before.ended("begin"), after.ended("late")
    assert begin.context is not None
    assert [each.context.span_id for each in late.links] == [begin.context.span_id]
