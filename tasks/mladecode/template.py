#!POPCORN leaderboard mladecode
# Save this as submissions/mladecode/<your login>/submission.py and open a pull request:
# a draft is tested and timed, one that is ready for review is ranked.
# Before that, on your own machine: pullrank test submission.py
"""Right and simple: the formula, step by step, in float32, one sequence at a time."""

import torch
from task import input_t, output_t


def custom_kernel(data: input_t) -> output_t:
    q, cache, starts, lengths, latent, scale = data
    output = q.new_empty(*q.shape[:2], latent)
    for sequence, (start, length) in enumerate(zip(starts.tolist(), lengths.tolist(), strict=True)):
        q_latent, q_rotated = (part.float() for part in q[sequence].tensor_split([latent], dim=1))
        tokens = cache[start : start + length]
        latents, rotated = (part.float() for part in tokens.tensor_split([latent], dim=1))
        scores = (q_latent @ latents.T + q_rotated @ rotated.T) * scale
        output[sequence] = torch.softmax(scores, dim=1) @ latents
    return output
