"""`pullrank submit` and `pullrank watch`: from a file on this machine to its row, without a clone of one's own fork.

file ─▶ prepare   what intake would refuse, said before anything leaves this machine; the tests, where it can
     ─▶ send      fork, commit, this author's one pull request of this task
     ─▶ follow    how far each board is: read from the bot's comment and its check runs
     ─▶ ending    the last line: quota, site
     ─▶ tools     the commands: a live table, or a line of JSON for each change
"""
