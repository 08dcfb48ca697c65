"""The report of one replay: what was asked and answered, and where the naive client believed otherwise."""

import msgspec
from msgspec import Struct
from rich import box
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from app.replay.adapter import Gate
from app.replay.ledger import Disagreement, EventFlow, GateCount


class Report(Struct, frozen=True):
    """What one replay showed. `elapsed_s` spans the play alone, without spawns and the reading of the end state."""

    trace: str
    engine: str
    scenario: str
    scene: str
    characters: int
    gates: dict[Gate, GateCount]
    events: EventFlow
    disagreements: list[Disagreement]
    requests: int
    retries: int
    elapsed_s: float

    @property
    def asked(self) -> int:
        """How many commands the gates were asked."""
        return sum(count.asked for count in self.gates.values())

    @property
    def problems(self) -> int:
        """How many commands no gate decided. There should be none."""
        return sum(_sum(count.problems) for count in self.gates.values())

    @property
    def commands_per_s(self) -> float:
        """How fast it went: an observation on this machine, not a benchmark."""
        return self.asked / self.elapsed_s if self.elapsed_s > 0 else 0.0


def as_json(reports: list[Report]) -> str:
    """Give reports for machines: one object, with the commands that no gate decided summed up front."""
    rows = [{**msgspec.to_builtins(report), **_derived(report)} for report in reports]
    body = {"problems": sum(report.problems for report in reports), "traces": rows}
    return msgspec.json.format(msgspec.json.encode(body), indent=2).decode()


def _derived(report: Report) -> dict[str, float]:
    return {"elapsed_s": round(report.elapsed_s, 3), "commands_per_s": round(report.commands_per_s, 1)}


def as_table(report: Report) -> RenderableType:
    """Give a report for people: a title, the answers by gate, the disagreements, and how long it took."""
    title = Text(f"{report.trace}", style="bold")
    people = "1 character" if report.characters == 1 else f"{report.characters} characters"
    title.append(f"\n{report.engine}, {people}, scene {report.scene}", style="dim")
    return Group(title, _answers(report), _disagreements(report), _observed(report), Text(""))


def _answers(report: Report) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_footer=True)
    table.add_column("gate", footer="all", no_wrap=True)
    counts = list(report.gates.values())
    numbers = {
        "asked": [count.asked for count in counts],
        "accepted": [_sum(count.accepted) for count in counts],
        "refused": [_sum(count.refused) for count in counts],
        "problems": [_sum(count.problems) for count in counts],
        "unanswerable": [count.unanswerable for count in counts],
    }
    for name, column in numbers.items():
        table.add_column(name, footer=f"{sum(column):,}", justify="right", no_wrap=True)
    table.add_column("refused as", overflow="fold")
    for row, (gate, count) in enumerate(report.gates.items()):
        words = [f"{word} {number:,}" for word, number in {**count.refused, **count.problems}.items()]
        style = None if count.asked or count.unanswerable else "dim"
        table.add_row(gate, *(f"{column[row]:,}" for column in numbers.values()), ", ".join(words), style=style)
    return table


def _disagreements(report: Report) -> Table:
    """Give the disagreements, gate by gate; a gate that was asked nothing has none to show."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("what a naive client believed", no_wrap=True)
    table.add_column("times", justify="right", no_wrap=True)
    table.add_column("for example", overflow="fold")
    for gate, count in report.gates.items():
        if not count.asked and not count.unanswerable:
            continue
        for found in report.disagreements:
            if found.gate == gate:
                times = f"{found.count:,}" if found.out_of is None else f"{found.count:,} of {found.out_of:,}"
                example = found.examples[0] if found.examples else ""
                table.add_row(found.what, times, example, style=None if found.count else "dim")
        table.add_section()
    return table


def _observed(report: Report) -> Text:
    flow = report.events
    said = (
        f"{report.asked:,} commands in {report.requests:,} requests ({report.retries:,} sent again), "
        f"{report.elapsed_s:.2f} s, {report.commands_per_s:,.0f} commands a second as observed here"
    )
    if flow.fired:
        said = (
            f"events: the naive client fired {flow.fired:,}; the gate accepted {flow.accepted:,}, "
            f"delivered {flow.delivered:,}, {flow.waiting:,} still wait\n{said}"
        )
    return Text(said)


def _sum(counts: dict[str, int]) -> int:
    return sum(counts.values())
