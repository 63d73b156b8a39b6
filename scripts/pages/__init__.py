"""The site's pages.

    publishing/    build_site, the entry point: builds boards in parallel and replaces the output folder atomically
    landing, board, edition, submission, author, machines, hacks    one kind of page each: view model and files
    picture, feeds    preview pictures of boards; files for programs
    parts/         shared by the pages: charts, words, highlighted code, templates

Each process holds the judgements of one board.  Time and memory grow with their number.  Templates, styles and browser
scripts are in `site/`.
"""
