"""`pullrank doctor`: what this machine can do and how to install what is missing; or how it differs from a judge."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from harness.records.system import require_linux
from scripts.boards.board_facts import MachineFacts
from scripts.boards.source import SiteSource
from scripts.commands.board import at_site, in_ledger, open_ledger, report_faults
from scripts.common.terminal import cell, console, table
from scripts.common.text import plain
from scripts.competition.completion import judged_gpu_names
from scripts.doctor.finding import Availability, Finding
from scripts.doctor.machine import examine
from scripts.doctor.runner import examine_runner, role_of
from scripts.doctor.software import Version, compare, software_here

_STYLES = {"ok": "green", "limited": "yellow", "missing": "red", "optional": "dim"}


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print the findings as JSON.")
@click.option("--runner", is_flag=True, help="Also check what .github/runner/install.sh set up.")
@click.option(
    "--board",
    "gpu",
    metavar="GPU",
    shell_complete=judged_gpu_names,
    help="Compare this machine's software with that of each machine that has judged this GPU's boards.",
)
@at_site
@in_ledger
def doctor(as_json: bool, runner: bool, gpu: str | None, site: str | None, ledger: Path | None) -> int:
    """Show what this machine can do and how to install what is missing.

    Exits with 1 if this machine cannot judge submissions in a sandbox, or lacks a part that --runner checks; else with
    0, and always with --board.

    Example: pullrank doctor --json

    To compare with a judge: pullrank doctor --board H100 --site https://OWNER.github.io/NAME/
    """
    if gpu:
        if runner or (site and ledger):
            raise click.UsageError("--board takes --site or --ledger, and not --runner.")
        return _compare(gpu, site, ledger, as_json=as_json)
    if site or ledger:
        raise click.UsageError("--site and --ledger need --board GPU.")
    if runner:
        require_linux()
    judges = not runner or role_of() != "registrar"
    findings = [*(examine() if judges else ()), *(examine_runner() if runner else ())]
    if as_json:
        click.echo(json.dumps([asdict(finding) for finding in findings], indent=1))
    else:
        _print(findings, "judge" if judges else "register runners")
    return int(any(finding.state is Availability.MISSING for finding in findings))


def _print(findings: list[Finding], does: str) -> None:
    made = table("", "", "", "Found", "What to do")
    for finding in findings:
        made.add_row(finding.state, finding.name, finding.detail, finding.remedy, style=_STYLES[finding.state])
    console().print(made)
    missing = [finding.name for finding in findings if finding.state is Availability.MISSING]
    click.echo(f"\nThis machine cannot {does} yet: {', '.join(missing)}." if missing else f"\nThis machine can {does}.")


def _compare(gpu: str, site: str | None, ledger: Path | None, *, as_json: bool) -> int:
    require_linux()
    source = SiteSource(site) if site else open_ledger(ledger)
    machines = [one for one in source.machines(gpu) if one.software]
    here = software_here() if machines else {}
    compared = [(one, compare(one.software, here)) for one in machines]
    if as_json:
        newest, *others = [_facts(*one) for one in compared] or [{"gpu": gpu, "software": []}]
        click.echo(json.dumps({**newest, "others": others}, indent=1))
    elif not compared:
        click.echo(f"No judgement in {source.place} says what software the judge of {gpu} has.")
    else:
        for judge, versions in compared:
            _print_versions(judge, versions)
    report_faults(source)
    return 0


def _facts(judge: MachineFacts, versions: list[Version]) -> dict[str, Any]:
    return {**judge.model_dump(mode="json", exclude={"software"}), "software": [asdict(one) for one in versions]}


def _print_versions(judge: MachineFacts, versions: list[Version]) -> None:
    made = table("", "Software", f"The judge of {judge.gpu}", "Here")
    for one in versions:
        words = (one.state, one.name, one.judge or "—", one.here or "—")
        made.add_row(*map(cell, words), style="yellow" if one.state == "differs" else "dim")
    console().print(made)
    cpu = "" if judge.cpu == judge.device else f" with {plain(judge.cpu)}"
    host = f"{cpu}, {judge.cores} cores" if judge.cpu else ""
    click.echo(
        f"\nThe judge: {plain(judge.device)}{host}; it last judged on {judge.last_at:%Y-%m-%d}. "
        "Other versions may be faster or slower."
    )
