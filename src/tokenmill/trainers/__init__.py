"""Adapters for the trainers of other projects; each file imports its trainer.

nanochat.py, litgpt.py, torchtitan.py, olmo_core.py, megatron_core.py, and hf_datasets.py for TRL.
"""
