"""The code of a task, which the referee runs: inputs, right answers, checks; the values that pass between them."""
