def custom_kernel(data):
    values, output = data
    output[: values.numel()] = values
    return output
