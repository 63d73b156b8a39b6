#!POPCORN leaderboard prefixsum
"""As a GPU does it: scan every block, scan the blocks' sums, add to each block what came before it.

Three passes over memory, and a copy to fill the last block.
"""

from task import input_t, output_t

BLOCK = 256


def custom_kernel(data: input_t) -> output_t:
    size = data.numel()
    blocks = data.new_zeros(-(-size // BLOCK), BLOCK)
    blocks.view(-1)[:size] = data
    sums = blocks.cumsum(dim=1)
    carries = sums[:, -1].cumsum(dim=0)
    sums[1:] += carries[:-1, None]
    return sums.view(-1)[:size]
