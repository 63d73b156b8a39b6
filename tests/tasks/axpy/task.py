import torch

input_t = tuple[float, torch.Tensor, torch.Tensor]
output_t = torch.Tensor
