"""Token data as pages: a report in one file, and a local site to browse.

    report.py   `tokenmill view --save`: one HTML file
    compare_page.py  `tokenmill tokenizer compare --html`: two tokenizers side by side
    server.py   `tokenmill view`: loopback, GET only, Host checked, strict CSP
    site/       the pages that it serves
    elements/   what report and site are made of

The style, the script and the icon are in the folder `files`.
"""
