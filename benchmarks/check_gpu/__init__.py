"""`make check-gpu`: what must be tried on a machine with a GPU, in four stages of at most ten minutes each.

    python3 -m benchmarks.check_gpu --stage 1 --out results

    __main__, command     Python's version; the command line
    frame, child          each probe in a process of its own; its result in a file at once
    records, tables       DIR/results.jsonl; DIR/tables.md
    machine               the machine's facts, and whether the sandbox works: every run begins with them
    border                stage 1: torch behind the sandbox's walls; the time of a call on sealed memory
    judging, attacks      stage 2: verdicts, times and attacks, judged like any submission
    languages             stage 3: the guide's examples, and the vendor's profiler
    times, peers          stage 4: kernels judged against themselves, and timed by other methods

A bare checkout runs this without a network: only the functions of probes import packages or torch.
"""
