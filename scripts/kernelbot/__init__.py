"""`pullrank task import`: convert tasks in KernelBot's layout to PullRank's, without running their code.

source     a folder, a set, a zip, one old file  ─►  files   the task's keys and files
kind       referee or script, from its source    ─►  task    the files of a PullRank task
"""
