"""wiregrad: autodiff you can see through.

A formula or a hand-built circuit runs forward and backward, and every wire can be looked at: its value, its local
derivative, the gradient that came back along it.

>>> import wiregrad as wg
>>> run = wg.circuit("e = a + b; f = e * c").run(a=2, b=-3, c=10)
>>> run.grads
{'a': 10.0, 'b': 10.0, 'c': -1.0}
"""

from wiregrad import ops
from wiregrad.api import Builder, Circuit, Run, circuit
from wiregrad.errors import WiregradError

__version__ = "0.1.0.dev0"

__all__ = ["Builder", "Circuit", "Run", "WiregradError", "circuit", "ops"]
