"""Build and test a file: the first two steps of every game."""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Iterator, Sequence

from harness.records.fields import CaseKind, Mode
from harness.records.judgement import CaseResult
from harness.records.verdict import Foul, Verdict
from harness.referee.orders import Deadline
from harness.rules.context import OWN_PLAYERS, Context
from harness.rules.phase import SideFoul
from harness.sandbox.player_handle import PlayerHandle
from harness.sandbox.sandbox import PlayerFiles
from harness.task.compile import Recipe
from harness.task.task import Case

SLOW_END_S = 5.0
"""A shorter end is never held against a file: the kernel may have gigabytes to free."""


def examine(
    context: Context, entry: PlayerFiles, cases: list[Case], *, label: str = "", until_failure: bool = False
) -> list[CaseResult]:
    """Build an entry for these cases and, if that succeeds, play all tests, or those until the first failure.

    `label` prefixes progress events.
    """
    context.report(f"{label}build", 0, 1)
    context.probe(cases)
    start = time.monotonic()
    try:
        built = build(context, entry, cases)
        if built.verdict is not Verdict.ACCEPTED:
            return [built]
        return [built, *_play_tests(context, entry, label, until_failure=until_failure)]
    except SideFoul as endless:  # the sandbox can start no other player
        return [CaseResult.of(CaseKind.BUILD, {}, endless.foul, time.monotonic() - start)]


def build(context: Context, entry: PlayerFiles, cases: list[Case]) -> CaseResult:
    """Import a submission and call it once per shape on throw-away inputs; then make its caches read-only.

    A compiled submission is sealed before any of its code runs, so that it cannot replace its own library.  If one uses
    torch.compile, fresh players also call it with each benchmark alone, as in a run: what is compiled depends on the
    shapes that came before.
    """
    limits = context.board.limits
    start = time.monotonic()
    if entry.recipe and (foul := _compile(context, entry, entry.recipe)):
        return CaseResult.of(CaseKind.BUILD, {}, foul, time.monotonic() - start)
    if entry.recipe:
        deadline = Deadline.of(limits.compile_timeout_s, limits.first_call_s)
        foul = _try_cases(context, entry, cases, deadline, building=False)
    else:
        deadline = Deadline.of(limits.compile_timeout_s, limits.building_call_s)
        foul = _try_cases(context, entry, cases, deadline, building=True)
        if not foul and context.sandbox.has_inductor_cache(entry):
            for case in cases:
                if case.kind is CaseKind.BENCHMARK and not deadline.is_over:
                    _try_cases(context, entry, [case], deadline, building=True)  # a foul happens again in its run
        foul = _seal(context, entry) or foul
    return CaseResult.of(CaseKind.BUILD, {}, foul, time.monotonic() - start)


def _try_cases(
    context: Context, entry: PlayerFiles, cases: Sequence[Case], deadline: Deadline, *, building: bool
) -> Foul | None:
    """Have a fresh player import the submission and call it once per case; return the foul of the import, if any."""
    with contextlib.ExitStack() as stack:
        with deadline.paused():  # the sandbox may only just start
            player = stack.enter_context(context.start_player(entry, building=building))
        try:
            referee = context.referee(player)
            referee.load(min(context.board.limits.compile_timeout_s, math.ceil(deadline.left_s)))
            deadline.phase_ends += player.starved_s
            with deadline.paused():
                context.sandbox.await_torch_header()
            for case in cases:
                try:
                    referee.call(case.params, context.seed(), deadline, checked=False)
                except Foul as error:  # it will happen again, and be reported, when its case is played
                    if building and error.verdict is Verdict.TIME_LIMIT_EXCEEDED:
                        context.unbuilt[entry.name] = f"{case.name} did not end, either. {error.message}"
                    break
        except Foul as error:
            return error
    return _slow_end(context.board.limits.compile_timeout_s, deadline, player)


def _slow_end(limit_s: float, deadline: Deadline, player: PlayerHandle) -> Foul | None:
    """The foul of a player that has used up a phase by how long it took to measure its memory and end its processes."""
    if not deadline.is_over or player.extra_s < SLOW_END_S:
        return None
    message = (
        f"It took {player.extra_s:.0f} s to measure its memory and end its processes; with that, this took more than "
        f"{limit_s:g} s."
    )
    return Foul(Verdict.TIME_LIMIT_EXCEEDED, message)


def _compile(context: Context, entry: PlayerFiles, recipe: Recipe) -> Foul | None:
    with context.start_player(entry, building=True) as player:
        foul = None
        try:
            context.referee(player).compile(recipe, context.board.limits.compile_timeout_s)
        except Foul as error:
            foul = error
    return _seal(context, entry) or foul


def _seal(context: Context, entry: PlayerFiles) -> Foul | None:
    try:
        context.sandbox.seal(entry)
    except Foul as foul:
        return foul
    return None


def require_build(context: Context, entry: PlayerFiles) -> None:
    """Build an entry for the benchmarks, unless an earlier game did.  Raises SideFoul, or JudgeError.

    A participant's file is also called on the tests, so that the shapes do not show whether it is the champion.
    """
    if context.sandbox.is_sealed(entry):
        return
    board = context.board
    tests = () if entry.name in OWN_PLAYERS else board.tests
    built = build(context, entry, [*tests, *board.benchmarks])
    if built.verdict is not Verdict.ACCEPTED:
        raise SideFoul(entry.name, board.benchmarks[0], Foul(built.verdict, built.message))


def _play_tests(context: Context, entry: PlayerFiles, label: str, *, until_failure: bool) -> list[CaseResult]:
    limits = context.board.limits
    deadline = Deadline.of(limits.test_timeout_s, limits.case_timeout_s)
    results: list[CaseResult] = []
    waiting = list(context.board.tests)
    while waiting and not deadline.is_over:
        with context.start_player(entry) as player:
            for played in _play_tests_with(context, entry, player, waiting, deadline, label):
                results.append(played)
                if until_failure and played.verdict is not Verdict.ACCEPTED:
                    return results
        foul = _slow_end(limits.test_timeout_s, deadline, player)
        if foul and results and (last := results[-1]).verdict is Verdict.ACCEPTED:
            results[-1] = CaseResult.of(CaseKind.TEST, last.params, foul, last.seconds, seed=last.seed)
    for case in waiting:
        message = f"Not played: the tests together took more than {limits.test_timeout_s:g} s."
        foul = Foul(Verdict.TIME_LIMIT_EXCEEDED, message)
        results.append(CaseResult.of(CaseKind.TEST, case.params, foul))
    return results


def _play_tests_with(
    context: Context, entry: PlayerFiles, player: PlayerHandle, waiting: list[Case], deadline: Deadline, label: str
) -> Iterator[CaseResult]:
    """Play tests until all are done or the player can no longer be used."""
    referee = context.referee(player, first_call_s=context.first_call_s(entry))
    is_loaded = False
    while waiting and not deadline.is_over:
        case = waiting.pop(0)
        context.report(f"{label}test", len(context.board.tests) - len(waiting) - 1, len(context.board.tests))
        seed = _test_seed(context, case, len(context.board.tests) - len(waiting) - 1)
        start, foul = time.monotonic(), None
        try:
            if not is_loaded:
                referee.load(context.board.limits.compile_timeout_s)
                deadline.phase_ends += player.starved_s
                is_loaded = True
            referee.call(case.params, seed, deadline, digested=True)
        except Foul as error:
            foul = error.with_traceback(None)  # whose frames keep all inputs and outputs in memory
            if foul.verdict is Verdict.TIME_LIMIT_EXCEEDED and entry.name in context.unbuilt:
                said = f"In the build, the first call with {context.unbuilt[entry.name]}"
                foul = Foul(foul.verdict, f"{foul.message} {said}")
        seconds, digests = time.monotonic() - start, None if foul else referee.digests
        yield CaseResult.of(CaseKind.TEST, case.params, foul, seconds, seed=seed, digests=digests)
        if foul and foul.verdict is not Verdict.WRONG_ANSWER:
            context.keep_log_of_foul(entry, player)
            break


def _test_seed(context: Context, case: Case, index: int) -> int:
    """The seed of a test: from task.yml in mode `test`, so that it is repeatable; otherwise secret."""
    if context.replay:
        seed = context.replay.test_seed(index)
    else:
        seed = case.public_seed if context.mode is Mode.TEST else None
    return context.seed() if seed is None else seed
