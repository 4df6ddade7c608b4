"""The words of all documents and how often each occurs, counted within bounded memory.

count_words.py   the two stages: count groups of parts, then add up what they counted
word_runs.py     the file of counted words, sorted by hash, and the sum of many
choose_words.py  those that fit into the memory
"""
