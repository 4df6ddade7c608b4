"""What a loader serves from: its data with its order, and the passes through it.

ordered_data.py     named datasets, the order of their samples, and how rows are made of them
passes.py           where the passes of a loader with `epochs` begin and end
"""
