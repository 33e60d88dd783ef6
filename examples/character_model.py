"""A character language model: a small transformer reads wiregrad's own documentation and goes on writing it.

It sees 64 characters and predicts, at each of them, the next one. What it learns is seen in its samples: first letters,
then words, then Markdown. Bits per character is the measure: guessing by frequency alone takes about 5.

`python examples/character_model.py` trains for some seconds; look for "below 4.5 bits per character".
`python examples/character_model.py full` trains for some minutes.
"""

import sys
from pathlib import Path

import numpy as np

import wiregrad as wg
from wiregrad import nn, optim

CONTEXT = 64
WIDTH = 64
HEADS = 4
BATCH = 16
RATE = 3e-3


class CharacterModel(nn.Module):
    """Embeddings of characters and places, blocks of attention, and a score for each character that may be next."""

    def __init__(self, characters, blocks, rng):
        kind = {"rng": rng, "dtype": np.float32}
        self.characters = nn.Embedding(characters, WIDTH, **kind)
        self.places = nn.Embedding(CONTEXT, WIDTH, **kind)
        self.blocks = [
            nn.TransformerBlock(WIDTH, HEADS, 4 * WIDTH, dropout=0.0, batch_first=True, norm_first=True, **kind)
            for _ in range(blocks)
        ]
        self.norm = nn.LayerNorm(WIDTH, dtype=np.float32)
        self.head = nn.Linear(WIDTH, characters, **kind)

    def forward(self, text):
        """Return scores (batch, places, characters) for what follows each character of a text (batch, places)."""
        length = text.shape[1]
        is_later = np.triu(np.ones((length, length), bool), 1)
        x = self.characters(text) + self.places(np.arange(length))
        for block in self.blocks:
            x = block(x, src_mask=is_later)
        return self.head(self.norm(x))


def read_text():
    """Return the documentation as one text."""
    pages = Path(__file__).parent.parent / "docs"
    return "\n".join(page.read_text(encoding="utf-8") for page in sorted(pages.glob("*.md")))


def draw_batch(codes, rng):
    """Return pieces of a text, and the same pieces one character on."""
    starts = rng.integers(0, len(codes) - CONTEXT, BATCH)
    pieces = codes[starts[:, None] + np.arange(CONTEXT + 1)]
    return pieces[:, :-1], pieces[:, 1:]


def train(model, codes, rng, steps):
    """Train the model in place; returns the bits per character of every step."""
    adam = optim.Adam(model.parameters(), lr=RATE)
    schedule = optim.CosineAnnealingLR(adam, steps)
    take_step = optim.CompiledStep(model, compute_bits, adam)
    losses = []
    for step in range(1, steps + 1):
        losses.append(take_step(*draw_batch(codes, rng)))
        schedule.step()
        if step % (steps // 8) == 0:
            print(f"step {step:5}  {np.mean(losses[-steps // 8 :]):.3f} bits per character", flush=True)
    return losses


def compute_bits(model, text, following):
    """Return the loss in bits per character."""
    scores = model(text)
    return nn.cross_entropy(np.swapaxes(scores, 1, 2), following) / np.log(2.0)


def write_on(model, codes, count, rng):
    """Return some characters that the model writes behind a text of at least a context."""
    codes = list(codes)
    with wg.no_grad():
        for _ in range(count):
            scores = model(np.array([codes[-CONTEXT:]])).data[0, -1].astype(float)
            chances = np.exp(1.25 * (scores - np.max(scores)))
            codes.append(int(rng.choice(len(scores), p=chances / np.sum(chances))))
    return codes[-count:]


def main(full=False):
    """Train, measure on pages that were not trained on, and print what the model writes."""
    rng = np.random.default_rng(0)
    text = read_text()
    alphabet = sorted(set(text))
    codes = np.array([alphabet.index(character) for character in text])
    trained, tested = codes[: len(codes) * 9 // 10], codes[len(codes) * 9 // 10 :]
    model = CharacterModel(len(alphabet), 3 if full else 1, rng)
    losses = train(model, trained, rng, 4000 if full else 200)
    with wg.no_grad():
        bits = np.mean([compute_bits(model, *draw_batch(tested, rng)).data for _ in range(8)])
    print(
        f"on new pages {bits:.2f} bits per character; the model goes on behind the first {CONTEXT} characters of them:"
    )
    shown = [*tested[:CONTEXT], *write_on(model, tested[:CONTEXT], 600 if full else 100, rng)]
    print("".join(alphabet[code] for code in shown))
    bound = 2.5 if full else 4.5
    if bits < bound:
        print(f"below {bound} bits per character")
    return {"bits per character": {"training": losses}}


if __name__ == "__main__":
    main("full" in sys.argv)
