"""One call: inputs, the window, the output, the check; sampling; reference and checker."""
