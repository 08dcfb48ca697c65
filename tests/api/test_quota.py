"""Quotas: a caller beyond its rate, or with too many recorded refusals, is told when to come back."""

import time
from typing import Any

import pytest

from app.api.callers import ANYBODY, Caller, Role
from app.api.problems import ProblemError
from app.api.quota import Quota
from app.settings import Settings
from tests.support.keyed import MATCH, keyed

PLAYER = Caller("session/match/p", Role.SESSION, scene="match-7")


def quota(**settings: Any) -> Quota:
    return Quota(Settings(journal="memory:", **settings))


def test_commands_beyond_the_rate_are_turned_away_and_others_go_on(monkeypatch: pytest.MonkeyPatch):
    now = time.time()
    monkeypatch.setattr(time, "time", lambda: now)
    counted = quota(session_commands_per_s_max=5)
    counted.take(PLAYER, 5)

    with pytest.raises(ProblemError) as raised:
        counted.take(PLAYER, 1)

    assert (raised.value.name, raised.value.limit) == ("too-many-requests", 5)
    assert raised.value.retry_after == 1
    counted.take(Caller("session/match/q", Role.SESSION), 5)
    counted.take(ANYBODY, 5)


def test_more_at_once_than_a_window_takes_is_too_large_because_waiting_would_not_help():
    with pytest.raises(ProblemError) as raised:
        quota(session_commands_per_s_max=5).take(PLAYER, 6)

    assert (raised.value.name, raised.value.limit) == ("too-large", 5)


def test_recorded_refusals_are_counted_apart():
    counted = quota(session_refusals_per_minute_max=3)
    counted.require_refusals(PLAYER)
    counted.note_refusals(PLAYER, 0)
    counted.note_refusals(PLAYER, 3)

    with pytest.raises(ProblemError) as raised:
        counted.require_refusals(PLAYER)

    assert raised.value.name == "too-many-requests"
    assert 1 <= (raised.value.retry_after or 0) <= 60
    counted.require_refusals(ANYBODY)


async def test_a_stale_client_cannot_have_more_refusals_recorded_than_its_share():
    async with keyed(session_refusals_per_minute_max=3) as speaks:
        await speaks.spawn(MATCH, "match-7", "hero")
        session = await speaks.session(MATCH, "match-7", {"hero": 1})
        path, stale = "/v1/scenes/match-7/characters/hero/retire", {"clip_instance": 9}

        came = [await speaks.ask(session, "POST", path, stale) for _ in range(6)]

        assert [response.status_code for response in came] == [200] * 3 + [429] * 3
        assert int(came[-1].headers["retry-after"]) >= 1
        assert came[-1].json()["retry_after"] == int(came[-1].headers["retry-after"])
        history = (await speaks.ask(MATCH, "GET", "/v1/scenes/match-7/history?refused=true")).json()
        assert len(history["decisions"]) == 3
        assert (await speaks.ask(MATCH, "POST", path, stale)).status_code == 200


async def test_a_batch_counts_each_of_its_commands():
    async with keyed(caller_commands_per_s_max=10) as speaks:
        play = {"command": "play", "character": "hero", "clip": "Walk"}

        large = await speaks.ask(MATCH, "POST", "/v1/scenes/match-7/batch", {"commands": [play] * 12})

        assert (large.status_code, large.json()["limit"]) == (413, 10)


async def test_a_bundle_counts_each_of_its_commands_and_a_forbidden_one_counts_too():
    async with keyed(session_commands_per_s_max=10) as speaks:
        await speaks.spawn(MATCH, "match-7", "hero")
        session = await speaks.session(MATCH, "match-7", {"hero": 1})
        play = {"command": "play", "character": "hero", "clip": "Walk"}

        bundle = await speaks.ask(session, "POST", "/v1/scenes/match-7/bundle", {"commands": [play] * 11})
        forbidden = [{**play, "character": "other"}] * 11
        batch = await speaks.ask(session, "POST", "/v1/scenes/match-7/batch", {"commands": forbidden})

        assert bundle.status_code == 413
        assert batch.status_code in (413, 429)


def test_what_is_counted_ahead_is_neither_more_than_the_limit_nor_good_for_the_next_window(
    monkeypatch: pytest.MonkeyPatch,
):
    now = 1_000_000.0
    monkeypatch.setattr(time, "time", lambda: now)
    counted = quota(session_commands_per_s_max=160)

    def taken() -> int:
        for number in range(1_000):
            try:
                counted.take(PLAYER, 1)
            except ProblemError:
                return number
        return 1_000

    first = taken()
    now += 2
    counted._windows.storage.reset()

    assert 150 <= first <= 160
    assert 150 <= taken() <= 160


def test_only_so_many_callers_are_remembered(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("app.api.quota.CALLERS_MAX", 3)
    counted = quota(session_refusals_per_minute_max=1)

    for number in range(10):
        caller = Caller(f"session/match/{number}", Role.SESSION)
        counted.take(caller, 1)
        counted.note_refusals(caller, 2)
        assert max(len(counted._granted), len(counted._over)) <= 3
