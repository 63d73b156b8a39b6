"""The lists of faults are well formed, every fault has its day, and the runner finds faults that no test notices."""

import subprocess
from datetime import date, timedelta
from pathlib import Path

import pytest

from tests.faults.__main__ import ROOT, Fault, FaultsError, check, faulty, read_faults, sample

FAULTS = read_faults()
AREAS = (
    "judge", "sandbox", "checker", "statistics", "standings", "admission", "plan", "ledger", "artifact", "comment", "pages",
    "announce", "submit", "setup", "importer",
)  # fmt: skip


def test_each_fault_can_be_inserted_and_names_existing_tests() -> None:
    for fault in FAULTS:
        text = faulty(fault, ROOT)
        assert text != (ROOT / fault.file).read_text("utf-8")
        if fault.file.endswith(".py"):
            compile(text, fault.file, "exec")
        missing = [test for test in fault.tests if not (ROOT / test.partition("::")[0]).is_file()]
        assert not missing, fault.fault
        assert fault.fault.endswith(".") and "\n" not in fault.fault


def test_every_area_has_faults_and_no_two_are_the_same() -> None:
    counts = {area: sum(fault.area == area for fault in FAULTS) for area in AREAS}
    assert min(counts.values()) >= 5
    assert len(FAULTS) >= 80
    assert len({fault.fault for fault in FAULTS}) == len(FAULTS)
    assert len({(fault.file, fault.old, fault.new) for fault in FAULTS}) == len(FAULTS)


@pytest.mark.parametrize("count", [1, 7, 40, len(FAULTS) + 1])
def test_successive_days_go_through_the_whole_list(count: int) -> None:
    first = date(2026, 11, 2)
    days = -(-len(FAULTS) // count)
    tried = [fault for day in range(days) for fault in sample(FAULTS, count, first + timedelta(days=day))]
    assert set(tried) == set(FAULTS)
    assert len(tried) < len(FAULTS) + count


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A program with one function, and a test of one of its two rules."""
    root = tmp_path / "repository"
    (root / "tests").mkdir(parents=True)
    (root / "price.py").write_text("def price(count):\n    return min(count, 100) * 2\n")
    test = "import subprocess, sys\nfrom price import price\n\n\n"
    test += "def test_two_cost_four():\n    assert price(2) == 4\n\n\n"
    test += "def test_another_process_says_the_same():\n"
    test += "    code = 'import price; print(price.price(2))'\n"
    test += "    assert subprocess.check_output([sys.executable, '-c', code], cwd='/', text=True) == '4\\n'\n"
    (root / "tests" / "test_price.py").write_text(test)
    (root / "tests" / "test_broken.py").write_text("def test_that_fails_anyway():\n    assert False\n")
    subprocess.run(["git", "init", "--quiet"], cwd=root, check=True)
    subprocess.run(["git", "add", "--all"], cwd=root, check=True)
    return root


def in_price(fault: str, old: str, new: str, *tests: str) -> Fault:
    return Fault(area="shop", fault=fault, file="price.py", old=old, new=new, tests=tests)


def test_the_runner_distinguishes_caught_faults_from_missed_ones(
    repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(temporary))
    sound = (repository / "price.py").read_bytes()
    said: list[str] = []
    price, another, broken = (
        "tests/test_price.py",
        "tests/test_price.py::test_another_process_says_the_same",
        "tests/test_broken.py",
    )
    faults = [
        in_price("Two cost two.", "* 2", "* 1", price),
        in_price("In another process two cost six.", "* 2", "* 3", another),
        in_price("A large order is free.", "100)", "0 * 100 + 99)", price),
        in_price("Nobody knows.", "min(", "max(", price, broken),
    ]
    assert not check(faults, repository, 2, say=said.append)
    assert said[0].startswith(
        "not green without a fault: tests/test_broken.py: tests/test_broken.py::test_that_fails_anyway"
    )
    assert "Two cost two. — caught by tests/test_price.py::test_two_cost_four, " in said[1]
    assert (
        "In another process two cost six. — caught by tests/test_price.py::test_another_process_says_the_same, "
        in said[2]
    )
    assert "A large order is free. — NOT CAUGHT by tests/test_price.py, " in said[3]
    assert "Nobody knows. — not tried, for without it these fail: tests/test_broken.py" in said[4]
    assert (repository / "price.py").read_bytes() == sound
    assert list(temporary.iterdir()) == []
    assert check(faults[:2], repository, 1, say=said.append)


def test_a_fault_whose_line_is_not_unique_is_named(repository: Path) -> None:
    twice = in_price("No such line.", "count", "n", "tests/test_price.py")
    with pytest.raises(FaultsError, match=r"shop.yml: in price.py this occurs 2 times, not once: count"):
        faulty(twice, repository)


def test_an_entry_with_an_unknown_key_is_named(tmp_path: Path) -> None:
    (tmp_path / "shop.yml").write_text("- {fault: It breaks., file: price.py, old: a, new: b, test: [c]}\n")
    with pytest.raises(FaultsError, match=r"shop.yml: entry 1 needs fault, file, old, new and a list of tests"):
        read_faults(tmp_path)
