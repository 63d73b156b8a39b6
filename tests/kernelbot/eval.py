"""A typical evaluator: calls the submission and writes the results to a pipe."""

import os
import sys

from reference import check_implementation, generate_input
from submission import custom_kernel


def main() -> int:
    with os.fdopen(int(os.environ["POPCORN_FD"]), "w") as pipe:
        data = generate_input(size=16, seed=1)
        good, _ = check_implementation(data, custom_kernel(data))
        pipe.write(f"check: {'pass' if good else 'fail'}\n")
    return 0 if good else 112


if __name__ == "__main__":
    sys.exit(main())
