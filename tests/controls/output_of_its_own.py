"""Return a new tensor, and ignore the buffer that came with the input."""


def custom_kernel(data):
    values, _, scale = data
    return values.sort().values * scale
