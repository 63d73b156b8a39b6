"""Print a lot, to stdout and stderr, with colours, natively and from children; warn; log; leave a line unfinished."""

import logging
import os
import subprocess
import sys
import traceback
import warnings

import torch

logging.basicConfig(level=logging.DEBUG, format="%(asctime)s %(name)s %(levelname)s %(message)s")
print("loading", file=sys.stderr)


def custom_kernel(data):
    values, output, scale = data
    warnings.warn("this kernel is slow")
    logging.getLogger("kernel").debug("called with %s", values.shape)
    print("\x1b[31m" + "red " * 100_000 + "\x1b[0m", flush=True)
    print("::error::not a command", "<b>*not*</b> @markup", "\N{GREEK SMALL LETTER MU}s", "\0", "\r", end="")
    os.write(2, b"\xff\xfe no text\n")
    subprocess.run(["echo", "from a child"], check=True)
    try:
        raise ValueError("caught and shown")
    except ValueError:
        traceback.print_exc()
    sys.stdout.write("unfinished")
    return torch.mul(values.sort().values, scale, out=output)
