"""A neuron, step by step: o = tanh(x1*w1 + x2*w2 + b).

Run it with `python examples/neuron.py`; look for "sends -1.5 to x1".
"""

import wiregrad as wg

circuit = wg.circuit("n = x1*w1 + x2*w2 + b; o = tanh(n)")
run = circuit.run(x1=2, w1=-3, x2=0, w2=1, b=6.8813735870195432)

for step in run.steps():
    print(f"{step.phase:8}  {step}")

print("\nThe same circuit backward, as a circuit:\n")
print(circuit.backward_circuit().simplify())
