"""Write files and read them again: text, numpy's and torch's own formats, a database, a log."""

import logging
import sqlite3
import tempfile
from pathlib import Path

import numpy as np
import torch

logging.basicConfig(filename="/tmp/kernel.log", level=logging.DEBUG)
folder = Path(tempfile.mkdtemp(prefix="kernel-"))


def custom_kernel(data):
    values, output, scale = data
    logging.info("sorting %d values", values.numel())
    np.save(folder / "values.npy", values.numpy())
    torch.save(torch.from_numpy(np.load(folder / "values.npy", mmap_mode="r+")), folder / "values.pt")
    with sqlite3.connect(folder / "scale.db") as database:
        database.execute("CREATE TABLE IF NOT EXISTS scales (scale REAL)")
        database.execute("INSERT INTO scales VALUES (?)", (scale,))
        (scale,) = database.execute("SELECT scale FROM scales ORDER BY rowid DESC").fetchone()
    return torch.mul(torch.load(folder / "values.pt").sort().values, scale, out=output)
