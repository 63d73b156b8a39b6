import torch

input_t = torch.Tensor
output_t = tuple[torch.Tensor, torch.Tensor]
