from task import input_t, output_t


def custom_kernel(data: input_t) -> output_t:
    values, output = data
    output.zero_()[: values.numel()] = values
    return output
