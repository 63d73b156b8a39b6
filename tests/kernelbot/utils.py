"""Shared by the problems of all sets."""

import torch


def relative_error(output: torch.Tensor, expected: torch.Tensor) -> float:
    return float((output - expected).abs().max() / expected.abs().max().clamp_min(1e-30))


def match(reference, rtol: float):
    """A check that compares with the reference's own answer."""

    def check(data, output):
        expected = reference(data)
        if not isinstance(output, torch.Tensor) or output.shape != expected.shape or output.dtype != expected.dtype:
            return False, "another shape or dtype"
        close = torch.isclose(output, expected, rtol=rtol, atol=1e-6)
        return bool(close.all()), "" if close.all() else f"{int((~close).sum())} elements differ"

    return check
