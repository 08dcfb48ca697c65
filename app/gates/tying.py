"""Tying: which tokens end together, and what else is ended with them.

Source: contract, section 8, "Bundle" (`link`) and "Holder".
"""

from collections.abc import Iterable
from typing import NamedTuple

from msgspec.structs import replace

from app.gates.character import Character
from app.gates.consequence import TokenEnded
from app.gates.scene import Overlay
from app.gates.tick import Link
from app.gates.transition import COMMITTED, EPOCH_ENDED, SUPERSEDED, TransitionArbiter


class Lost(NamedTuple):
    """A layer whose token lost its right: the arbiter as it was, and how the token ended (one letter)."""

    character: str
    layer: str
    arbiter: TransitionArbiter
    how: str


def lost_rights(name: str, before: Character, after: Character | None, layers: Iterable[str], how: str) -> list[Lost]:
    """List the layers whose pending or committed token has no right any more after a decision.

    Only tokens that something is tied to are listed: a link, or windows that they hold.
    """
    lost = []
    for layer in layers:
        arbiter = before.layers[layer]
        if not arbiter.holds and (arbiter.pending is None or arbiter.pending.link is None):
            continue
        now = None if after is None else after.layers[layer]
        if now is None or now.standing != arbiter.standing or now.epoch != arbiter.epoch or _was_ended(arbiter, now):
            lost.append(Lost(name, layer, arbiter, how))
    return lost


def _was_ended(before: TransitionArbiter, after: TransitionArbiter) -> bool:
    return before.pending is not None and after.pending is None and after.ended != COMMITTED


def linked_tokens(scene: Overlay, lost: list[Lost]) -> list[Lost]:
    """List the linked tokens that end because others did, each once, in the order of their links."""
    found: list[Lost] = []
    followed: set[int] = set()
    for ended in lost:
        link = None if ended.arbiter.pending is None else ended.arbiter.pending.link
        if link is None or link in followed:
            continue
        followed.add(link)
        how = SUPERSEDED if ended.how == EPOCH_ENDED else ended.how
        # A bundle links its tokens at its end: until then one of them may end without the others.
        held = scene.ticks.links.get(link)
        for name, layer, _ in () if held is None else held.members:
            character = scene.character(name)
            arbiter = None if character is None else character.layers.get(layer)
            if arbiter is not None and arbiter.pending is not None and arbiter.pending.link == link:
                found.append(Lost(name, layer, arbiter, how))
    return found


def tokens_ended(found: list[Lost]) -> list[TokenEnded]:
    """Name tokens that end, without their seals."""
    return [
        TokenEnded(token, ended.how)
        for ended in found
        if (token := ended.arbiter.pending_token(ended.character, ended.layer)) is not None
    ]


def end_tokens(scene: Overlay, tokens: Iterable[TokenEnded]) -> None:
    """End tokens, each as it says."""
    for ended in tokens:
        name, layer = ended.token.character, ended.token.layer
        character = scene.character(name)
        assert character is not None, "a linked token belongs to a living character"
        scene.put(name, character, character.with_layer(layer, character.layers[layer].with_ending(ended.how)))


def link_tokens(scene: Overlay, link: int, granted: list[tuple[str, str, int]]) -> None:
    """Join granted tokens, as far as they are still pending, under a number that was not used before."""
    members = [
        (name, layer, generation)
        for name, layer, generation in granted
        if (character := scene.character(name)) is not None
        and (pending := character.layers[layer].pending) is not None
        and pending.generation == generation
    ]
    # What was linked before ticks run, a rollback cannot take back.
    made_in = scene.tick if scene.ticks.is_running else scene.ticks.sealed
    links = scene.ticks.links | {link: Link(members, made_in)} if members else scene.ticks.links
    scene.ticks = replace(scene.ticks, links=links, links_made=link)


def note_ended_links(scene: Overlay, links: Iterable[int | None]) -> None:
    """Let go of links of which no token is pending any more; while ticks run, a rollback may still want them."""
    for link in links:
        held = None if link is None else scene.ticks.links.get(link)
        if link is None or held is None or any(_is_pending(scene, member, link) for member in held.members):
            continue
        links_left = dict(scene.ticks.links)
        if scene.ticks.is_running:
            links_left[link] = replace(held, ended_in=scene.tick)
        else:
            del links_left[link]
        scene.ticks = replace(scene.ticks, links=links_left)


def _is_pending(scene: Overlay, member: tuple[str, str, int], link: int) -> bool:
    character = scene.character(member[0])
    arbiter = None if character is None else character.layers.get(member[1])
    return arbiter is not None and arbiter.pending is not None and arbiter.pending.link == link
