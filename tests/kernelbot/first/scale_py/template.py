#!POPCORN leaderboard scale
#!POPCORN gpus H100

from task import input_t, output_t


def custom_kernel(data: input_t) -> output_t:
    x, factor = data
    return x * factor
