"""Which tokens come when: sample numbers in, spans out, no files.

Read spans.py and order.py first, then window_order.py, the plain order; order_settings.py chooses.
"""
