"""A wheel contains the competition that it is built from, so that commands that it installs work without a clone."""

import shutil
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py

COMPETITION = "pullrank_competition"
"""The folder of the copy, beside the packages; `scripts/competition/repository.py` looks for it."""
CONTENTS = ("tasks", "AGENTS.md", ".github/pullrank.yml")


class BuildWithCompetition(build_py):
    def run(self) -> None:
        super().run()
        if not self.editable_mode:  # which uses the clone itself
            for name in CONTENTS:
                self._copy(Path(name), Path(self.build_lib) / COMPETITION / name)

    def _copy(self, source: Path, target: Path) -> None:
        if source.is_dir():
            shutil.rmtree(target, ignore_errors=True)  # what an earlier build left
            shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source, target)


setup(cmdclass={"build_py": BuildWithCompetition})
