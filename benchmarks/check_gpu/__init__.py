"""`make check-gpu`: what must be tried on a machine with a GPU, in four stages of at most ten minutes each.

    python3 -m benchmarks.check_gpu --stage 1 --out results

    __main__, command     Python's version; the command line
    frame, child          each probe in a process of its own; its result in a file at once
    records, tables       DIR/results.jsonl; DIR/tables.md
    stages/               the probes

A bare checkout runs this without a network: only the functions of probes import packages or torch.
"""
