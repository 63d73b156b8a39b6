"""The standings of a board: judgements in, ranked rows out.  All of it is pure.

eligibility     the judgements that rank on a board
case_times      a file's time in each benchmark, pooled over its judgements
author_files    an author's files, and the one that ranks
baselines       files of the task with a time and no rank
first_place     the champion: first entries, won duels, records
ties            bands of ties, and who is ahead of whom
rows            the rows, with the notes on them; provisional ones last
standings       all of it in order
provisional     when a provisional row's file is judged again
claims, roofline, profiles      what the times of a judgement mean
"""
