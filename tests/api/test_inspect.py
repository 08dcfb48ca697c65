"""Reading pages through what there is, at one sequence, and tells what has not changed."""

import pytest

from tests.support.caller import Caller
from tests.support.player import Send


def test_scenes_and_characters_are_paged_by_name(call: Caller):
    for name in ("c", "a", "b"):
        call.spawn(name, {})

    first = call.ask("GET", "characters?limit=2").body
    rest = call.ask("GET", f"characters?cursor={first['next']}&limit=2").body

    assert [row["character"] for row in first["characters"]] == ["a", "b"]
    assert ([row["character"] for row in rest["characters"]], rest["next"]) == (["c", "hero"], None)
    assert first["characters"][0] == {"character": "a", "life": 1, "rig": None, "revision": 1}


def test_scenes_are_listed(send: Send):
    names = [f"listed-{number}" for number in range(3)]
    for name in names:
        Caller(send, name).spawn()

    first = Caller(send).ask("GET", "/v1/scenes?cursor=listed-&limit=2").body
    rest = Caller(send).ask("GET", f"/v1/scenes?cursor={first['next']}&limit=1").body

    assert first == {"scenes": names[:2], "next": names[1]}
    assert rest["scenes"] == names[2:]


def test_a_scene_is_shown(call: Caller):
    call.ask("PUT", "rigs/humanoid", {})

    shown = call.ask("GET", "").body

    assert (shown["scene"], shown["characters"], shown["rigs"]) == (call.scene, 1, ["humanoid"])
    assert shown["sequence"] == 2


def test_a_snapshot_has_an_etag_that_changes_with_version_and_life(call: Caller):
    first = call.ask("GET", "characters/hero/parameters")
    unchanged = call.ask("GET", "characters/hero/parameters", if_none_match=first.headers["etag"])
    call.accepted("commit-parameters", {"values": [{"name": "Speed", "value": 4.25}]})
    changed = call.ask("GET", "characters/hero/parameters", if_none_match=first.headers["etag"])
    call.ask("DELETE", "characters/hero")
    call.spawn()
    reborn = call.ask("GET", "characters/hero/parameters", if_none_match=changed.headers["etag"])

    assert (unchanged.status, unchanged.content) == (304, b"")
    assert unchanged.headers["etag"] == first.headers["etag"]
    assert (changed.status, changed.body["values"]["Speed"]) == (200, 4.25)
    assert reborn.status == 200


@pytest.mark.parametrize("tags", ["*", '"1-0"', 'W/"1-0"', '"x", "1-0"', ' "1-0" '])
def test_if_none_match_takes_lists_weak_tags_and_a_star(call: Caller, tags: str):
    assert call.ask("GET", "characters/hero/parameters", if_none_match=tags).status == 304


def test_deliveries_can_be_read_again_after_a_number(call: Caller):
    event = {"clip_instance": 1, "loop": 0, "frame": 1, "kind": "footstep", "payload": {"side": "left"}}
    call.accepted("enqueue", event)
    delivered = call.accepted("commit-loop", {"clip_instance": 1, "loop": 0})

    kept = call.ask("GET", "characters/hero/deliveries").body
    later = call.ask("GET", "characters/hero/deliveries?after=1").body

    assert kept == {"deliveries": [{"delivery": 1, "events": [event]}]}
    assert delivered["events"] == [event]
    assert later == {"deliveries": []}


@pytest.mark.parametrize(
    ("query", "at"),
    [
        ("characters?limit=0", "limit"),
        ("characters?limit=many", "limit"),
        (f"characters?cursor={'x' * 129}", "cursor"),
        ("characters/hero/deliveries?after=-1", "after"),
        ("characters/hero/deliveries?after=9007199254740992", "after"),
        ("characters/hero/deliveries?after=NaN", "after"),
    ],
)
def test_a_query_that_does_not_fit_is_invalid(call: Caller, query: str, at: str):
    assert call.ask("GET", query).problem == ("invalid", 422, at)


def test_who_is_not_alive_cannot_be_read(call: Caller):
    for path in ("characters/nobody", "characters/nobody/parameters", "characters/nobody/deliveries"):
        assert call.ask("GET", path).problem[:2] == ("unknown-character", 404)
        assert call.elsewhere().ask("GET", path).problem[:2] == ("unknown-scene", 404)


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let who reads wait only shortly for what another node may have written."""
    monkeypatch.setattr("app.sequencing.following.REACHED_S_MAX", 0.05)


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize(
    "path",
    ["", "/characters", "/characters/hero", "/characters/hero/parameters", "/characters/hero/deliveries", "/history"],
)
def test_a_read_may_name_a_decision_that_must_be_visible(call: Caller, path: str):
    read = f"/v1/scenes/{call.scene}{path}?min_sequence="

    there, ahead, wrong = (call.ask("GET", f"{read}{number}") for number in (1, 9, -1))

    assert there.status == 200
    assert ahead.problem == ("sequence-ahead", 409, "min_sequence")
    assert ahead.headers["retry-after"] == "1"
    assert wrong.problem == ("invalid", 422, "min_sequence")


@pytest.mark.usefixtures("impatient")
def test_a_decision_of_a_scene_that_is_not_known_is_ahead_too(call: Caller):
    ahead, unknown = (call.ask("GET", f"/v1/scenes/nowhere-yet?min_sequence={number}") for number in (3, 0))

    assert ahead.problem == ("sequence-ahead", 409, "min_sequence")
    assert unknown.problem == ("unknown-scene", 404, None)


@pytest.mark.usefixtures("impatient")
def test_a_watch_may_name_one_too(call: Caller):
    assert call.ask("GET", "watch?snapshot=true&min_sequence=9").problem == ("sequence-ahead", 409, "min_sequence")
