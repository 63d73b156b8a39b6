"""A small GitHub Actions: runs the shipped workflows unchanged, against the GitHub of `tests/github_server`.

    with Expressions() as expressions, WarmPython() as warm, GitHubServer(world) as server:
        hub = Hub(server, expressions, warm, tmp_path, machines)
        world.open_pull(…)
        hub.settle()            # until no job is left
        hub.pages               # the published files

Real: the files of `main`, GitHub's expression evaluator, bash, the commands, tokens with a job's permissions,
artifacts. Replaced by stand-ins: GitHub's own actions (uses.py), and commands that install packages (shell.py).
"""

from tests.actions.expressions import Expressions
from tests.actions.hub import Hub
from tests.actions.job import Play, Played
from tests.actions.shell import StepFailed, Told
from tests.actions.warm import WarmPython

__all__ = ["Expressions", "Hub", "Play", "Played", "StepFailed", "Told", "WarmPython"]
