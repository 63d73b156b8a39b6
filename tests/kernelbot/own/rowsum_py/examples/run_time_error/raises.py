#!POPCORN leaderboard rowsum


def row_sums(rows):
    return [sum(row) // (0 if len(row) > 1 else 1) for row in rows]
