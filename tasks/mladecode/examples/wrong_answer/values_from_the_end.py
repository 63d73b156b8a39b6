#!POPCORN leaderboard mladecode
"""Takes the last numbers of each row for the latent ones, as if the rotated ones came first."""

import torch
from task import input_t, output_t


def custom_kernel(data: input_t) -> output_t:
    q, cache, starts, lengths, latent, scale = data
    output = q.new_empty(*q.shape[:2], latent)
    for sequence, (start, length) in enumerate(zip(starts.tolist(), lengths.tolist(), strict=True)):
        tokens = cache[start : start + length].float()
        output[sequence] = torch.softmax(q[sequence].float() @ tokens.T * scale, dim=1) @ tokens[:, -latent:]
    return output
