#!POPCORN leaderboard vectoradd
# Save this as submissions/vectoradd/<your login>/submission.py and open a pull request:
# a draft is tested and timed, one that is ready for review is ranked.
# Before that, on your own machine: pullrank test submission.py
"""Right and simple, but it crosses memory four times more than it must."""

from task import input_t, output_t


def custom_kernel(data: input_t) -> output_t:
    a, b = data
    return (a.float() + b.float()).half()
