#!POPCORN leaderboard rowsum


def row_sums(rows):
    return [sum(row) for row in rows]
