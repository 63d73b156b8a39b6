"""A judgement as a check run: a line below the pull request, annotations on faulty lines, JSON for agents.

title         verdict and rank, as in the comment
summary       the report
text          the facts as JSON: verdict, every case, times with intervals
annotations   on the lines that a message names
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from harness.records.judgement import CaseResult, Judgement
from harness.records.verdict import Verdict
from scripts.bot.admission.path_rule import FILE_NAMES, entry_path
from scripts.bot.evaluate import workflow_runs
from scripts.common.text import plain, shorten
from scripts.github.checks import MAX_TEXT, Annotation, Check, CheckState
from scripts.ledger.request import Request
from scripts.standings.roofline import NO_ROOFLINE, Roofline
from scripts.standings.standings import Standings

MAX_REMARK = 1000
_LINE = re.compile(r"^(?:line |(submission\.(?:py|cu)):)([0-9]{1,7})\b")
"""How the judge's messages begin if they name a faulty line of the file."""


def check_of_judgement(
    request: Request,
    judgement: Judgement,
    title: str,
    report: str,
    standings: Standings | None,
    roofline: Roofline = NO_ROOFLINE,
) -> Check:
    """The check run of a judgement; `report` is its Markdown, `standings` and `roofline` are its board's."""
    state = CheckState.SUCCESS if judgement.verdict is Verdict.ACCEPTED else CheckState.FAILURE
    return replace(
        workflow_runs.check_of(request, state, title),
        summary=report,
        text=facts_as_text(judgement, request, standings, roofline),
        annotations=tuple(remarks(judgement, request)),
        run_url=judgement.run_url or "",
    )


def facts_as_text(
    judgement: Judgement, request: Request, standings: Standings | None = None, roofline: Roofline = NO_ROOFLINE
) -> str:
    """The judgement's facts as a fenced block of JSON; drops cases until it fits."""
    cases = [_case(case, roofline) for case in judgement.cases]
    while True:
        text = f"```json\n{json.dumps(_harmless(_facts(judgement, request, cases, standings)), indent=1)}\n```\n"
        if len(text) <= MAX_TEXT or not cases:
            return text
        cases = cases[: len(cases) // 2]


def _facts(
    judgement: Judgement, request: Request, cases: list[dict[str, Any]], standings: Standings | None
) -> dict[str, Any]:
    return {
        "request": request.id,
        "task": judgement.task,
        "edition": judgement.edition,
        "gpu": judgement.gpu,
        "mode": judgement.mode,
        "verdict": judgement.verdict,
        "message": judgement.message,
        "standing": _standing(judgement, standings),
        "cases": cases,
        "cases_in_all": len(judgement.cases),
        "duel": _duel(judgement),
        "claim": judgement.claim,
        "checksum": judgement.checksum,
    }


def _duel(judgement: Judgement) -> dict[str, Any] | None:
    if judgement.forfeit:
        return {"opponent": judgement.forfeit.opponent, "won": True}
    return {"opponent": judgement.duel.opponent, "won": judgement.duel.won} if judgement.duel else None


def _standing(judgement: Judgement, standings: Standings | None) -> dict[str, Any] | None:
    """The judged file's rank; `gap` is its time divided by the first's, minus 1.  None if it makes no row."""
    row = standings.find_row(judgement.submission.login) if standings else None
    if not standings or not row or judgement.checksum not in {one.checksum for one in row.judgements}:
        return None
    return {"rank": row.rank, "of": len(standings.rows), "gap": row.gap, "provisional": row.provisional}


def _case(case: CaseResult, roofline: Roofline) -> dict[str, Any]:
    facts: dict[str, Any] = {"kind": case.kind, "params": dict(case.params), "verdict": case.verdict}
    if case.message:
        facts["message"] = case.message
    if case.timing:
        facts["time_us"] = case.timing.submission_us
        facts |= case.timing.model_dump(include={"anchor_us", "ratio", "bound_us", "steady"})
    if case.told:
        facts |= {"time_us": case.told.time_us.value, "interval_us": case.told.time_us.model_dump()}
    if case.profile:
        absent = None if case.profile.counters else {"counters"}
        facts["profile"] = case.profile.model_dump(exclude=absent) | {"elsewhere_us": case.profile.elsewhere_us}
    if throughput := roofline.of(case):
        facts["throughput"] = throughput.model_dump()
    return facts


def remarks(judgement: Judgement, request: Request) -> Iterator[Annotation]:
    """One annotation for each line that a message names."""
    seen: set[tuple[int, str]] = set()
    for case in judgement.cases:
        found = _LINE.match(case.message)
        line, name = (int(found[2]), found[1] or FILE_NAMES[0]) if found else (0, "")
        if not 1 <= line <= max(1, judgement.submission.lines) or (line, case.message) in seen:
            continue
        seen.add((line, case.message))
        title = f"{case.verdict.label} ({case.verdict})"
        path = entry_path(request.task, request.login, name)
        yield Annotation(path=path, line=line, message=shorten(_harmless(case.message), MAX_REMARK), title=title)


def _harmless(value: Any) -> Any:
    """The same with every text in it cut, and unable to end a block of code or to notify somebody."""
    match value:
        case str():
            return shorten(plain(value), MAX_REMARK).replace("```", "'''").replace("@", "@\u200b")
        case dict():
            return {key: _harmless(inner) for key, inner in value.items()}
        case list() | tuple():
            return [_harmless(inner) for inner in value]
    return value
