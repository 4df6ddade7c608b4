"""Token data as pages: a report in one file (report.py), and a local site to browse (server.py).

routes.py has the page of each address. Frames, style, script and icon are in the folder `files`.
"""
