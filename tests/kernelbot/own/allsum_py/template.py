#!POPCORN leaderboard allsum


def all_sum(part, rank, world_size):
    raise NotImplementedError
