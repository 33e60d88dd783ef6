"""A character model with a long short-term memory, in the style of a tutorial: one step at a time, gates by name."""

import numpy as np
from scipy.special import logsumexp

TEXT = "the quick brown fox jumps over the lazy dog. pack my box with five dozen jugs. "
HIDDEN, LENGTH = 24, 30
GATES = ("forget", "input", "output", "change")


def sigmoid(x):
    """Return the logistic function, written so that it does not overflow."""
    return 0.5 * (np.tanh(0.5 * x) + 1.0)


def encode(text, alphabet):
    """Return one-hot rows of characters."""
    return np.eye(len(alphabet))[[alphabet.index(c) for c in text]]


def cut_batches(text, alphabet):
    """Return inputs of the shape (step, sequence, character)."""
    starts = range(0, len(text) - LENGTH, 7)
    sequences = [encode(text[s : s + LENGTH], alphabet) for s in starts]
    return np.stack(sequences, axis=1)


def lstm_step(params, x, hidden, cell):
    """Return hidden state and cell after one character."""
    joined = np.concatenate([x, hidden, np.ones((x.shape[0], 1))], axis=1)
    forget = sigmoid(joined @ params["forget"])
    take = sigmoid(joined @ params["input"])
    show = sigmoid(joined @ params["output"])
    change = np.tanh(joined @ params["change"])
    cell = forget * cell + take * change
    return show * np.tanh(cell), cell


def predict(params, inputs):
    """Return the log probabilities of the next character at each step."""
    batch = inputs.shape[1]
    hidden = np.repeat(params["first_hidden"][None, :], batch, axis=0)
    cell = np.repeat(params["first_cell"][None, :], batch, axis=0)
    outputs = []
    for x in inputs:
        logits = hidden @ params["readout"] + params["readout_bias"]
        outputs.append(logits - logsumexp(logits, axis=1, keepdims=True))
        hidden, cell = lstm_step(params, x, hidden, cell)
    return outputs


def draw_parameters(rng, symbols):
    """Return all matrices by name."""
    size = symbols + HIDDEN + 1
    params = {gate: rng.normal(size=(size, HIDDEN)) / np.sqrt(size) for gate in GATES}
    params["first_hidden"] = 0.1 * rng.normal(size=HIDDEN)
    params["first_cell"] = 0.1 * rng.normal(size=HIDDEN)
    params["readout"] = rng.normal(size=(HIDDEN, symbols)) / np.sqrt(HIDDEN)
    params["readout_bias"] = np.zeros(symbols)
    return params


def make_problem(seed):
    """Return the loss per character and the parameters."""
    alphabet = sorted(set(TEXT))
    inputs = cut_batches(TEXT, alphabet)
    params = draw_parameters(np.random.default_rng(seed), len(alphabet))

    def loss(params):
        total = 0.0
        for t, log_probs in enumerate(predict(params, inputs)):
            total -= np.sum(log_probs * inputs[t])
        return total / (inputs.shape[0] * inputs.shape[1])

    return loss, (params,)
