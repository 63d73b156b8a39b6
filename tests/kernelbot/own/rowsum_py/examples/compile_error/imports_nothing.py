#!POPCORN leaderboard rowsum
import nowhere


def row_sums(rows):
    return nowhere.sums(rows)
