"""Fine-tuning on conversations: the weights are those of a plain loop with transformers' mask."""

import torch
from chat_data import MARKED, make_rows, write_folder, write_rows
from torch.nn import functional
from transformers import PreTrainedTokenizerFast

import tokenmill
from tokenmill.preparation import Chat
from tokenmill.torch import TorchLoader
from tokenmill.train.config import TrainConfig
from tokenmill.train.model import GPT

STEPS = 4
CONFIG = TrainConfig(block_size=512, n_layer=2, n_head=2, n_embd=32)


def new_model(num_ids):
    torch.manual_seed(0)
    model = GPT(CONFIG, num_ids).double()
    return model, torch.optim.SGD(model.parameters(), lr=0.5)


def batches_of_rows(data):
    """All conversations, packed into rows: each is there once."""
    loader = TorchLoader(data, batch_size=1, block_size=512, rows="packed", seed=3, epochs=1)
    for batch in loader:
        documents = {"document_ids": batch.document_ids, "positions": batch.positions}
        yield batch.inputs, batch.targets, {"loss_mask": batch.loss_mask, **documents}


def test_a_model_learns_what_a_plain_loop_over_the_conversations_learns(tmp_path):
    folder = write_folder(tmp_path / "tok", MARKED["llama"])
    rows = make_rows("llama", 12, seed=7)
    path = write_rows(tmp_path / "a.jsonl", rows)
    end = {"end_of_text": "<|endoftext|>", "val_fraction": 0.0, "workers": 1}
    tokenmill.prepare(path, tmp_path / "d", tokenizer=folder, chat=Chat(), **end)
    data = tokenmill.open(tmp_path / "d")
    assert max(len(data.document(n)) for n in range(len(rows))) <= 512

    ours, optimizer = new_model(data.vocab_size)
    num_targets = 0
    for _ in range(STEPS):
        optimizer.zero_grad()
        given = list(batches_of_rows(data))
        num_targets = sum(int(fields["loss_mask"].sum()) for *_, fields in given)
        for inputs, targets, fields in given:
            (ours(inputs, targets, **fields) / num_targets).backward()
        optimizer.step()

    plain, optimizer = new_model(data.vocab_size)
    file = str(folder / "tokenizer.json")
    theirs = PreTrainedTokenizerFast(tokenizer_file=file, bos_token="<s>", eos_token="</s>")
    options = {"return_assistant_tokens_mask": True, "return_dict": True}
    masked = [
        theirs.apply_chat_template(row["messages"], chat_template=MARKED["llama"], **options)
        for row in rows
    ]
    answers = sum(sum(row["assistant_masks"][1:]) for row in masked)
    assert answers == num_targets < sum(len(row["input_ids"]) for row in masked)
    for _ in range(STEPS):
        optimizer.zero_grad()
        for row in masked:
            ids = torch.tensor([row["input_ids"]])
            losses = functional.cross_entropy(
                functional.linear(hidden(plain, ids[:, :-1]), plain.embed.weight)[0],
                ids[0, 1:],
                reduction="none",
            )
            (losses[torch.tensor(row["assistant_masks"][1:]) == 1].sum() / answers).backward()
        optimizer.step()

    for (name, one), other in zip(ours.named_parameters(), plain.parameters(), strict=True):
        assert torch.allclose(one, other, atol=1e-6), (name, (one - other).abs().max())
    assert not torch.equal(ours.embed.weight, new_model(data.vocab_size)[0].embed.weight)


def hidden(model, inputs):
    """What the model gives before its output: of one conversation alone, without masks."""
    x = model.embed(inputs)
    rotation = model.cos[: inputs.shape[1]], model.sin[: inputs.shape[1]]
    for block in model.blocks:
        x = block(x, rotation, None)
    return model.norm(x)
