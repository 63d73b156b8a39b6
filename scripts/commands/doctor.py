"""`pullrank doctor`: what this machine can do and how to install what is missing."""

from __future__ import annotations

import json
from dataclasses import asdict

import click

from scripts.common.terminal import console, table
from scripts.doctor.finding import Availability, Finding
from scripts.doctor.machine import examine
from scripts.doctor.runner import examine_runner, role_of

_STYLES = {"ok": "green", "limited": "yellow", "missing": "red", "optional": "dim"}


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print the findings as JSON.")
@click.option("--runner", is_flag=True, help="Also check what .github/runner/install.sh set up.")
def doctor(as_json: bool, runner: bool) -> int:
    """Show what this machine can do and how to install what is missing.

    Exits with 0 if this machine can judge submissions in a sandbox, and with 1 if not.

    Example: pullrank doctor --json
    """
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
