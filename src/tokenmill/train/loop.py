"""The training loop: batches in, a trained model, its checkpoints and its curve out.

The rows of a step are counted over all ranks, and its losses are summed and divided by the number
of targets of the whole step: it means the same however it is cut, and a run may resume with more or
fewer ranks. Random numbers (dropout) are seeded at each step from (seed, step, rank): there is no
generator state to save, and a resumed run draws what the uninterrupted one would have drawn.
"""

import math
import time
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from tokenmill.base.human import human_duration, plural
from tokenmill.base.progress import Progress
from tokenmill.base.signals import StopRequest
from tokenmill.batches.batch_form import BatchForm
from tokenmill.errors import FormatError, Stopped, TokenmillError
from tokenmill.metrics import prometheus
from tokenmill.torch.torch_batch import TorchBatch
from tokenmill.torch.torch_loader import TorchLoader
from tokenmill.torch.world import Ranks
from tokenmill.train import checkpoint
from tokenmill.train.collectives import barrier, sum_over_ranks, texts_of_ranks
from tokenmill.train.config import TrainConfig
from tokenmill.train.edits_file import RunEdits, read_entries
from tokenmill.train.model import GPT, generate, learning_rate_at, make_optimizer
from tokenmill.train.run_data import TrainingData
from tokenmill.train.run_page import trained_part
from tokenmill.train.run_record import RunRecord, TextBytes, bits_per_byte

VALIDATION_SEED = 0  # not the run's seed, so that runs can be compared
CPU_PASS = 1 << 37  # weights times tokens of a forward pass on a CPU: seconds, and little memory


@dataclass(frozen=True)
class TrainResult:
    """The outcome of a finished run."""

    step: int
    train_loss: float
    val_loss: float | None
    run_dir: Path
    data_wait: float
    """Share of the time of this process's steps spent waiting for data."""
    val_losses: dict[str, float] = field(default_factory=dict)
    """The loss on every validation set, by its name: val, val_code..."""
    sample: str = ""
    """Text that the model wrote at its last validation."""


class Validation:
    """Fixed batches of one validation set: the same windows on any number of ranks.

    They are windows, whatever the rows of the training are. Ranks take turns on whole batches, and
    the sums are put together in batch order: the loss has the same bits on any number of ranks.
    """

    def __init__(self, name: str, data: TrainingData, config: TrainConfig) -> None:
        held_out = data.held_out[name]
        block_size = config.block_size
        num_tokens = held_out.num_tokens
        num_windows = max(0, num_tokens - 1) // block_size
        if num_windows == 0:
            raise FormatError(
                f"the validation split {name} has {num_tokens:,} tokens; "
                f"one window of block_size {block_size} needs {block_size + 1:,}",
                hint="a smaller block_size=, more held-out data, or eval_interval=0",
            )
        batch_size = min(config.eval_batch_size, num_windows)
        loader = TorchLoader(
            held_out,
            batch_size=batch_size,
            block_size=block_size,
            seed=VALIDATION_SEED,
            rank=0,
            world_size=1,
            vocab_size=data.vocab_size,
            documents=data.documents,
            form=BatchForm(prefetch=0),
        )
        num_batches = min(config.eval_batches, num_windows // batch_size)
        self.batches = [next(loader) for _ in range(num_batches)]

    def loss(self, sum_of_losses: Callable[[TorchBatch], Tensor], ranks: Ranks) -> float:
        """Mean loss over all targets of the fixed batches, the same on every rank."""
        sums = torch.zeros(len(self.batches), dtype=torch.float64)
        with torch.no_grad():
            for i in range(ranks.rank, len(self.batches), ranks.world_size):
                sums[i] = sum_of_losses(self.batches[i]).double().cpu()
        sum_over_ranks(sums)  # every other rank adds zero, which is exact
        return float(sums.sum()) / sum(batch.num_targets for batch in self.batches)


class Trainer:
    """One run on one rank."""

    def __init__(
        self,
        config: TrainConfig,
        data: TrainingData,
        *,
        device: torch.device,
        ranks: Ranks,
        progress: Progress,
    ) -> None:
        self.config = config
        self.data = data
        self.device = device
        self.ranks = ranks
        self.progress = progress
        self.is_main = ranks.rank == 0
        self.step = 0
        self._skipped = config.skipped
        self.left_out: list[int] = []
        """Steps of the data that were not trained on."""
        self.loss = math.nan
        self.val_losses: dict[str, float] = {}
        self.last_sample = ""
        self._seconds = 0.0  # of all steps, without validation and checkpoints
        self._waited = 0.0  # seconds of these, for data
        # Step, step of the data, loss and norm, not yet looked at: that would wait for the GPU.
        self._unchecked: list[tuple[int, int, Tensor]] = []
        self._must_evaluate = True  # before the first step, and after a validation that was left
        # State of the loader and len(left_out) before the step that is under way.
        self._before_step: tuple[dict[str, Any], int] | None = None
        self._last_batches: list[TorchBatch] = []  # none before the first step
        has_bf16 = device.type == "cuda" and torch.cuda.is_bf16_supported()
        self._in_bf16 = {"bf16": True, "fp32": False, "auto": has_bf16}[config.precision]
        rows, rest = divmod(config.rows_per_step, ranks.world_size)
        if rest:
            raise ValueError(
                f"global_batch_size {config.rows_per_step} does not divide over {ranks.world_size} "
                "ranks"
            )
        torch.manual_seed(config.seed)
        self.model = GPT(config, data.vocab_size).to(device)
        work = self.model.num_parameters * config.block_size  # of a row
        self._most_rows = max(1, CPU_PASS // work) if device.type == "cpu" else 1 << 62
        self.optimizer = make_optimizer(self.model, config, fused=device.type == "cuda")
        self.loader = TorchLoader(
            data.train,
            batch_size=rows,
            **config.order_options,
            device=device,
            rank=ranks.rank,
            world_size=ranks.world_size,
            vocab_size=data.vocab_size,
            documents=data.documents,
        )
        self._text_bytes = TextBytes(data.tokenizer, data.vocab_size)
        self.edits = RunEdits(
            config.run_dir, self.loader, self.is_main, texts_of_ranks, progress.say
        )
        self.validations = {
            name: Validation(name, data, config) for name in data.held_out if config.eval_interval
        }

    def run(self, stop: StopRequest) -> TrainResult:
        """Train to max_iters or the end of the data, or until a signal: save, raise `Stopped`."""
        config = self.config
        self._stop = stop
        self.edits.start()
        self.record = RunRecord(
            config, is_main=self.is_main, from_step=self.step, validates=self._must_evaluate
        )
        if self.step and self.is_main:  # the last process may have been killed before it did
            self.record.draw(trained_part(self.loader))
        # Step, seconds and waited at the last line of metrics.
        self._at_last_line = (self.step, 0.0, 0.0)
        self._meter = self.progress.begin("step", config.max_iters)
        self._meter.skip(self.step)
        try:
            self._train()
        except Stopped:
            if self._before_step is not None:
                state, num_left_out = self._before_step
                self.loader.load_state_dict(state)
                del self.left_out[num_left_out:]
            if self.step:
                self._save()
            where = f"saved at step {self.step:,} of" if self.step else "before the first step of"
            raise Stopped(
                f"{stop.asked or 'a signal on another rank'}: {where} {config.max_iters:,}",
                hint="the same command with resume=True continues from there",
            ) from None
        finally:
            self.record.close()
            self.loader.close()
        share = self._waited / max(self._seconds, 1e-9)
        self.progress.say(
            f"Trained to step {self.step:,} in {human_duration(self._seconds)}; waiting "
            f"for data took {share:.2%} of it\nWrote {config.run_dir}"
        )
        return TrainResult(
            step=self.step,
            train_loss=self.loss,
            val_loss=self.val_losses.get("val"),
            run_dir=config.run_dir,
            data_wait=share,
            val_losses=self.val_losses,
            sample=self.last_sample,
        )

    def _train(self) -> None:
        """Train until the end, or raise `Stopped`: alone in the middle of a step or a validation,
        several ranks after the same step."""
        config = self.config
        model = self._wrap()
        if self._must_evaluate:
            self._evaluate()
        is_last = self.step >= config.max_iters
        while not is_last:
            began = time.perf_counter()
            data_step, batch = self._next_batch()
            has_ended = batch is None  # a cap of a source may end the order
            is_asked = batch is not None and self._train_step(model, data_step, batch)
            self._before_step = None
            is_last = self.step >= config.max_iters or has_ended
            is_line_due = self._is_due(config.log_interval) or is_last or is_asked
            if is_line_due:
                self._check_losses()  # waits for the GPU
            self._seconds += time.perf_counter() - began
            if is_line_due:
                self._log()
            if self._is_due(config.eval_interval) or (is_last and config.eval_interval):
                self._evaluate()
            if is_asked and not is_last:
                raise Stopped("after a step of all ranks")
            if self._is_due(config.checkpoint_interval) or is_last:
                if not is_last:  # else the next start takes them
                    self.edits.take()
                self._save()

    def _wrap(self) -> nn.Module:
        """The model as it is trained: compiled, and kept equal over ranks."""
        model: nn.Module = self.model
        setting = self.config.compile
        if setting == "on" or (setting == "auto" and self.device.type == "cuda"):
            model = torch.compile(model)  # type: ignore[assignment]
        if self.ranks.world_size > 1:
            on = [self.device.index] if self.device.type == "cuda" else None
            model = DistributedDataParallel(model, device_ids=on)
        return model

    def _next_batch(self) -> tuple[int, TorchBatch | None]:
        """The step of the data that comes next and its batch; None at the end of the order."""
        began = time.perf_counter()
        self._before_step = self.loader.state_dict(), len(self.left_out)
        while True:
            data_step = self.loader.state_dict()["samples"] // self.config.rows_per_step
            batch = next(self.loader, None)
            if batch is None or data_step not in self._skipped:
                self._waited += time.perf_counter() - began
                return data_step, batch
            self.left_out.append(data_step)

    def _train_step(self, model: nn.Module, data_step: int, batch: TorchBatch) -> bool:
        """One optimizer step; returns True if any rank was asked to stop."""
        # One exchange of two numbers per step: the ranks agree on what they divide by and on
        # whether they stop here, so none waits for another that has left.
        is_asked = self._stop.asked is not None
        shared = torch.tensor([batch.num_targets, is_asked], dtype=torch.float64)
        num_targets, num_asked = sum_over_ranks(shared).tolist()

        words = np.random.SeedSequence([self.config.seed, self.step, self.ranks.rank])
        torch.manual_seed(int(words.generate_state(1, np.uint64)[0] >> 1))
        loss = torch.zeros((), device=self.device)
        parts = batch.split(self.config.micro_batch_size or self._most_rows)
        for i, part in enumerate(parts):
            # Gradients travel between ranks once per step, with the last micro-batch.
            alone = isinstance(model, DistributedDataParallel) and i < len(parts) - 1
            with model.no_sync() if alone else nullcontext():  # type: ignore[operator]
                part_loss = self._sum_of_losses(model, part) / num_targets
                # DDP takes the mean over ranks; our division is by the sum already.
                (part_loss * self.ranks.world_size).backward()
            loss += part_loss.detach()
        norm = nn.utils.clip_grad_norm_(self.model.parameters(), self.config.grad_clip or math.inf)
        for group in self.optimizer.param_groups:
            group["lr"] = learning_rate_at(self.step, self.config)
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)

        self.step += 1
        self._last_batches = [batch]
        self._unchecked.append((self.step, data_step, torch.stack((loss, norm))))
        return bool(num_asked)

    def _sum_of_losses(self, model: nn.Module, batch: TorchBatch) -> Tensor:
        if self._stop.asked and self.ranks.world_size == 1:
            raise Stopped(self._stop.asked)
        with torch.autocast(self.device.type, dtype=torch.bfloat16, enabled=self._in_bf16):
            total: Tensor = model(
                batch.inputs,
                batch.targets,
                loss_mask=batch.loss_mask,
                weights=batch.weights,
                document_ids=batch.document_ids if self.data.documents else None,
                positions=batch.positions if self.data.documents else None,
            )
        return total

    def _sum_of_parts(self, batch: TorchBatch) -> Tensor:
        parts = batch.to(self.device).split(self._most_rows)
        return torch.stack([self._sum_of_losses(self.model, part) for part in parts]).sum()

    def _is_due(self, interval: int | None) -> bool:
        return bool(interval) and self.step % (interval or 1) == 0

    def _check_losses(self) -> None:
        """Stop at the first loss or gradient that is not finite, and say which windows it is of."""
        if not self._unchecked:
            return
        values = sum_over_ranks(torch.stack([pair for *_, pair in self._unchecked])).tolist()
        self.loss = values[-1][0]
        for (step, data_step, _), (loss, norm) in zip(self._unchecked, values, strict=True):
            if math.isfinite(loss) and math.isfinite(norm):
                continue
            found = f"loss of step {step:,} is {loss}"
            if math.isfinite(loss):
                found = f"norm of the gradients of step {step:,} is {norm}"
            windows = self.loader.describe(data_step)
            self.record.log({"event": f"the {found}", "windows": windows}, step)
            skipped = ",".join(filter(None, (self.config.skip_steps, str(data_step))))
            raise TokenmillError(
                f"the {found}; its windows:\n" + "\n".join(f"       {w}" for w in windows[:8]),
                hint="it is in no checkpoint; metrics.jsonl lists all its windows. "
                f'resume=True with skip_steps="{skipped}" continues without them. If steps after '
                "it end like this as well, start another run with a lower learning_rate=",
            )
        self._unchecked.clear()

    def _check_weights(self) -> None:
        """Stop if the weights, or the validation losses that they give, are not finite."""
        tensors = (*self.model.parameters(), torch.tensor([*self.val_losses.values()]))
        if not all(tensor.isfinite().all() for tensor in tensors):
            raise TokenmillError(
                f"the weights after step {self.step:,} give no finite loss, and were not saved",
                hint="start another run with a lower learning_rate=",
            )

    def _log(self) -> None:
        """Write a line of metrics, after `_check_losses`."""
        step, seconds, waited = self._at_last_line
        self._at_last_line = (self.step, self._seconds, self._waited)
        took = max(self._seconds - seconds, 1e-9)
        wait = (self._waited - waited) / took
        tokens_per_step = self.config.rows_per_step * self.config.block_size
        speed = tokens_per_step * (self.step - step) / took
        counted = torch.tensor(self._text_bytes.count(self._last_batches), dtype=torch.float64)
        bits = bits_per_byte(self.loss, *sum_over_ranks(counted).tolist())
        stats = self.loader.stats()
        self.record.log(
            {
                "loss": self.loss,
                **({} if bits is None else {"bits_per_byte": bits}),
                "learning_rate": self.optimizer.param_groups[0]["lr"],
                "tokens": self.step * tokens_per_step,
                "epoch": self.loader.epoch,
                "tokens_per_second": round(speed),
                "data_wait": round(wait, 6),
                **{f"wait_{name}": value for name, value in stats["stages"]["wait"].items()},
                "queue_depth": stats["queue_depth"],
            },
            self.step,
            prometheus(self.loader, run=self.config.model_name),
        )
        self._meter.move_to(
            self.step,
            f"loss {self.loss:.4f}, {speed:,.0f} tokens/s, waiting for data {wait:.2%}",
            now=self.step >= self.config.max_iters,
        )

    def _evaluate(self) -> None:
        """Validation losses and a sample of text."""
        self._must_evaluate = bool(self.validations)
        if not self.validations:
            return
        self._check_losses()
        self.model.eval()
        values: dict[str, Any] = {}
        for name, validation in self.validations.items():
            loss = validation.loss(self._sum_of_parts, self.ranks)
            self.val_losses[name] = loss
            values[f"{name}_loss"] = loss
            bits = bits_per_byte(loss, *self._text_bytes.count(validation.batches))
            if bits is not None:
                values[f"{name}_bits_per_byte"] = bits
        self.model.train()
        self._check_weights()
        numbers = ", ".join(f"{name} {number:.4f}" for name, number in values.items())
        self.progress.say(f"step {self.step:,}  {numbers}")
        if self.is_main and self.config.sample_tokens:
            values["sample"] = self.last_sample = self.sample()
        self.record.log(values, self.step)
        self._must_evaluate = False
        if "sample" in values and self.step:
            # In one line and without control characters: text of a model may hold anything.
            line = "".join(c if c.isprintable() else " " for c in values["sample"])[:300]
            self.progress.say(f"  sample: {line}")
        self.record.draw()

    def sample(self) -> str:
        """A few tokens of text from the model as it is now."""
        train = next(iter(self.data.sources.values()))
        start = train.begin_token_id
        end_of_text_id = train.end_of_text_id
        if start is None:
            start = int(train.tokens(0, 1)[0]) if end_of_text_id is None else end_of_text_id
        ids = generate(
            self.model,
            torch.tensor([start], device=self.device),
            self.config.sample_tokens,
            seed=self.config.seed,
            stop_id=end_of_text_id,
            num_ids=getattr(self.data.tokenizer, "vocab_size", None),
        )[1:]
        return self.data.decode(ids.cpu().numpy())

    def _save(self) -> None:
        self._check_losses()
        self._check_weights()
        if self.is_main:
            self.record.sync()  # a run that resumes has the lines before its checkpoint
            checkpoint.save(
                self.config.run_dir,
                step=self.step,
                model=self.model.state_dict(),
                optimizer=self.optimizer.state_dict(),
                state={
                    "config": self.config.to_json(),
                    "vocab_size": self.data.vocab_size,
                    "loader": self.loader.state_dict(),
                    "left_out": self.left_out,
                    "edits": self.edits.entries,
                    "must_evaluate": self._must_evaluate,
                },
                keep=self.config.keep_checkpoints,
            )
            self.record.draw(trained_part(self.loader))
        barrier()

    def restore(self, saved: checkpoint.Checkpoint) -> None:
        """Continue from a checkpoint: weights, optimizer, position in the data."""
        self.loader.load_state_dict(saved.state["loader"])
        self.model.load_state_dict(saved.model)
        self.optimizer.load_state_dict(saved.optimizer)
        self.step = saved.step
        self.left_out = list(saved.state["left_out"])
        num_steps = saved.state["loader"]["samples"] // self.config.rows_per_step
        if num_steps != self.step + len(self.left_out):
            raise FormatError(
                f"the checkpoint of step {self.step:,} is damaged: its loader is at step "
                f"{num_steps:,} of the data, of which {len(self.left_out):,} were left out"
            )
        self.edits.entries = read_entries(saved.state)
        self._must_evaluate = saved.state.get("must_evaluate", False)

    def words_of_step(self) -> str:
        """Say how long a step will take on a CPU, from the time of a few tokens."""
        if self.device.type != "cpu":
            return ""
        few = torch.zeros((1, min(256, self.config.block_size)), dtype=torch.int64)
        with torch.no_grad():
            self.model(few, few)  # starts the threads
            began = time.perf_counter()
            self.model(few, few)
        took = (time.perf_counter() - began) / few.numel()
        tokens = self.loader.batch_size * self.config.block_size
        seconds = 3 * tokens * took  # forward, and twice that backward
        shown = f"about {human_duration(seconds)}" if seconds >= 1 else "less than a second"
        return f"; a step of {plural(tokens, 'token')} takes {shown}"
