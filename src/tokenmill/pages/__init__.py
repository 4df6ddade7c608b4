"""Token data as pages: a report in one file, and a local site to browse.

    report.py          `tokenmill view --save`: one HTML file
    health.py          the checks of verify in green and red
    compare_page.py    `tokenmill tokenizer compare --html`: two tokenizers side by side
    html.py            tables, cards and whole pages, tokens in colour, the packaged files
    plots.py           inline SVG
    find_documents.py  documents and their lengths, with bounded work
    server.py          `tokenmill view`: loopback, GET only, Host checked, strict CSP
    routes.py          which page an address asks for, and the frame of every page
    query.py           the fields of an address, checked, and forms that fill them in
    document_list.py   pages: overview, documents, the longest, a random one, those with a text
    document_page.py   page: one document, its place, when it is trained on
    batch_page.py      page: the batch of a step

The style, the script and the icon are in the folder `files`.
"""
