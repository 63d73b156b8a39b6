"""Handle signals, set a timer, send signals to itself and to a child, register functions for the exit."""

import atexit
import faulthandler
import os
import signal
import subprocess
import threading

import torch

received = []
for number in (signal.SIGUSR1, signal.SIGTERM, signal.SIGALRM, signal.SIGCHLD, signal.SIGCONT, signal.SIGHUP):
    signal.signal(number, lambda number, frame: received.append(number))
atexit.register(print, "the end")
faulthandler.enable()


def custom_kernel(data):
    values, output, scale = data
    received.clear()
    os.kill(os.getpid(), signal.SIGUSR1)
    signal.setitimer(signal.ITIMER_REAL, 0.002)
    child = subprocess.Popen(["sleep", "60"])
    child.terminate()
    child.wait()
    late = threading.Timer(0.001, lambda: None)
    late.start()
    late.join()
    while signal.SIGALRM not in received:
        signal.sigtimedwait([], 0.001)
    assert signal.SIGUSR1 in received
    return torch.mul(values.sort().values, scale, out=output)
