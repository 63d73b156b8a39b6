"""Judge many submissions in one sandbox, since its warm parent takes seconds to import torch."""

import contextlib
import os

from harness.judge import JudgeSession
from harness.records.fields import Mode
from harness.records.stats import MIN_PAIRS
from tests import cores


class JudgeSessions:
    """Opens sessions of boards on these cores, one at a time.

    `about` is anything else that a session depends on, such as how its players are stopped.  Options are those of
    `JudgeSession`.
    """

    def __init__(self, **options):
        self._options = options
        self._open = contextlib.ExitStack()
        self._session, self._key = None, None

    def judge(self, board, submission, mode=Mode.TEST, *, on=None, about=None, pairs=MIN_PAIRS, **options):
        on, options = on or cores.own(), self._options | options
        key = id(board), frozenset(on), about, frozenset(options.items())
        if self._key != key:
            self.close()
            os.sched_setaffinity(0, on)
            self._session, self._key = self._open.enter_context(JudgeSession(board, **options)), key
        return self._session.judge(submission, mode, pairs=pairs)

    def close(self):
        self._open.close()
        self._key = None
