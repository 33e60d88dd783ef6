"""A network written as three classes on single numbers: its picture has the layers and neurons that the classes have.

Run it with `python examples/lecture_mlp.py`; look for "layers[1]/neurons[2]". With the name of a file behind it, as in
`python examples/lecture_mlp.py mlp.svg`, it also writes the picture.
"""

import random
import sys

import wiregrad as wg


class Neuron:
    """The tanh of a weighted sum."""

    def __init__(self, nin):
        self.w = [wg.Value(random.uniform(-1, 1)) for _ in range(nin)]
        self.b = wg.Value(random.uniform(-1, 1))

    def __call__(self, x):
        """Return the activation for some numbers."""
        act = sum((wi * xi for wi, xi in zip(self.w, x, strict=True)), self.b)
        return act.tanh()


class Layer:
    """Neurons that read the same numbers."""

    def __init__(self, nin, nout):
        self.neurons = [Neuron(nin) for _ in range(nout)]

    def __call__(self, x):
        """Return one number per neuron."""
        outs = [n(x) for n in self.neurons]
        return outs[0] if len(outs) == 1 else outs


class MLP:
    """Layers one after another."""

    def __init__(self, nin, nouts):
        sizes = [nin, *nouts]
        self.layers = [Layer(sizes[i], sizes[i + 1]) for i in range(len(nouts))]

    def __call__(self, x):
        """Return what the last layer returns."""
        for layer in self.layers:
            x = layer(x)
        return x


def make_run():
    """Run a small network at a point."""
    random.seed(1)
    model = MLP(2, [3, 3, 1])
    return wg.run(model, [2.0, -1.0])


if __name__ == "__main__":
    run = make_run()
    print(run.flow())
    for path in sys.argv[1:]:
        with open(path, "w", encoding="utf-8") as file:
            file.write(run.to_svg(depth=1))
