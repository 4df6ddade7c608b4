"""Token data as pages: a report in one file, and a local site to browse.

report.py      `tokenmill report`: the file
facts.py       the numbers of a report, from a bounded sample
health.py      the doctor's checks in green and red
plots.py       inline SVG
opened.py      a dataset opened for looking: every split, one tokenizer
server.py      `tokenmill view`: loopback, GET only, Host checked, strict CSP
site.py        which page an address stands for
overview.py    page: what the dataset holds
listing.py     pages: the list of documents, the longest, a random one
document.py    page: one document, its place, when it is trained on
batch.py       page: the batch of a step
search.py      page: where a text occurs, a bounded scan at a time
places.py      documents found with bounded work, whatever the size of the data
lengths.py     lengths of many documents with bounded work
order_form.py  the settings of a loader as a form
query.py       the questions in an address, checked
coloured.py    tokens in colour
html.py        HTML by construction; frame.py the frame of a page
files/         style, script and icon
"""
