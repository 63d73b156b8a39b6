"""`pullrank task import`: convert tasks in KernelBot's layout to PullRank's.

find_tasks   a folder, a set, a zip (`zip_file`), one old file
files        a task's keys, and the files that it names
kind         referee or script, from its source (`objects`)
convert      the files of a PullRank task, rewritten for a CPU on request (`device_alias`)
mend         with --mend, completed (`mend_files`, `needs`); this runs the task's code
importing    the command
"""
