"""Keep the work in a torch.nn.Module with a parameter and a buffer, set to each call's scale; return a Parameter."""

import torch


class Scale(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.factor = torch.nn.Parameter(torch.ones(1))
        self.register_buffer("calls", torch.zeros(1, dtype=torch.long))

    @torch.no_grad()
    def forward(self, values):
        self.calls += 1
        return values * self.factor


scale_by = Scale().eval()


def custom_kernel(data):
    values, _, scale = data
    scale_by.factor.data.fill_(scale)
    return torch.nn.Parameter(scale_by(values.sort().values))
