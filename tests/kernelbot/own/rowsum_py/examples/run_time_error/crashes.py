#!POPCORN leaderboard rowsum
import ctypes


def row_sums(rows):
    return ctypes.string_at(8)
