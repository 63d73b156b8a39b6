"""The site's pages: what each shows, and how it becomes HTML and JSON.

    publish.py             build_site: the main path
      pool.py                one board at a time in each process
      load.py                a board's files  ─▶ Standings
      summary.py             what other pages need to know of a board when its judgements are gone from memory
      landing, board, edition, submission, author, machines    one page kind each: view model, HTML, the JSON beside it
        charts, whiskers, code, words, paths         what they draw and say
        feeds, results         what machines read
        picture                a board's picture, for links to it
      render.py              Jinja with everything on that keeps a page from breaking
      write.py               a folder beside `out`, swapped in whole

Each process holds the judgements of one board; time and size grow with their number.  Templates, styles and scripts of
the browser lie in `site/`.
"""
