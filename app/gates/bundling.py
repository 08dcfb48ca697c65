"""Bundling: commands settled in order on one overlay, and dropped together when one of them is refused.

Source: contract, section 8, "Bundle".
"""

from msgspec import UNSET
from msgspec.structs import replace

from app.gates.bundle import Answered, Bundle, Bundled, BundleRefusal, Member, resolved
from app.gates.character import Answer
from app.gates.decision import Command, LifeRefusal, Refused, Undecided, name_of
from app.gates.identity import Token
from app.gates.scene import Overlay
from app.gates.settling import apply, settle
from app.gates.transition import Begin, TransitionGranted
from app.gates.tying import link_tokens

NOBODYS = Token("", "", 0, 0, "", "")
"""A token of no layer."""


def settle_bundle(scene: Overlay, bundle: Bundle) -> Answer | Undecided:
    """Decide a bundle. When it was accepted the overlay has moved on, else it is what it was."""
    if bundle.holder is not UNSET and not scene.holds(bundle.holder):
        return Refused(LifeRefusal.HOLDER_LOST, at="holder")
    point = scene.savepoint()
    link = scene.ticks.links_made + 1 if bundle.link else None
    answers: list[Answered] = []
    for index, member in enumerate(bundle.commands):
        command = _resolved(member, answers)
        settled = command if type(command) is Undecided else settle(scene, member.character, command, link)
        if type(settled) is Undecided:
            scene.go_back(point)
            at = f"commands[{index}]"
            return Undecided(settled.problem, settled.detail, at if settled.at is UNSET else f"{at}.{settled.at}")
        assert not isinstance(command, Undecided)
        answer, revision, consequences = settled
        if type(answer) is Refused:
            scene.go_back(point)
            # What the commands before it were answered never came to be: their tokens must not be seen.
            at = f"commands[{index}]"
            refused = _as_it_is(scene, member.character, command, answer) if index else answer
            return Refused(BundleRefusal.MEMBER_REFUSED, at=at, failed_at=index, refused=refused)
        answers.append(Answered(member.character, name_of(type(command)), answer, revision, consequences))
    if link is not None:
        link_tokens(scene, link, granted_in(answers))
    return Bundled(answers)


def _as_it_is(scene: Overlay, name: str, command: Command, refused: Refused) -> Refused:
    """Tell of a refusal what is true now that nothing was applied: what beat it may never have come to be."""
    character = scene.character(name)
    layer = command.layer if isinstance(command, Begin) else getattr(command, "token", NOBODYS).layer
    arbiter = None if character is None else character.layers.get(layer)
    if refused.layer is UNSET or arbiter is None:
        return replace(refused, layer=UNSET, by=UNSET)
    return replace(refused, layer=arbiter.now(), by=UNSET if refused.by is UNSET else arbiter.newest())


def apply_bundle(scene: Overlay, bundle: Bundle, fact: Bundled) -> None:
    """Apply a bundle that was settled before: asks no rule."""
    link = scene.ticks.links_made + 1 if bundle.link else None
    for member, given in zip(bundle.commands, fact.answers, strict=True):
        command = _resolved(member, fact.answers)
        assert not isinstance(command, Undecided), "what was accepted had its references"
        apply(scene, member.character, command, given.answer, given.consequences)
    if link is not None:
        link_tokens(scene, link, granted_in(fact.answers))


def _resolved(member: Member, answers: list[Answered]) -> Command | Undecided:
    if not member.references:
        return member.command
    named = {index: answers[index].answer for index in member.references.values() if index < len(answers)}
    return resolved(member.command, member.references, named)


def granted_in(answers: list[Answered]) -> list[tuple[str, str, int]]:
    """Name the tokens that a bundle granted: (character, layer, generation)."""
    granted = [given.answer.token for given in answers if type(given.answer) is TransitionGranted]
    return [(token.character, token.layer, token.generation) for token in granted]
