"""The long tests that `make test` leaves out: all of them exist, and run on demand."""

import subprocess
import sys

import pytest

from tests.conftest import HERE, LONG, is_named

QUICK, SLOW = "test_a_pull_request_ends_with_a_row_on_the_site", "test_only_a_faster_file_is_merged_and_moves_the_row"


def collected(*arguments):
    command = [sys.executable, "-m", "pytest", "--collect-only", "--quiet", "-p", "no:cacheprovider", *arguments]
    return subprocess.run(command, cwd=HERE.parent, capture_output=True, text=True, check=True).stdout


def test_every_long_test_exists(request):
    here = request.session.items
    has_all = request.config.option.all and {item.path for item in here}.issuperset(HERE.glob("test_*.py"))
    ids = [item.nodeid for item in here] if has_all else collected("--all").splitlines()
    assert [name for name in LONG if not any(is_named(name, one) for one in ids)] == []


@pytest.mark.parametrize("asked_for", [["tests/test_workflow_scenarios.py"], ["-k", "faster_file_is_merged"]])
def test_a_long_test_runs_when_it_is_selected(asked_for):
    assert SLOW in collected(*asked_for)


def test_all_tests_except_the_long_ones_run_by_default():
    usual = collected("--ignore-glob=*/test_[a-v]*.py")
    assert QUICK in usual
    assert SLOW not in usual
    assert SLOW in collected("--ignore-glob=*/test_[a-v]*.py", "--all")
