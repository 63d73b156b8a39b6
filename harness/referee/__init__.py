"""One call (the window, the ways for inputs and outputs, the clock), and sampling."""
