"""Judge many submissions behind walls that go up once: a warm parent imports torch for several seconds."""

import contextlib

from harness.fields import Mode
from harness.judge import Sitting


class Sittings:
    """The sitting of the board that is asked for.  Only one is open at a time: each takes all cores.

    `about` is whatever else a sitting depends on, such as how its players are stopped.
    """

    def __init__(self, **options):
        self._options = options
        self._open = contextlib.ExitStack()
        self._sitting, self._key = None, None

    def judge(self, board, submission, mode=Mode.TEST, *, about=None):
        key = id(board), about
        if self._key != key:
            self.close()
            self._sitting, self._key = self._open.enter_context(Sitting(board, **self._options)), key
        return self._sitting.judge(submission, mode)

    def close(self):
        self._open.close()
        self._key = None
