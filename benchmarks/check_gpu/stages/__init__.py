"""The probes of each stage, and what they share.

machine               the machine's facts, and whether the sandbox works: every run begins with them
border                stage 1: torch behind the sandbox's walls; the time of a call on sealed memory
judging, attacks      stage 2: verdicts, times and attacks, judged like any submission
languages             stage 3: the guide's examples, and the vendor's profiler
times, peers          stage 4: kernels judged against themselves, and timed by other methods
"""
