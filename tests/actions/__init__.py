"""GitHub Actions in small: the shipped workflows, played as they stand against the GitHub of `tests/github_server`.

    with Expressions() as expressions, WarmPython() as warm, GitHubServer(world) as server:
        hub = Hub(server, expressions, warm, tmp_path, machines)
        world.open_pull(…)
        hub.settle()            until no job is left
        hub.pages               what is on GitHub Pages now

Real: the files as `main` has them, GitHub's evaluator, bash, the commands, tokens with a job's permissions, artifacts.
Stood in for, by name: GitHub's own actions (uses.py), and what would install things (shell.py).
"""

from tests.actions.expressions import Expressions
from tests.actions.hub import Hub
from tests.actions.job import Play, Played
from tests.actions.shell import StepFailed, Told
from tests.actions.warm import WarmPython

__all__ = ["Expressions", "Hub", "Play", "Played", "StepFailed", "Told", "WarmPython"]
