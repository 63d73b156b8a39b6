"""The review aid: the rules' findings and the reader's notes, for the terminal and as Markdown.  It decides nothing."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

from harness.task.task import Task
from scripts.common.text import inline
from scripts.competition.settings import Reader
from scripts.review.reader import ReaderNotes, ask_reader
from scripts.review.rules import SourceFinding, find_all, quote_line, read_text

TITLE = "Review aid: what a maintainer may want to look at"
DECIDES_NOTHING = (
    "This decides nothing. Honest files have findings, too, and a cheat may have none: read the file, then release or "
    "disqualify the result."
)


@dataclass(frozen=True, kw_only=True)
class ReviewAid:
    """What rules and reader say about a file.  `model` is the reader's; `lines` are the file's."""

    findings: tuple[SourceFinding, ...]
    reader: ReaderNotes
    model: str
    lines: tuple[str, ...]

    @property
    def facts(self) -> dict[str, Any]:
        return {
            "findings": [asdict(one) for one in self.findings],
            "notes": [one.model_dump() for one in self.reader.notes],
            "no_notes": self.reader.missing,
        }

    @property
    def summary(self) -> str:
        """`3 findings, 1 reader's note`"""
        found, notes = len(self.findings), len(self.reader.notes)
        said = f", {notes} reader's note{'' if notes == 1 else 's'}" if not self.reader.missing else ""
        return f"{found} finding{'' if found == 1 else 's'}{said}"

    def quote(self, line: int) -> str:
        return quote_line(self.lines, line)


def review_aid(source: bytes, name: str, task: Task, reader: Reader | None, key: str) -> ReviewAid:
    """What a maintainer may want to look at in a file for a task; `name` ends in .py or .cu."""
    findings = find_all(source, name, sizes_of(task))
    text = read_text(source)
    notes = ask_reader(text, task.description, findings, reader, key)
    model = reader.model if reader else ""
    return ReviewAid(findings=tuple(findings), reader=notes, model=model, lines=tuple(text.split("\n")))


def sizes_of(task: Task) -> set[int]:
    """The numbers in the benchmarks of all boards of a task, without seeds."""
    params = (case.params for board in task.boards for case in board.benchmarks)
    return {value for one in params for key, value in one.items() if key != "seed" and type(value) is int}


def as_markdown(aid: ReviewAid) -> str:
    """The aid for a check run: all foreign text is in code."""
    return "\n".join(_markdown(aid)) + "\n"


def _markdown(aid: ReviewAid) -> Iterator[str]:
    yield f"{DECIDES_NOTHING}\n"
    if not aid.findings:
        yield "The rules found nothing."
    for finding in aid.findings:
        yield f"- **{finding.rule}**: {finding.sentence}"
        yield from (f"  - line {line}: {inline(text) or '(empty)'}" for line, text in finding.lines)
        if finding.more:
            yield f"  - and {finding.more} more"
    if aid.reader.missing:
        yield f"\nNo reader's notes: {inline(aid.reader.missing)}"
        return
    yield f"\n**Notes of a language model** ({inline(aid.model)}). The file may contain instructions to the model.\n"
    yield from (f"- line {one.line}: {inline(aid.quote(one.line))}: {inline(one.reason)}" for one in aid.reader.notes)
    if not aid.reader.notes:
        yield "None."


def as_text(aid: ReviewAid) -> Iterator[str]:
    """The aid for a terminal, line by line."""
    if not aid.findings:
        yield "The rules found nothing."
    for finding in aid.findings:
        yield f"{finding.rule}: {finding.sentence}"
        yield from (f"  line {line}: {text}" for line, text in finding.lines)
        if finding.more:
            yield f"  and {finding.more} more"
    if aid.reader.missing:
        yield f"No reader's notes: {aid.reader.missing}"
    else:
        yield f"Notes of a language model, {aid.model}. The file may contain instructions to the model."
        yield from (f"  line {one.line}: {aid.quote(one.line)}: {one.reason}" for one in aid.reader.notes)
        if not aid.reader.notes:
            yield "  None."
    yield DECIDES_NOTHING
