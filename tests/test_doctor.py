"""What the doctor finds, and that nothing missing goes without a remedy."""

import json

import pytest

from harness.sandbox import find_faults
from scripts.cli import run
from scripts.doctor import State, examine


def test_each_finding_that_is_not_good_says_what_to_do():
    findings = examine()
    assert {"Python", "torch", "sandbox", "user", "cores", "g++", "ninja", "nvcc", "GPU"} <= {
        one.name for one in findings
    }
    assert [one.name for one in findings if one.state is not State.OK and not one.remedy] == []


def test_the_exit_code_says_whether_this_machine_can_judge(capsys):
    code = run(["doctor", "--json"])
    states = {finding["name"]: finding["state"] for finding in json.loads(capsys.readouterr().out)}
    assert code == int("missing" in states.values())
    assert (states["sandbox"] == "missing") is bool(find_faults())


@pytest.mark.parametrize("arguments", [[], ["--json"]])
def test_without_bubblewrap_it_says_how_to_get_it(arguments, monkeypatch, tmp_path, capsys):
    monkeypatch.setenv("PATH", str(tmp_path))
    assert run(["doctor", *arguments]) == 1
    said = capsys.readouterr().out
    assert "apt install bubblewrap" in said
    assert arguments or said.endswith("This machine cannot judge yet: sandbox.\n")
