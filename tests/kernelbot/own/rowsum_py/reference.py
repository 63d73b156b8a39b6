"""The right answer: the sum of each row."""

import random


def generate_input(shape, seed):
    draw = random.Random(seed)
    rows, columns = shape
    return [[draw.randrange(-1000, 1000) for _ in range(columns)] for _ in range(rows)]


def ref_kernel(rows):
    return [sum(row) for row in rows]
