"""How fast do conversations become ids and masks? Against transformers, in one run, on one core.

    python bench/chat.py                      # 12,000 conversations, 15 MB
    python bench/chat.py --template FILE      # with another template that marks answers

A conversation is rendered and encoded with its mask: here by the two steps of `prepare`, from lines
of JSON, and by the whole command; there by `apply_chat_template(return_assistant_tokens_mask=True)`
of a fast tokenizer with the same vocabulary, whose parsing of JSON is not counted. Bytes are those
of the JSON. `stock` is the same template without marks, whose answers are proved. Each is timed in
turns, and the best turn counts. Results go to bench/results/chat.json.
"""

import argparse
import json
import random
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import orjson
from corpus import english
from measure import machine

import tokenmill
from tokenmill.preparation import Chat
from tokenmill.preparation.planning.settings import Settings
from tokenmill.preparation.stages.conversations import ConversationEncoder, Conversations
from tokenmill.tokens.load_tokenizer import load

HERE = Path(__file__).parent
TURNS = 5
CHATML = """\
{%- for message in messages %}
    {%- if message.role == 'assistant' %}
        {{- '<|im_start|>assistant\\n' }}
        {%- generation %}{{- message.content + '<|im_end|>\\n' }}{% endgeneration %}
    {%- else %}
        {{- '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>\\n' }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}{{- '<|im_start|>assistant\\n' }}{%- endif %}
"""
SPECIALS = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
