"""Draw docs/pictures/resume.svg: one run on 1, 4 and 2 ranks, with the windows that were served.

    python scripts/draw_resume.py

The numbers in the picture are those of loaders that were stopped and resumed here; the script ends
with an error if a run that was never stopped has others. The greys can be read on white and black.
"""

import sys
from pathlib import Path

import numpy as np

import tokenmill
from tokenmill.batches.batch import Batch

PICTURE = Path(__file__).parents[1] / "docs" / "pictures" / "resume.svg"
ROWS = 4  # of a step, over all ranks
PARTS = [(1, 3, "1 GPU"), (4, 4, "4 GPUs"), (2, 3, "2 GPUs")]  # ranks, steps, title
COLOURS = ["#2f81f7", "#bf6900", "#238636", "#8250df"]
GREY = "#7d8590"
CELL = 46
LEFT, TOP = 92, 58


def loader(rank: int = 0, world_size: int = 1) -> tokenmill.BatchLoader:
    """Return the loader of one rank; a step has the same number of rows on any number of ranks."""
    data = tokenmill.from_array(np.arange(10 * ROWS * 8 + 1, dtype=np.uint16))
    size = ROWS // world_size
    return tokenmill.BatchLoader(
        data, block_size=8, batch_size=size, rank=rank, world_size=world_size
    )


def windows(batch: Batch) -> list[int]:
    """Return the numbers of the windows of a batch: token n of the data is n."""
    return [int(row[0]) // 8 for row in batch.inputs]


def served() -> list[list[tuple[int, int]]]:
    """Return (rank, window) of the rows of each step; every part resumes from the one before."""
    steps, state = [], None
    for ranks, count, _ in PARTS:
        loaders = [loader(rank, ranks) for rank in range(ranks)]
        for each in loaders:
            if state is not None:
                each.load_state_dict(state)
        for _ in range(count):
            rows = [(rank, w) for rank, each in enumerate(loaders) for w in windows(next(each))]
            steps.append(rows)
        state = loaders[0].state_dict()
    return steps


def text(x: float, y: float, words: str, colour: str = GREY, size: int = 15, more: str = "") -> str:
    """Return a line of text, in grey unless it says otherwise."""
    return f'<text x="{x}" y="{y}" fill="{colour}" font-size="{size}" {more}>{words}</text>'


def drawing(steps: list[list[tuple[int, int]]]) -> str:
    """Return the picture: a column for each step, a square for each row."""
    parts, x, step = [], float(LEFT), 0
    middle = 'text-anchor="middle"'
    for number, (_, count, title) in enumerate(PARTS):
        parts.append(
            text(x + count * CELL / 2, 28, title, size=17, more=f'{middle} font-weight="600"')
        )
        for rows in steps[step : step + count]:
            for row, (rank, window) in enumerate(rows):
                y = TOP + row * CELL
                parts.append(
                    f'<rect x="{x + 2}" y="{y + 2}" width="{CELL - 4}" height="{CELL - 4}" rx="6" '
                    f'fill="{COLOURS[rank]}"/>'
                )
                place = (x + CELL / 2, y + CELL / 2 + 5)
                parts.append(text(*place, str(window), "#ffffff", 15, middle))
            below = TOP + ROWS * CELL + 20
            parts.append(text(x + CELL / 2, below, str(step), more=middle, size=14))
            x += CELL
            step += 1
        if number < len(PARTS) - 1:
            y = TOP + ROWS * CELL / 2 + 5
            parts.append(text(x + 32, y - 12, "killed,", more=middle, size=13))
            parts.append(text(x + 32, y + 6, "resumed", more=middle, size=13))
            x += 64
    parts.append(text(8, TOP + ROWS * CELL + 20, "step", size=14))
    parts.append(text(8, TOP + 22, "windows", size=14))
    parts.append(text(8, TOP + 40, "of text", size=14))
    words = "A colour is a GPU. The numbers are those of a run that never stopped."
    parts.append(text(LEFT, TOP + ROWS * CELL + 50, words, size=14))
    width, height = x + 12, TOP + ROWS * CELL + 64
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height:.0f}" '
    head += (
        'role="img" aria-label="One run on 1, 4 and 2 GPUs" font-family="system-ui, sans-serif">'
    )
    return "\n".join([head, *parts, "</svg>", ""])


def main() -> None:
    """Compare the parts with one run, and write the picture."""
    steps = served()
    whole = loader()
    if [windows(next(whole)) for _ in steps] != [[window for _, window in rows] for rows in steps]:
        sys.exit("the resumed runs served other windows")
    PICTURE.write_text(drawing(steps), encoding="utf-8")


if __name__ == "__main__":
    main()
