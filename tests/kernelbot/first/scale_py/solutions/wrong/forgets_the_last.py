#!POPCORN leaderboard scale
from task import input_t, output_t


def custom_kernel(data: input_t) -> output_t:
    x, factor = data
    x[:-1] *= factor
    return x
