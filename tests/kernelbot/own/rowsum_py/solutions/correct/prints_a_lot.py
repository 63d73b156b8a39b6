#!POPCORN leaderboard rowsum


def row_sums(rows):
    print("row" * 100_000)
    return [sum(row) for row in rows]
