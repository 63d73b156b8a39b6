"""`pullrank submit` and `pullrank watch`: from a file to its row, without a clone of one's own fork.

file ─▶ prepare   find what intake would refuse, before anything is sent
     ─▶ follow    how far each board is: read from the bot's comment and its check runs
     ─▶ show      a live table on a terminal, lines in a log, JSON for programs
     ─▶ ending    the last line: quota and site
"""
