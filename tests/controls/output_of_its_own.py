"""Return a tensor of its own; the buffer that came with the input is left alone."""


def custom_kernel(data):
    values, _, scale = data
    return values.sort().values * scale
