"""The site's pages.

    publishing/    build_site: the main path; boards in parallel, one process each; a folder that is swapped in whole
    landing, board, edition, submission, author, machines, picture, feeds    one kind of page each: view model and files
    parts/         what pages use: charts, words, highlighted code, templates

Each process holds the judgements of one board.  Time and size grow with their number.  Templates, styles and the
browser's scripts are in `site/`.
"""
