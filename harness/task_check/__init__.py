"""The checks of `pullrank task check`: probes with wrong answers, and all examples."""
