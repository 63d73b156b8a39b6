"""`pullrank task import`: tasks in KernelBot's layout become folders of ours; nothing of them is run.

source     a folder, a set, a zip, one old file  ─►  files   what a task is made of, wherever it lies
kind       referee or script, told from its text ─►  task    the files of one of our tasks
"""
