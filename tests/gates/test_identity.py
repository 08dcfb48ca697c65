"""Names, numbers and seals. Contract, sections 2 and 4."""

import pytest
from msgspec import UNSET
from msgspec.structs import replace

from app.gates.identity import Granted, Sealer, Token, has_control_characters, is_identifier

SECRET = b"a secret of thirty-two bytes    "
SEALER = Sealer("room", SECRET)


def sealed(sealer: Sealer = SEALER, life: int = 1) -> Token:
    fields = ("hero", "base", 1, 2, "Idle", "Hit")
    return Token(*fields, sealer.seal(life, *fields))


@pytest.mark.parametrize("text", ["a", "0", "match-7", "A.b_c~d", "x" * 128])
def test_an_identifier_is_taken(text: str):
    assert is_identifier(text)


@pytest.mark.parametrize(
    "text",
    [
        "",
        ".",
        "..",
        "-a",
        "_a",
        "~a",
        "a/b",
        "a%2Fb",
        "a b",
        "a\0",
        "a\n",
        "é",
        "\u0430",
        "\uff41",
        "x" * 129,
        "a\u200b",
        "\u0661",
    ],
)
def test_anything_else_is_no_identifier(text: str):
    assert not is_identifier(text)


@pytest.mark.parametrize("text", ["a\nb", "\0", "\x7f", "\x85", "\x9f", "\ud800", "\u3000\x1f"])
def test_control_characters_and_lone_surrogates_are_found(text: str):
    assert has_control_characters(text)


@pytest.mark.parametrize("text", ["", "two words", "\u3000", "\u200b", "走る", "👋🏽", "\u202e", "e\u0301"])
def test_every_other_character_may_stand_in_a_name(text: str):
    assert not has_control_characters(text)


def test_a_seal_tells_the_life_it_was_granted_in():
    assert [SEALER.life_of(sealed(life=life)) for life in (1, 15, 16, 2**53 - 1)] == [1, 15, 16, 2**53 - 1]


@pytest.mark.parametrize(
    "change",
    [
        {"character": "villain"},
        {"layer": "face"},
        {"epoch": 2},
        {"generation": 3},
        {"from_": "Hit"},
        {"to": "Idle"},
        {"seal": UNSET},
        {"seal": ""},
        {"seal": "\ud800-0"},
    ],
    ids=str,
)
def test_a_seal_covers_every_field(change: dict[str, object]):
    assert SEALER.life_of(replace(sealed(), **change)) is None


def test_a_seal_covers_its_life():
    token = sealed(life=1)
    assert isinstance(token.seal, str)

    moved = replace(token, seal="2" + token.seal[1:])

    assert SEALER.life_of(moved) is None


def test_a_seal_has_one_spelling():
    token = sealed(life=1)
    assert isinstance(token.seal, str)

    for seal in (f"0{token.seal}", token.seal.upper(), f"{token.seal} ", f"+{token.seal}", f"0x{token.seal}"):
        assert SEALER.life_of(replace(token, seal=seal)) is None or seal == token.seal


def test_fields_cannot_run_into_each_other():
    one = SEALER.seal(1, "hero", "base", 1, 12, "Idle", "Hit")

    assert one != SEALER.seal(1, "hero", "base", 11, 2, "Idle", "Hit")
    assert one != SEALER.seal(1, "hero", "bas", 1, 12, "eIdle", "Hit")
    assert SEALER.life_of(Token("hero", "base\x001", 1, 2, "Idle", "Hit", one)) is None


def test_a_seal_belongs_to_one_scene_and_one_journal():
    token = sealed()

    assert Sealer("hall", SECRET).life_of(token) is None
    assert Sealer("room", SECRET[::-1]).life_of(token) is None
    assert Sealer("room", SECRET).life_of(token) == 1


def granted_as(sealer: Sealer, life: int, generation: int, who: str = "hero", layer: str = "base") -> Token:
    fields = (who, layer, 1, generation, "Idle", "Hit")
    return Token(*fields, sealer.seal(life, *fields))


KEPT = Granted(floor=3, lives={"hero": 5, "ghost": 4}, generations={"hero": {"base": 7}})


@pytest.mark.parametrize(
    ("token", "life"),
    [
        (granted_as(SEALER, 5, 7), 5),
        (granted_as(SEALER, 5, 8), None),
        (granted_as(SEALER, 6, 1), None),
        (granted_as(SEALER, 4, 90), 4),
        (granted_as(SEALER, 5, 1, layer="face"), None),
        (granted_as(SEALER, 4, 90, who="ghost"), 4),
        (granted_as(SEALER, 5, 1, who="ghost"), None),
        (granted_as(SEALER, 3, 90, who="forgotten"), 3),
        (granted_as(SEALER, 4, 1, who="forgotten"), None),
    ],
)
def test_behind_a_new_secret_only_what_had_been_granted_is_known(token: Token, life: int | None):
    sealer = Sealer("room", b"another secret of 32 bytes      ", earlier=(SEALER, KEPT))

    assert SEALER.life_of(token) is not None
    assert sealer.life_of(token) == life


def test_a_new_secret_seals_otherwise_and_knows_its_own():
    sealer = Sealer("room", b"another secret of 32 bytes      ", earlier=(SEALER, KEPT))
    token = granted_as(sealer, 5, 8)

    assert token != granted_as(SEALER, 5, 8)
    assert sealer.life_of(token) == 5
    assert SEALER.life_of(token) is None


def test_each_of_several_new_secrets_is_bounded_by_those_behind_it():
    second = Sealer("room", b"second secret of thirty-two byte", earlier=(SEALER, KEPT))
    kept = Granted(lives={"hero": 5}, generations={"hero": {"base": 6}})
    third = Sealer("room", b"third secret of thirty-two bytes", earlier=(second, kept))

    assert third.life_of(granted_as(SEALER, 5, 6)) == 5
    assert third.life_of(granted_as(SEALER, 5, 7)) is None
    assert third.life_of(granted_as(second, 5, 6)) == 5
    assert third.life_of(granted_as(second, 5, 7)) is None
