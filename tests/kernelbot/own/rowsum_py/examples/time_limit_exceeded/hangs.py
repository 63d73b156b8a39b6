#!POPCORN leaderboard rowsum
import time


def row_sums(rows):
    time.sleep(3600)
