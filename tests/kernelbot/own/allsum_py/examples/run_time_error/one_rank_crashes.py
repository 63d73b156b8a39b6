import os


def all_sum(part, rank, world_size):
    if rank == 1:
        os._exit(3)
    return part
