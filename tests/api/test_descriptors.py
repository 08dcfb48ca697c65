"""Descriptors: the limit of open files is raised as far as it may be, and what does not fit is not promised."""

import resource

import pytest

from app.api.descriptors import SPARE, room_for


@pytest.fixture
def limits(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, int]]:
    """The limits of a process that is not this one: the last is in force."""
    kept = [(1024, 4096)]
    monkeypatch.setattr(resource, "getrlimit", lambda _: kept[-1])
    monkeypatch.setattr(resource, "setrlimit", lambda _, limit: kept.append(limit))
    return kept


def test_what_fits_already_changes_nothing(limits: list[tuple[int, int]]):
    assert room_for(1024 - SPARE) == 1024 - SPARE
    assert limits == [(1024, 4096)]


def test_the_limit_is_raised_as_far_as_is_needed(limits: list[tuple[int, int]]):
    assert room_for(2000) == 2000
    assert limits[-1] == (2000 + SPARE, 4096)


def test_beyond_what_may_be_had_fewer_connections_fit(limits: list[tuple[int, int]]):
    assert room_for(10_000) == 4096 - SPARE
    assert limits[-1] == (4096, 4096)


def test_without_a_limit_everything_fits(limits: list[tuple[int, int]]):
    limits.append((1024, resource.RLIM_INFINITY))
    assert room_for(10_000) == 10_000
    limits.append((resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    assert room_for(10_000_000) == 10_000_000
