"""`pullrank submit` and `pullrank watch`: from a file to a row on the board, without cloning a fork.

file ─▶ prepare   check what intake would refuse, before anything is sent
     ─▶ follow    read each board's progress from the bot's comment and the check runs
     ─▶ live_table  print it: a live table on a terminal, lines in a log, JSON for programs
     ─▶ ending    print the last line: quota and site
"""
