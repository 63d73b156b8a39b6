"""The tests' browser: Chromium's headless shell if it is installed, which takes half the time; else Chromium."""

import shutil

PROGRAM = shutil.which("chromium-headless-shell") or shutil.which("chromium")
MISSING = "chromium is not installed: apt-get install chromium"
FLAGS = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update"]
