#!POPCORN leaderboard mladecode
"""PyTorch's own attention in float32, one sequence at a time: its heads are the queries of one head."""

from task import input_t, output_t
from torch.nn.functional import scaled_dot_product_attention


def custom_kernel(data: input_t) -> output_t:
    q, cache, starts, lengths, latent, scale = data
    output = q.new_empty(*q.shape[:2], latent)
    for sequence, (start, length) in enumerate(zip(starts.tolist(), lengths.tolist(), strict=True)):
        tokens = cache[start : start + length].float()[None, None]
        queries = q[sequence].float()[None, None]
        output[sequence] = scaled_dot_product_attention(queries, tokens, tokens[..., :latent], scale=scale)[0, 0]
    return output
