"""The kinds of rows: which tokens a row of a batch is made of, and the copying of them.

window_rows.py     windows of the axis: `rows="windows"`
document_rows.py   whole documents and pieces of them: `rows="packed"` and `rows="documents"`
gather_pieces.py   copies pieces, begin tokens and padding into rows
"""
