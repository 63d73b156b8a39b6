"""The long tests that `make test` leaves out: all of them exist, and are run when they are asked for."""

import subprocess
import sys

import pytest

from tests.conftest import HERE, LONG

QUICK, SLOW = "test_a_pull_request_ends_with_a_row_on_the_site", "test_only_what_is_better_is_merged_and_moves_the_row"


@pytest.mark.parametrize("name", LONG)
def test_a_long_test_exists(name):
    path, _, rest = name.partition("::")
    test, bracket, case = rest.partition("[")
    file = HERE.parent / path
    assert f"def {test}" in file.read_text(encoding="utf-8")
    assert not bracket or case.endswith("]")


def collected(*arguments):
    command = [sys.executable, "-m", "pytest", "--collect-only", "--quiet", "-p", "no:cacheprovider", *arguments]
    return subprocess.run(command, cwd=HERE.parent, capture_output=True, text=True, check=True).stdout


@pytest.mark.parametrize("asked_for", [["tests/test_workflow_scenarios.py"], ["-k", "better_is_merged"]])
def test_a_long_test_is_run_when_it_is_asked_for(asked_for):
    assert SLOW in collected(*asked_for)


def test_all_tests_are_run_but_the_long_ones():
    usual = collected("--ignore-glob=*/test_[a-v]*.py")
    assert QUICK in usual
    assert SLOW not in usual
    assert SLOW in collected("--ignore-glob=*/test_[a-v]*.py", "--all")
