"""One call (inputs, timing window, output, check), sampling, reference and checker."""
