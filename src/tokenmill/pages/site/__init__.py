"""The pages of `tokenmill view`.

routes.py         which page an address asks for
frame.py          the frame of every page
query.py          the fields of an address, checked, and forms that fill them in
document_list.py  pages: overview, list of documents, the longest, a random one
document_page.py  page: one document, its place, when it is trained on
batch_page.py     page: the batch of a step
search_page.py    page: where a text occurs, a bounded scan at a time
"""
