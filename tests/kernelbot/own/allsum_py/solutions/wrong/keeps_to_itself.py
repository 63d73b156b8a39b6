def all_sum(part, rank, world_size):
    return part * world_size
