"""The kinds of rows: which tokens a row of a batch is made of, and the copying of them.

window_rows.py     windows of the axis: `rows="windows"`
window_documents.py  where documents begin in windows: by an index, or by the end-of-text id
joint_maps.py      the maps of many shards, indexed as if they were one array
document_rows.py   whole documents and pieces of them: `rows="packed"` and `rows="documents"`
gather_pieces.py   copies pieces, begin tokens and padding into rows
"""
